package custom

import (
	"bytes"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"howdah.dev/services/apiserver/internal/plain"
)

// maxDepth bounds how deep a stored object is walked without decoding it.
const maxDepth = 500

// Answer implements registry.Custom. What is stored was written by Encode, so that it is nearly always what decoding, pruning, defaulting and
// encoding it again would give, but for the resourceVersion: one look at the text, without a tree, tells whether it is.
func (v *version) Answer(to, value []byte, revision string) ([]byte, bool) {
	if v.raw {
		return to, false
	}
	c, err := v.schema()
	if err != nil || c.shape == nil || c.shape.hard&(unpruned|undefaulted) != 0 {
		return to, false
	}
	w := walk{text: value}
	if !w.whole(c.shape, v.gvk().GroupVersion().String()) || w.at != len(value) {
		return to, false
	}
	to = slices.Grow(to, len(value)+len(`,"resourceVersion":""`)+len(revision)+1) // and a newline
	to = append(to, value[:w.place]...)
	if value[w.place] == '}' {
		to = append(append(append(to, `,"resourceVersion":"`...), revision...), '"')
	} else {
		to = append(append(append(to, `"resourceVersion":"`...), revision...), `",`...)
	}
	return append(to, value[w.place:]...), true
}

// walk reads a JSON text from its beginning. Its methods report whether what follows is as plain.Append writes it, with nothing in it that
// encoders may write in different ways: spaces, numbers that would be written in other digits, escapes but the short ones, characters that HTML escapes.
type walk struct {
	text  []byte
	at    int
	place int // in the metadata, where the resourceVersion belongs
}

// whole walks an object of an API version, and needs its kind and metadata.
func (w *walk) whole(n *shape, apiVersion string) bool {
	var typed, versioned, described bool
	ok := w.content(n, 0, func(name []byte) (known, ok bool) {
		switch string(name) {
		case "apiVersion":
			text, ok := w.string()
			versioned = string(text) == apiVersion
			return true, ok
		case "kind":
			_, typed = w.string()
			return true, typed
		case "metadata":
			described = w.metadata()
			return true, described
		}
		return false, true
	})
	return ok && typed && versioned && described
}

// metadata walks metadata without a resourceVersion, and finds its place.
func (w *walk) metadata() bool {
	const own = "resourceVersion"
	fields, absent := 0, true
	ok := w.object(func(name []byte) bool {
		fields++
		switch {
		case string(name) == own:
			absent = false
		case w.place == 0 && string(name) > own:
			w.place = w.at - len(name) - len(`"":`)
		}
		return w.any(1)
	})
	if w.place == 0 {
		w.place = w.at - len("}")
	}
	return ok && absent && fields > 0
}

// value walks a value that a schema is for. It has to be of the schema's type, pruned and with its defaults.
func (w *walk) value(n *shape, depth int) bool {
	if n.hard&(unpruned|undefaulted) != 0 || w.at == len(w.text) || depth > maxDepth {
		return false
	}
	switch c := w.text[w.at]; {
	case c == 'n':
		return n.nullable && n.enum == nil && w.word("null")
	case n.of == "any":
		return w.any(depth)
	case c == '{':
		return n.of == "object" && w.content(n, depth, func([]byte) (bool, bool) { return false, true })
	case c == '[':
		return n.of == "array" && w.array(func() bool { return w.value(n.values, depth+1) })
	case c == '"':
		_, ok := w.string()
		return ok && (n.of == "string" || n.of == "int-or-string")
	case c == 't' || c == 'f':
		return n.of == "boolean" && (w.word("true") || w.word("false"))
	}
	switch n.of {
	case "integer", "int-or-string":
		return w.whole64()
	case "number":
		return w.number()
	}
	return false
}

// content walks an object by the fields of a schema but for those that special knows, which walks their values itself.
func (w *walk) content(n *shape, depth int, special func(name []byte) (known, ok bool)) bool {
	given := 0
	ok := w.object(func(name []byte) bool {
		if known, ok := special(name); known || !ok {
			return ok
		}
		if bytes.IndexByte(name, '\\') >= 0 {
			return false
		}
		for _, field := range n.defaults {
			if field == string(name) {
				given++
			}
		}
		switch field := n.fields[string(name)]; {
		case field != nil:
			return w.value(field, depth+1)
		case n.values != nil:
			return w.value(n.values, depth+1)
		}
		return n.open && w.any(depth+1)
	})
	return ok && given == len(n.defaults)
}

