// Package splice applies JSON patches to the text of an object, of which only what a patch names is read: the rest is copied as it is. The library
// takes apart every object and list on the way, and encodes the whole anew.
package splice

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
)

// maxOperations is how many operations are worth it: each copies the text.
const maxOperations = 64

// Apply applies operations to an object, valid JSON as encoding/json writes it, which it leaves as it is. What it returns is what the library would
// make of them, but for the order of fields. ok is false for what is left to the library: all that fails, for its words, operations that copy or move,
// those about the object itself or its own fields, as its kind, and values or fields that are null, twice there or written with escapes.
func Apply(before []byte, operations jsonpatch.Patch) (after []byte, ok bool) {
	if len(operations) > maxOperations {
		return nil, false
	}
	after = before
	for _, o := range operations {
		if after, ok = apply(after, o); !ok {
			return nil, false
		}
	}
	return after, true
}

func apply(text []byte, o jsonpatch.Operation) ([]byte, bool) {
	path, err := o.Path()
	if err != nil {
		return nil, false
	}
	steps := strings.Split(path, "/")
	if len(steps) < 3 || steps[0] != "" {
		return nil, false
	}
	steps = steps[1:]
	for i, s := range steps {
		steps[i] = decoded.Replace(s)
	}
	s := &scanner{text: text}
	parent, last := steps[:len(steps)-1], steps[len(steps)-1]
	for _, step := range parent {
		place, found := s.find(step)
		if !found || !place.there {
			return nil, false
		}
		s.at = place.value
	}
	place, found := s.find(last)
	if !found {
		return nil, false
	}
	if o.Kind() == "remove" {
		if !place.there {
			return nil, false
		}
		return s.removed(place), true
	}
	given := o["value"]
	if given == nil || bytes.Equal(*given, null) {
		return nil, false
	}
	value := []byte(*given)
	switch o.Kind() {
	case "add":
		if place.there && !place.list {
			return s.replaced(place, value), true
		}
		return s.inserted(place, last, value)
	case "replace":
		if place.there {
			return s.replaced(place, value), true
		}
		if !place.list { // the library sets it
			return s.inserted(place, last, value)
		}
	case "test":
		// Values that are written differently may be equal.
		return text, place.there && bytes.Equal(text[place.value:place.end], value)
	}
	return nil, false
}

var (
	null    = []byte("null")
	decoded = strings.NewReplacer("~1", "/", "~0", "~")
)

// place is where something is, or would be, in an object or a list.
type place struct {
	list  bool
	there bool
	// first and empty say what is before and behind it: it is the first of its parent, which has no others.
	first, empty bool
	// start is where it begins, with its name; value and end are those of its value. Of what is not there, all are where it would begin.
	start, value, end int
}

// scanner reads the value that begins at a place of a text.
type scanner struct {
	text []byte
	at   int
}

// find looks for a step of a path in the value. ok is false where it cannot be told from the text.
func (s *scanner) find(step string) (p place, ok bool) {
	i := s.space(s.at)
	switch s.byte(i) {
	case '{':
		return s.member(i, step)
	case '[':
		return s.element(i, step)
	}
	return p, false
}

// member looks for the field of the object that begins at i.
func (s *scanner) member(i int, name string) (p place, ok bool) {
	i = s.space(i + 1)
	for n := 0; ; n++ {
		if s.byte(i) == '}' {
			if !p.there {
				p = place{start: i, value: i, end: i, first: n == 0, empty: n == 0}
			}
			p.empty = n == 0
			return p, true
		}
		start := i
		key, i2 := s.string(i)
		if i2 < 0 || bytes.IndexByte(key, '\\') >= 0 {
			return p, false
		}
		if i = s.space(i2); s.byte(i) != ':' {
			return p, false
		}
		value := s.space(i + 1)
		end := s.skip(value)
		if end < 0 {
			return p, false
		}
		if string(key) == name {
			if p.there || bytes.Equal(s.text[value:end], null) {
				return p, false
			}
			p = place{there: true, start: start, value: value, end: end, first: n == 0}
		}
		if i = s.space(end); s.byte(i) == ',' {
			i = s.space(i + 1)
		}
	}
}

