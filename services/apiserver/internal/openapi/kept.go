package openapi

import (
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// maxKept is how many bytes of documents of custom kinds are kept.
const maxKept = 16 << 20

// kept holds documents that are about something that changes, up to a size: the ones made last.
type kept struct {
	mu    sync.Mutex
	size  int
	byKey map[string]*held
	order []string // the oldest first
}

type held struct {
	about string
	body  []byte
}

// once returns the document that was made for the key about the same, or makes it.
func (k *kept) once(key, about string, build func() ([]byte, error)) ([]byte, error) {
	k.mu.Lock()
	h := k.byKey[key]
	k.mu.Unlock()
	if h != nil && h.about == about {
		return h.body, nil
	}
	body, err := build()
	if err != nil {
		return nil, apierrors.NewInternalError(fmt.Errorf("openapi: %w", err))
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.byKey == nil {
		k.byKey = map[string]*held{}
	}
	if old := k.byKey[key]; old != nil {
		k.size -= len(old.body)
	} else {
		k.order = append(k.order, key)
	}
	k.byKey[key] = &held{about, body}
	for k.size += len(body); k.size > maxKept && len(k.order) > 1; {
		oldest := k.order[0]
		if oldest == key { // it stays: it is what was asked for
			k.order = append(k.order[1:], key)
			continue
		}
		k.size -= len(k.byKey[oldest].body)
		delete(k.byKey, oldest)
		k.order = k.order[1:]
	}
	return body, nil
}
