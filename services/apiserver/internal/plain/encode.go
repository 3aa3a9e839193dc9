package plain

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Append appends the JSON of a tree as encoding/json would write it: with its keys in order, without spaces, and, where html is set, with
// <, > and & escaped. ok is false for a tree with anything in it that Decode does not make, and for numbers that JSON has not.
func Append(b []byte, value any, html bool) (out []byte, ok bool) {
	return encoder{html}.append(b, value, 0)
}

type encoder struct{ html bool }

func (e encoder) append(b []byte, value any, depth int) ([]byte, bool) {
	if depth > maxDepth {
		return b, false
	}
	switch v := value.(type) {
	case nil:
		return append(b, "null"...), true
	case string:
		return e.text(b, v)
	case bool:
		return strconv.AppendBool(b, v), true
	case int64:
		return strconv.AppendInt(b, v, 10), true
	case float64:
		text, err := json.Marshal(v)
		return append(b, text...), err == nil
	case map[string]any:
		return e.object(b, v, depth)
	case []any:
		return e.array(b, v, depth)
	}
	return b, false
}

func (e encoder) array(b []byte, v []any, depth int) ([]byte, bool) {
	if v == nil {
		return append(b, "null"...), true
	}
	b = append(b, '[')
	ok := true
	for i := range v {
		if i > 0 {
			b = append(b, ',')
		}
		if b, ok = e.append(b, v[i], depth+1); !ok {
			return b, false
		}
	}
	return append(b, ']'), true
}

func (e encoder) object(b []byte, v map[string]any, depth int) ([]byte, bool) {
	switch len(v) {
	case 0:
		if v == nil {
			return append(b, "null"...), true
		}
		return append(b, "{}"...), true
	case 1:
		for name, value := range v {
			b, _ = e.text(append(b, '{'), name)
			b, ok := e.append(append(b, ':'), value, depth+1)
			return append(b, '}'), ok
		}
	}
	keys := names.Get().(*[]string)
	defer func() { clear(*keys); names.Put(keys) }()
	*keys = (*keys)[:0]
	for name := range v {
		*keys = append(*keys, name)
	}
	slices.Sort(*keys)
	b = append(b, '{')
	ok := true
	for i, name := range *keys {
		if i > 0 {
			b = append(b, ',')
		}
		b, _ = e.text(b, name)
		if b, ok = e.append(append(b, ':'), v[name], depth+1); !ok {
			return b, false
		}
	}
	return append(b, '}'), true
}

// names hold the keys of a map while they are put in order.
var names = sync.Pool{New: func() any { return new([]string) }}

func (e encoder) text(b []byte, s string) ([]byte, bool) {
	start, from := len(b), 0
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\': // as the keys of managed fields have
			b = append(append(b, s[from:i]...), '\\', c)
			from = i + 1
		case e.html && (c == '<' || c == '>' || c == '&'): // as tables say that there is none of something
			b = append(append(b, s[from:i]...), `\u00`...)
			b = append(b, hexadecimal[c>>4], hexadecimal[c&0xf])
			from = i + 1
		case c < ' ' || c >= 0x7f:
			return e.unusual(b[:start], s), true
		}
	}
	return append(append(b, s[from:]...), '"'), true
}

const hexadecimal = "0123456789abcdef"

// unusual writes a string that has something to escape.
func (e encoder) unusual(b []byte, s string) []byte {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(e.html)
	_ = encoder.Encode(s) // a string can be encoded
	return append(b, strings.TrimSuffix(buffer.String(), "\n")...)
}
