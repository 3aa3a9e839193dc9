package openapi

import (
	"crypto/sha512"
	"fmt"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

const (
	// maxKept is how many bytes of documents of custom kinds are kept.
	maxKept = 16 << 20
	// packedFrom is the size of such a document, in bytes, from which on it is kept compressed: that of hundreds of kinds takes seconds to make, and would not
	// be kept beside others.
	packedFrom = 1 << 20
)

// kept holds documents: all those that never change, and of those about something that does the ones made last, up to a size.
type kept struct {
	mu    sync.Mutex
	size  int // of those that may be forgotten
	byKey map[string]*held
	order []string // of those that may be forgotten, the oldest first
}

// held is a document, which whoever asks first makes while the others wait for it.
type held struct {
	about  string
	make   func()
	body   []byte
	packed []byte // the body, in whose place it is
	hash   string // of the body, in hexadecimal digits
	err    error
	// counted says that its size is in that of all.
	counted bool
}

// text returns the body.
func (h *held) text() ([]byte, error) {
	if h.packed == nil {
		return h.body, nil
	}
	return unpack(h.packed)
}

// size is how many bytes it takes.
func (h *held) size() int { return len(h.body) + len(h.packed) }

// once returns the document that was made for the key about the same, or makes it. One about nothing never changes.
func (k *kept) once(key, about string, build func() ([]byte, error)) (*held, error) {
	h := k.held(key, about, build)
	h.make()
	k.mu.Lock()
	defer k.mu.Unlock()
	if h.err != nil {
		k.forget(key, h)
		return nil, apierrors.NewInternalError(fmt.Errorf("openapi: %w", h.err))
	}
	if k.byKey[key] == h && about != "" && !h.counted {
		h.counted = true
		k.size += h.size()
		k.order = append(k.order, key)
		for k.size > maxKept && len(k.order) > 1 { // the newest stays, which is what was asked for
			k.forget(k.order[0], k.byKey[k.order[0]])
		}
	}
	return h, nil
}

// held returns what there is under a key, in place of which comes what is about something else.
func (k *kept) held(key, about string, build func() ([]byte, error)) *held {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.byKey == nil {
		k.byKey = map[string]*held{}
	}
	old := k.byKey[key]
	if old != nil && old.about == about {
		return old
	}
	if old != nil {
		k.forget(key, old)
	}
	h := &held{about: about}
	h.make = sync.OnceFunc(func() {
		if h.body, h.err = build(); h.err != nil {
			return
		}
		h.hash = hashOf(h.body)
		if about != "" && len(h.body) >= packedFrom {
			h.body, h.packed = nil, pack(h.body)
		}
	})
	k.byKey[key] = h
	return h
}

// forget drops a document, unless another has taken its place.
func (k *kept) forget(key string, h *held) {
	if k.byKey[key] != h {
		return
	}
	delete(k.byKey, key)
	if !h.counted {
		return
	}
	k.size -= h.size()
	k.order = slices.DeleteFunc(k.order, func(other string) bool { return other == key })
}

func hashOf(body []byte) string { return fmt.Sprintf("%X", sha512.Sum512(body)) }
