package codec

import (
	"unsafe"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// Matches reports whether the object is what the selectors select. Nil selectors select everything. One that cannot be decoded, as when the webhook that
// converts it is down, is among what they select: whoever encodes it meets the error, and nobody takes what is unknown for absent.
func (i *Item) Matches(label labels.Selector, field fields.Selector) bool {
	if label != nil && !i.labelled(label) {
		return false
	}
	if field == nil {
		return true
	}
	f := &fieldsOf{item: i}
	return field.Matches(f) || f.broken
}

// Field returns the value of a selectable field.
func (i *Item) Field(name string) string {
	if way := i.Kind.StoredAt[name]; way != nil { // an item that has just come has its bytes at hand
		if value, ok := i.stored(way); ok {
			return value
		}
	}
	return (&fieldsOf{item: i}).Get(name)
}

// fieldsOf looks fields up in an item, which is decoded only where it has to be.
type fieldsOf struct {
	item    *Item
	decoded *decoded
	broken  bool // it cannot be decoded
}

var _ fields.Fields = (*fieldsOf)(nil)

// Has implements fields.Fields.
func (f *fieldsOf) Has(string) bool { return true }

// Get implements fields.Fields.
func (f *fieldsOf) Get(field string) string {
	i := f.item
	switch field {
	case "metadata.name":
		return i.Name
	case "metadata.namespace":
		return i.Namespace
	}
	if i.Kind.SelectableFields == nil {
		return ""
	}
	if f.decoded == nil {
		f.decoded = i.decoded.Load() // to look there is cheaper than to read the bytes, which are cold
	}
	if f.decoded == nil {
		if way := i.Kind.StoredAt[field]; way != nil {
			if value, ok := i.stored(way); ok {
				return value
			}
		}
		f.decoded = i.decode()
	}
	if f.broken = f.decoded.err != nil; f.broken {
		return ""
	}
	return f.decoded.fields()[field]
}

// stored returns the string to which the numbers of fields lead in the stored message; ok is false where that cannot be read. Stored messages have
// each field once, in the order of their numbers. The string shares the memory of the object, which nobody changes.
func (i *Item) stored(way []int) (value string, ok bool) {
	part, err := bodyOf(i.held().envelope)
	for _, number := range way {
		if part, err = fieldOf(part, uint64(number), err); err != nil {
			return "", false
		}
	}
	return unsafe.String(unsafe.SliceData(part), len(part)), true
}

// fieldOf returns the length-delimited field of a message that has the number; empty where it has none.
func fieldOf(message []byte, number uint64, err error) ([]byte, error) {
	want := number<<3 | 2
	for len(message) > 0 && err == nil {
		var tag uint64
		var value []byte
		if tag, value, message, err = nextField(message); tag == want {
			return value, err
		}
		if tag > want|7 {
			break
		}
	}
	return nil, err
}
