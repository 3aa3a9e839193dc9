package codec

import (
	"bytes"

	"howdah.dev/services/apiserver/internal/plain"
)

// maxKey is how long a key may be: YAML wants the colon within 1,024 characters.
const maxKey = 500

// flow reads a body of YAML that is JSON, as what clients apply is most of the time. ok is false where the two might not mean the same, and
// for all that is wrong: YAML escapes, breaks and numbers otherwise, and has its own words for errors.
func flow(body []byte) (object map[string]any, ok bool) {
	if !plainly(body) {
		return nil, false
	}
	return plain.Decode(body)
}

// plainly reports whether a JSON text has nothing in it but printable ASCII, escapes and numbers that YAML reads alike.
func plainly(body []byte) bool {
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case c == '"':
			end := plainText(body[i+1:])
			if end < 0 || end > maxKey && i+end+2 < len(body) && body[i+end+2] == ':' {
				return false
			}
			if string(body[i+1:i+1+end]) == "<<" || bytes.HasPrefix(bytes.TrimLeft(body[i+end+2:], " "), []byte("\n")) && breaksKey(body[i+end+2:]) {
				return false
			}
			i += end + 1
		case c == '.' || c == 'E' || c == '+':
			return false // a fraction or an exponent
		case '0' <= c && c <= '9':
			digits := 1
			for i+1 < len(body) && '0' <= body[i+1] && body[i+1] <= '9' {
				i++
				digits++
			}
			if digits > 18 {
				return false
			}
		case c == 'e' && i > 0 && '0' <= body[i-1] && body[i-1] <= '9':
			return false
		case c != '\n' && (c < ' ' || c >= 0x7f):
			return false
		}
	}
	return true
}

// plainText returns where a string ends, or -1 where it has something in it that is not plain.
func plainText(text []byte) int {
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			return i
		case c == '\\':
			if i++; i == len(text) || bytes.IndexByte([]byte(`"\nt`), text[i]) < 0 {
				return -1
			}
		case c < ' ' || c >= 0x7f:
			return -1
		}
	}
	return -1
}

// breaksKey reports whether a colon stands behind breaks and spaces, which YAML does not take for that of a key before them.
func breaksKey(text []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(text, " \n"), []byte(":"))
}