// element looks for the element of the list that begins at i. "-" is where another one would be.
func (s *scanner) element(i int, step string) (p place, ok bool) {
	wanted, err := strconv.Atoi(step)
	if step == "-" {
		wanted = -1
	} else if err != nil || wanted < 0 || strconv.Itoa(wanted) != step { // the library counts from the end, too
		return p, false
	}
	i = s.space(i + 1)
	for n := 0; ; n++ {
		if s.byte(i) == ']' {
			return place{list: true, start: i, value: i, end: i, first: n == 0, empty: n == 0}, wanted == n || wanted < 0
		}
		end := s.skip(i)
		if end < 0 {
			return p, false
		}
		if n == wanted {
			return place{list: true, there: true, start: i, value: i, end: end, first: n == 0}, !bytes.Equal(s.text[i:end], null)
		}
		if i = s.space(end); s.byte(i) == ',' {
			i = s.space(i + 1)
		}
	}
}

// byte is 0 behind the end.
func (s *scanner) byte(i int) byte {
	if i < len(s.text) {
		return s.text[i]
	}
	return 0
}

func (s *scanner) space(i int) int {
	for i < len(s.text) && (s.text[i] == ' ' || s.text[i] == '\n' || s.text[i] == '\t' || s.text[i] == '\r') {
		i++
	}
	return i
}

// string returns what is between the quotes of the text at i, and where it has ended; -1: there is none.
func (s *scanner) string(i int) (inside []byte, end int) {
	if s.byte(i) != '"' {
		return nil, -1
	}
	from := i + 1
	for i = from; ; {
		next := bytes.IndexByte(s.text[i:], '"')
		if next < 0 {
			return nil, -1
		}
		i += next
		escapes := 0
		for s.text[i-1-escapes] == '\\' { // the opening quote ends it
			escapes++
		}
		if i++; escapes%2 == 0 {
			return s.text[from : i-1], i
		}
	}
}

// skip returns where the value at i ends; -1: there is none.
func (s *scanner) skip(i int) int {
	switch s.byte(i) {
	case '"':
		_, end := s.string(i)
		return end
	case '{', '[':
		depth := 0
		for i < len(s.text) {
			switch s.text[i] {
			case '"':
				if _, i = s.string(i); i < 0 {
					return -1
				}
				continue
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
			i++
		}
		return -1
	}
	from := i
	for i < len(s.text) && strings.IndexByte(",]} \n\t\r", s.text[i]) < 0 {
		i++
	}
	if i == from {
		return -1
	}
	return i
}

func (s *scanner) replaced(p place, value []byte) []byte {
	return slices.Concat(s.text[:p.value], value, s.text[p.end:])
}

// removed leaves out what is there, and the comma behind it or, of the last one, before it.
func (s *scanner) removed(p place) []byte {
	start, end := p.start, s.space(p.end)
	if s.byte(end) == ',' {
		end++
	} else if !p.first {
		start = bytes.LastIndexByte(s.text[:start], ',')
	}
	return slices.Concat(s.text[:start], s.text[end:])
}

// inserted puts in what is not there, or what comes before an element that is.
func (s *scanner) inserted(p place, name string, value []byte) ([]byte, bool) {
	var before, after []byte
	if !p.there && !p.empty {
		before = []byte{','}
	}
	if p.there {
		after = []byte{','}
	}
	if !p.list {
		key, err := json.Marshal(name)
		if err != nil {
			return nil, false
		}
		before = append(append(before, key...), ':')
	}
	return slices.Concat(s.text[:p.start], before, value, after, s.text[p.start:]), true
}
