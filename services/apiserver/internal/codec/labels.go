package codec

import "k8s.io/apimachinery/pkg/labels"

// Field numbers in a stored object, and in its metadata and a map's entry.
const (
	tagMetadata = 1<<3 | 2
	tagLabels   = 11<<3 | 2
	tagMapKey   = 1<<3 | 2
	tagMapValue = 2<<3 | 2
)

// storedLabels are the labels of a stored object, looked up in its bytes: a selector that is asked of ten thousand objects
// need not decode one.
type storedLabels struct{ metadata []byte }

var _ labels.Labels = storedLabels{}

// storedLabelsOf fails where the bytes are no object's.
func storedLabelsOf(value []byte) (l storedLabels, err error) {
	raw, err := bodyOf(value)
	if err != nil {
		return l, err
	}
	err = eachField(raw, func(tag uint64, value []byte) error {
		if tag == tagMetadata && l.metadata == nil {
			l.metadata = value
		}
		return nil
	})
	return l, err
}

// Lookup implements labels.Labels.
func (l storedLabels) Lookup(label string) (found string, exists bool) {
	_ = eachField(l.metadata, func(tag uint64, entry []byte) error { // a broken end is as if it were not there
		if tag != tagLabels {
			return nil
		}
		var key, value []byte
		err := eachField(entry, func(tag uint64, part []byte) error {
			switch tag {
			case tagMapKey:
				key = part
			case tagMapValue:
				value = part
			}
			return nil
		})
		if err == nil && string(key) == label {
			found, exists = string(value), true
		}
		return nil
	})
	return found, exists
}

// Has implements labels.Labels.
func (l storedLabels) Has(label string) bool { _, exists := l.Lookup(label); return exists }

// Get implements labels.Labels.
func (l storedLabels) Get(label string) string { value, _ := l.Lookup(label); return value }

// labelled reports whether a selector selects the object's labels.
func (i *Item) labelled(selector labels.Selector) bool {
	if i.decoded.Load() == nil && i.Kind.Custom == nil {
		if stored, err := storedLabelsOf(i.value); err == nil {
			return selector.Matches(stored)
		}
	}
	d := i.decode()
	return d.err == nil && selector.Matches(labels.Set(d.object.GetLabels()))
}