// any walks a value of any type.
func (w *walk) any(depth int) bool {
	if w.at == len(w.text) || depth > maxDepth {
		return false
	}
	switch w.text[w.at] {
	case '{':
		return w.object(func([]byte) bool { return w.any(depth + 1) })
	case '[':
		return w.array(func() bool { return w.any(depth + 1) })
	case '"':
		_, ok := w.string()
		return ok
	case 't':
		return w.word("true")
	case 'f':
		return w.word("false")
	case 'n':
		return w.word("null")
	}
	return w.number()
}

// object calls field behind each name, which is as it stands in the text. Names have to be in order.
func (w *walk) object(field func(name []byte) bool) bool {
	if !w.word("{") {
		return false
	}
	var last []byte
	for first := true; !w.word("}"); first = false {
		if !first && !w.word(",") {
			return false
		}
		name, ok := w.name()
		if !ok || !first && !before(last, name) || !w.word(":") || !field(name) {
			return false
		}
		last = name
	}
	return true
}

func (w *walk) array(item func() bool) bool {
	if !w.word("[") {
		return false
	}
	for first := true; !w.word("]"); first = false {
		if !first && !w.word(",") || !item() {
			return false
		}
	}
	return true
}

// word skips a text that follows.
func (w *walk) word(word string) bool {
	if len(w.text)-w.at < len(word) || string(w.text[w.at:w.at+len(word)]) != word {
		return false
	}
	w.at += len(word)
	return true
}

// name is string for the name of a field, with no escapes but of quotes and backslashes: it has to be in order.
func (w *walk) name() (text []byte, ok bool) {
	text, ok = w.string()
	for i := 0; ok && i < len(text); i++ {
		if text[i] == '\\' {
			i++
			ok = text[i] == '"' || text[i] == '\\'
		}
	}
	return text, ok
}

// string returns what stands between quotes, with its escapes.
func (w *walk) string() (text []byte, ok bool) {
	if !w.word(`"`) {
		return nil, false
	}
	for start := w.at; w.at < len(w.text); w.at++ {
		switch c := w.text[w.at]; {
		case c == '"':
			w.at++
			return w.text[start : w.at-1], true
		case c == '\\':
			if w.at++; w.at == len(w.text) || strings.IndexByte(`"\bfnrt`, w.text[w.at]) < 0 {
				return nil, false
			}
		case c >= utf8.RuneSelf:
			r, size := utf8.DecodeRune(w.text[w.at:])
			if r == utf8.RuneError && size == 1 || r == '\u2028' || r == '\u2029' { // which are escaped for JavaScript
				return nil, false
			}
			w.at += size - 1
		case c < ' ' || c == '<' || c == '>' || c == '&':
			return nil, false
		}
	}
	return nil, false
}

// number skips a number.
func (w *walk) number() bool {
	start := w.at
	if w.whole64() {
		return true
	}
	w.at = start
	for w.at < len(w.text) && strings.IndexByte("+-.0123456789eE", w.text[w.at]) >= 0 {
		w.at++
	}
	text := w.text[start:w.at]
	if !bytes.ContainsAny(text, ".eE") { // too large, or with zeros before it
		return false
	}
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		return false
	}
	var room [32]byte
	again, ok := plain.Append(room[:0], f, false)
	return ok && bytes.Equal(again, text)
}

// maxDigits is how many digits surely make an int64.
const maxDigits = 18

// whole64 skips a whole number.
func (w *walk) whole64() bool {
	negative := w.word("-")
	start := w.at
	for w.at < len(w.text) && '0' <= w.text[w.at] && w.text[w.at] <= '9' {
		w.at++
	}
	digits := w.at - start
	if digits == 0 || digits > maxDigits || w.text[start] == '0' && (digits > 1 || negative) {
		return false
	}
	return w.at == len(w.text) || w.text[w.at] != '.' && w.text[w.at] != 'e' && w.text[w.at] != 'E'
}

// before reports whether a name stands before another one, both with their escapes.
func before(a, b []byte) bool {
	i, j := 0, 0
	for ; i < len(a) && j < len(b); i, j = i+1, j+1 {
		if a[i] == '\\' {
			i++
		}
		if b[j] == '\\' {
			j++
		}
		if a[i] != b[j] {
			return a[i] < b[j]
		}
	}
	return i == len(a) && j < len(b)
}
