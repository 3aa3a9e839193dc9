// Package plain reads, writes and compares JSON objects as trees of maps, which is what custom objects are. It does what encoding/json and
// sigs.k8s.io/json do, several times faster, for what is usual; what is not it leaves to them, errors and their words above all.
package plain

import (
	"encoding/json"
	"strconv"
	"unicode/utf8"
)

// maxDepth bounds what is read here. Deeper trees are for the library.
const maxDepth = 500

// Decode reads a JSON object as sigs.k8s.io/json does with UnmarshalStrict: numbers are int64 where they are whole, and float64. ok is false
// for what that would refuse or tell problems of, as fields that occur twice, and for some of what is unusual. The strings in the tree are
// parts of one copy of the data.
func Decode(data []byte) (object map[string]any, ok bool) {
	if !utf8.Valid(data) {
		return nil, false
	}
	d := decoder{text: string(data)}
	d.space()
	if d.peek() != '{' {
		return nil, false
	}
	object, ok = d.object(0)
	if d.space(); !ok || d.at != len(d.text) {
		return nil, false
	}
	return object, true
}

type decoder struct {
	text string
	at   int
}

// peek returns the next byte; 0 is the end, too, which no value begins with.
func (d *decoder) peek() byte {
	if d.at < len(d.text) {
		return d.text[d.at]
	}
	return 0
}

func (d *decoder) space() {
	for d.at < len(d.text) {
		switch d.text[d.at] {
		case ' ', '\n', '\t', '\r':
			d.at++
		default:
			return
		}
	}
}

// takes skips a byte and the space behind it, if it is the next.
func (d *decoder) takes(c byte) bool {
	if d.peek() != c {
		return false
	}
	d.at++
	d.space()
	return true
}

func (d *decoder) word(word string) bool {
	if len(d.text)-d.at < len(word) || d.text[d.at:d.at+len(word)] != word {
		return false
	}
	d.at += len(word)
	return true
}

func (d *decoder) value(depth int) (value any, ok bool) {
	switch c := d.peek(); {
	case c == '"':
		return d.string()
	case c == '{':
		return d.object(depth + 1)
	case c == '[':
		return d.array(depth + 1)
	case c == 't':
		return true, d.word("true")
	case c == 'f':
		return false, d.word("false")
	case c == 'n':
		return nil, d.word("null")
	case c == '-' || '0' <= c && c <= '9':
		return d.number()
	}
	return nil, false
}

func (d *decoder) object(depth int) (map[string]any, bool) {
	d.at++
	d.space()
	object := map[string]any{}
	if depth > maxDepth {
		return nil, false
	}
	if d.takes('}') {
		return object, true
	}
	for {
		if d.peek() != '"' {
			return nil, false
		}
		name, ok := d.string()
		if d.space(); !ok || !d.takes(':') {
			return nil, false
		}
		value, ok := d.value(depth)
		if !ok {
			return nil, false
		}
		size := len(object)
		if object[name] = value; len(object) == size {
			return nil, false // it occurs twice
		}
		d.space()
		if d.peek() == '}' {
			d.at++
			return object, true
		}
		if !d.takes(',') {
			return nil, false
		}
	}
}

func (d *decoder) array(depth int) ([]any, bool) {
	d.at++
	d.space()
	if depth > maxDepth {
		return nil, false
	}
	array := []any{}
	if d.peek() == ']' {
		d.at++
		return array, true
	}
	for {
		value, ok := d.value(depth)
		if !ok {
			return nil, false
		}
		array = append(array, value)
		d.space()
		if d.peek() == ']' {
			d.at++
			return array, true
		}
		if !d.takes(',') {
			return nil, false
		}
	}
}

func (d *decoder) string() (string, bool) {
	start := d.at + 1
	for i := start; i < len(d.text); i++ {
		switch c := d.text[i]; {
		case c == '"':
			d.at = i + 1
			return d.text[start:i], true
		case c == '\\':
			return d.escaped(start)
		case c < ' ':
			return "", false
		}
	}
	return "", false
}

// escaped reads a string that has escapes in it.
func (d *decoder) escaped(start int) (s string, ok bool) {
	for i := start; i < len(d.text); i++ {
		switch d.text[i] {
		case '\\':
			i++
		case '"':
			d.at = i + 1
			return s, json.Unmarshal([]byte(d.text[start-1:i+1]), &s) == nil
		}
	}
	return "", false
}

func (d *decoder) number() (any, bool) {
	start := d.at
	whole := true
	for ; d.at < len(d.text); d.at++ {
		switch c := d.text[d.at]; {
		case '0' <= c && c <= '9' || c == '-' && d.at == start:
			continue
		case c == '.' || c == 'e' || c == 'E' || c == '+' || c == '-':
			whole = false
			continue
		}
		break
	}
	text := d.text[start:d.at]
	digits := text
	if digits[0] == '-' {
		digits = digits[1:]
	}
	if digits == "" || digits[0] == '0' && (len(digits) > 1 || len(text) > 1) {
		// 0.5 and the like, -0, and what is no number.
		if whole || len(digits) < 2 || digits[1] != '.' {
			return nil, false
		}
	}
	if whole {
		n, err := strconv.ParseInt(text, 10, 64)
		return n, err == nil
	}
	if !json.Valid([]byte(text)) {
		return nil, false
	}
	f, err := strconv.ParseFloat(text, 64)
	return f, err == nil
}
