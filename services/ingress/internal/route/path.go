package route

import (
	"strings"
)

// canonical returns the one way of writing a percent-encoded path that is compared: every character as itself, but for slashes within an element and
// percent signs. Paths of rules are written like this, too.
func canonical(path string) string {
	if !strings.Contains(path, "%") {
		return path
	}
	out := make([]byte, 0, len(path))
	for i := 0; i < len(path); i++ {
		c, ok := decoded(path[i:])
		switch {
		case !ok:
			out = append(out, path[i])
			continue
		case c == '/':
			out = append(out, "%2F"...)
		case c == '%':
			out = append(out, "%25"...)
		default:
			out = append(out, c)
		}
		i += 2
	}
	return string(out)
}

// decoded returns the character that text begins with as %XX.
func decoded(text string) (byte, bool) {
	if len(text) < 3 || text[0] != '%' {
		return 0, false
	}
	high, ok1 := digit(text[1])
	low, ok2 := digit(text[2])
	return high<<4 | low, ok1 && ok2
}

func digit(c byte) (byte, bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10, true
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}

// Climbs reports whether a percent-encoded path has elements "." or "..": a backend might take it for another path than that which was looked up.
func Climbs(path string) bool {
	if !strings.Contains(path, "/.") && !strings.Contains(path, "%") {
		return false
	}
	for element := range strings.SplitSeq(canonical(path), "/") {
		if element == "." || element == ".." {
			return true
		}
	}
	return false
}

// elements parts a prefix, whose last slash says nothing.
func elements(prefix string) []string {
	prefix = strings.Trim(prefix, "/")
	if prefix == "" {
		return nil
	}
	return strings.Split(prefix, "/")
}
