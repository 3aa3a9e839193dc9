package codec

import (
	"bytes"
	"slices"

	"howdah.dev/services/apiserver/internal/registry"
)

// held are the bytes of an item: as they are stored or, once somebody has asked for protobuf, as they are served, with the revision's
// suffix in them. There is room for one of both, since each follows from the other.
type held struct {
	envelope []byte
	// revision whose suffix is in the envelope; 0: it is as stored.
	revision int64
}

// body returns the stored message, without a suffix.
func (h *held) body() ([]byte, error) {
	raw, err := bodyOf(h.envelope)
	if err != nil || h.revision == 0 {
		return raw, err
	}
	return raw[:len(raw)-revisionSuffixSize(h.revision)], nil
}

// held never returns nil: an item without bytes is one to look for others by.
func (i *Item) held() *held {
	if h := i.bytes.Load(); h != nil {
		return h
	}
	return &held{}
}

// Value returns the stored bytes.
func (i *Item) Value() []byte {
	h := i.held()
	if h.revision == 0 {
		return h.envelope
	}
	raw, err := h.body()
	if err != nil {
		return h.envelope // it has been read before, so it can be
	}
	return wrap(i.Kind.GVK, raw)
}

// Holds reports whether value are the stored bytes.
func (i *Item) Holds(value []byte) bool {
	h := i.held()
	if h.revision == 0 {
		return bytes.Equal(h.envelope, value)
	}
	raw, err := h.body()
	if err != nil {
		return false
	}
	other, err := bodyOf(value)
	return err == nil && bytes.Equal(raw, other) && canonical(i.Kind, value, raw)
}

// Size is how many bytes of memory the stored object takes, about. It does not change.
func (i *Item) Size() int {
	h := i.held()
	raw, err := h.body()
	if err != nil {
		return len(h.envelope) // which nothing takes the place of
	}
	return len(raw)
}

func (i *Item) decodeBody() (registry.Object, error) {
	raw, err := i.held().body()
	if err == nil && i.Kind.Recall != nil {
		if obj, ok := i.Kind.Recall(raw); ok {
			obj.GetObjectKind().SetGroupVersionKind(i.Kind.GVK)
			return obj, nil
		}
	}
	return decodeBody(i.Kind, raw, err)
}

// canonical reports whether an envelope is the one that the body is put in today, so that it follows from the body.
func canonical(kind *registry.Kind, envelope, raw []byte) bool {
	var room [128]byte
	head := appendRaw(appendHead(room[:0], kind.GVK), len(raw))
	return len(envelope) == len(head)+len(raw)+len(tail) && bytes.HasPrefix(envelope, head) && bytes.HasSuffix(envelope, tail[:])
}

// serve returns the envelope with the revision's suffix, and holds it from now on instead of the stored one.
func (i *Item) serve() ([]byte, error) {
	i.use()
	h := i.held()
	if h.revision > 0 && h.revision == i.Revision {
		return h.envelope, nil
	}
	raw, err := h.body()
	if err != nil {
		return nil, err
	}
	suffix := revisionSuffixSize(i.Revision)
	b := make([]byte, 0, len(h.envelope)+suffix+2) // the length may take one byte more
	b = appendRaw(appendHead(b, i.Kind.GVK), len(raw)+suffix)
	b = revisionSuffix(append(b, raw...), i.Revision)
	b = append(b, tail[:]...)
	if i.Revision > 0 && (h.revision > 0 || canonical(i.Kind, h.envelope, raw)) {
		i.bytes.CompareAndSwap(h, &held{envelope: slices.Clip(b), revision: i.Revision})
	}
	return b, nil
}
