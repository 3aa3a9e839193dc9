package codec

import (
	"fmt"
	"unsafe"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// Field numbers in a stored object, and in its metadata and a map's entry.
const (
	tagMetadata = 1<<3 | 2
	tagLabels   = 11<<3 | 2
	tagMapKey   = 1<<3 | 2
	tagMapValue = 2<<3 | 2
)

// storedLabels are the labels of a stored object, looked up in its bytes: a selector that is asked of ten thousand objects
// need not decode one. What it costs is memory that has to come from afar, so nothing is looked at behind the labels: stored
// messages have their fields in the order of their numbers.
type storedLabels struct{ metadata []byte }

var _ labels.Labels = storedLabels{}

// storedLabelsOf fails where the bytes are no object's.
func storedLabelsOf(value []byte) (storedLabels, error) {
	raw, err := bodyOf(value)
	for err == nil && len(raw) > 0 {
		var tag uint64
		var part []byte
		if tag, part, raw, err = nextField(raw); err == nil && tag == tagMetadata {
			return storedLabels{part}, nil
		}
	}
	return storedLabels{}, err
}

// Lookup implements labels.Labels. What it returns shares the memory of the stored object, which nobody changes.
func (l storedLabels) Lookup(label string) (string, bool) {
	for rest := l.metadata; len(rest) > 0; {
		tag, entry, behind, err := nextField(rest)
		if err != nil || tag > tagLabels|7 {
			break // a broken end is as if it were not there
		}
		if rest = behind; tag != tagLabels {
			continue
		}
		if key, value := entryOf(entry); string(key) == label {
			return unsafe.String(unsafe.SliceData(value), len(value)), true
		}
	}
	return "", false
}

// entryOf returns the key and the value of a map's entry.
func entryOf(entry []byte) (key, value []byte) {
	for len(entry) > 0 {
		tag, part, behind, err := nextField(entry)
		if err != nil {
			break
		}
		switch entry = behind; tag {
		case tagMapKey:
			key = part
		case tagMapValue:
			value = part
		}
	}
	return key, value
}

// nextField cuts the next field off a message. Its value is nil unless it is length-delimited.
func nextField(b []byte) (tag uint64, value, rest []byte, err error) {
	tag, n := uvarint(b)
	if n <= 0 {
		return 0, nil, nil, errTruncated
	}
	b, size := b[n:], 0
	switch tag & 7 {
	case 0:
		_, size = uvarint(b)
	case 1:
		size = 8
	case 2:
		length, n := uvarint(b)
		if n <= 0 || length > uint64(len(b)-n) {
			return 0, nil, nil, errTruncated
		}
		end := n + int(length)
		return tag, b[n:end], b[end:], nil
	case 5:
		size = 4
	default:
		return 0, nil, nil, fmt.Errorf("wire type %d is not supported", tag&7)
	}
	if tag&7 == 0 && size <= 0 || size > len(b) {
		return 0, nil, nil, errTruncated
	}
	return tag, nil, b[size:], nil
}

// Has implements labels.Labels.
func (l storedLabels) Has(label string) bool { _, exists := l.Lookup(label); return exists }

// Get implements labels.Labels.
func (l storedLabels) Get(label string) string { value, _ := l.Lookup(label); return value }

// labelled reports whether a selector selects the object's labels.
func (i *Item) labelled(selector labels.Selector) bool {
	if i.decoded.Load() == nil && i.Kind.Custom == nil {
		if stored, err := storedLabelsOf(i.held().envelope); err == nil {
			return selector.Matches(stored)
		}
	}
	d := i.decode()
	return d.err != nil || selector.Matches(labels.Set(d.object.GetLabels()))
}

// LabelMarks are what an object must have marks of to be selected: an item keeps a few bits that follow from its labels, so that
// most objects that a selector does not select need not be looked at, nor fetched from memory. Zero is none.
type LabelMarks uint64

const (
	// marked says that an item's marks are known.
	marked = 1 << 63
	// unknown are all marks: those of an item whose labels have to be looked at each time.
	unknown = ^uint64(0)
)

// MarksOf returns the marks that the selector's equalities ask for.
func MarksOf(selector labels.Selector) (marks LabelMarks) {
	if selector == nil {
		return 0
	}
	requirements, _ := selector.Requirements()
	for _, r := range requirements {
		values := r.ValuesUnsorted()
		if op := r.Operator(); len(values) == 1 && (op == selection.Equals || op == selection.DoubleEquals || op == selection.In) {
			marks |= LabelMarks(markOf([]byte(r.Key()), []byte(values[0])))
		}
	}
	return marks
}

// markOf sets two of 63 bits, by FNV-1a.
func markOf(key, value []byte) uint64 {
	hash := uint64(14695981039346656037)
	for _, part := range [...][]byte{key, value} {
		for _, b := range part {
			hash = (hash ^ uint64(b)) * 1099511628211
		}
		hash = (hash ^ '=') * 1099511628211
	}
	return 1<<(hash%63) | 1<<(hash>>32%63)
}

// MayHave reports whether the object may have labels with the marks. It never says no of one that has them.
func (i *Item) MayHave(marks LabelMarks) bool {
	if marks == 0 {
		return true
	}
	known := i.labels.Load()
	if known == 0 {
		known = i.marks()
		i.labels.Store(known)
	}
	return known&uint64(marks) == uint64(marks)
}

func (i *Item) marks() uint64 {
	if i.Kind.Custom != nil { // a conversion may change labels
		return unknown
	}
	stored, err := storedLabelsOf(i.held().envelope)
	if err != nil {
		return unknown
	}
	marks := uint64(marked)
	for rest := stored.metadata; len(rest) > 0; {
		tag, entry, behind, err := nextField(rest)
		if err != nil {
			return unknown
		}
		if rest = behind; tag == tagLabels {
			marks |= markOf(entryOf(entry))
		} else if tag > tagLabels|7 {
			break
		}
	}
	return marks
}
