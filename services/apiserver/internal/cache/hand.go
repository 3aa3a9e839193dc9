package cache

import (
	"sync"
	"unsafe"

	"howdah.dev/services/apiserver/internal/codec"
	"howdah.dev/services/apiserver/internal/registry"
)

// Handed is an object on its way to the store, whose writer has it decoded. Writer and cache share the item that is made of it:
// it is neither decoded again nor encoded twice.
type Handed struct {
	hands *hands
	kind  *registry.Kind
	key   string
	value []byte

	mu       sync.Mutex
	object   registry.Object
	item     *codec.Item
	revision int64 // once the writer knows it
}

// hands are the objects that are being written by this process, by their stored bytes: the store's events of a process's own
// writes bear the very bytes that were written.
type hands struct {
	mu      sync.Mutex
	byValue map[*byte]*Handed
}

// Hand announces the write of an object with the stored bytes value. The object is the cache's from here on, also where the outcome
// of the write is not known. Done or Drop must follow.
func (c *Cache) Hand(kind *registry.Kind, key string, value []byte, object registry.Object) *Handed {
	h := &Handed{hands: &c.hands, kind: kind, key: key, value: value, object: object}
	if len(value) > 0 {
		c.hands.mu.Lock()
		if c.hands.byValue == nil {
			c.hands.byValue = map[*byte]*Handed{}
		}
		c.hands.byValue[unsafe.SliceData(value)] = h
		c.hands.mu.Unlock()
	}
	return h
}

// Done returns the item of a write that has been committed at a revision.
func (h *Handed) Done(c *Cache, revision, createRevision int64) *codec.Item {
	item := h.at(revision, createRevision)
	h.mu.Lock()
	h.revision = revision
	h.mu.Unlock()
	if c.Applied() >= revision {
		h.Drop() // the cache has it, or has read it from the log
	}
	return item
}

// Drop forgets a write that has failed.
func (h *Handed) Drop() {
	if len(h.value) == 0 {
		return
	}
	h.hands.mu.Lock()
	defer h.hands.mu.Unlock()
	if key := unsafe.SliceData(h.value); h.hands.byValue[key] == h {
		delete(h.hands.byValue, key)
	}
}

// at makes the item, once.
func (h *Handed) at(revision, createRevision int64) *codec.Item {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.item == nil {
		h.item = codec.NewDecodedItem(h.kind, h.key, h.value, h.object, revision, createRevision)
		h.object = nil
	}
	return h.item
}

// take returns the item of an event whose bytes were handed over, or nil.
func (hs *hands) take(kind *registry.Kind, e grouped) *codec.Item {
	if len(e.Value) == 0 {
		return nil
	}
	key := unsafe.SliceData(e.Value)
	hs.mu.Lock()
	h := hs.byValue[key]
	delete(hs.byValue, key)
	hs.mu.Unlock()
	if h == nil || h.kind != kind || h.key != e.Key || len(h.value) != len(e.Value) {
		return nil
	}
	return h.at(e.Revision, e.CreateRevision)
}

// forget drops what was committed up to a revision and has come by another way.
func (hs *hands) forget(revision int64) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	for key, h := range hs.byValue {
		h.mu.Lock()
		past := h.revision > 0 && h.revision <= revision
		h.mu.Unlock()
		if past {
			delete(hs.byValue, key)
		}
	}
}
