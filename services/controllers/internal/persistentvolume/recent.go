package persistentvolume

import (
	"strconv"
	"sync"

	"howdah.dev/kit/object"
)

// recent are the objects of one kind as they were last seen: those of the cache, or, where it has not heard of them yet, as this process wrote
// them. A plan made from older ones would find a volume free that has just been given away; the API would refuse it, and the claim had to wait.
type recent[T object.Object] struct {
	cache *object.Informer[T]

	mu      sync.Mutex
	written map[string]T
}

func newRecent[T object.Object](cache *object.Informer[T]) *recent[T] {
	return &recent[T]{cache: cache, written: map[string]T{}}
}

// get returns an object that the cache knows.
func (r *recent[T]) get(key string) (T, bool) {
	obj, ok := r.cache.GetKey(key)
	if !ok {
		r.forget(key)
		return obj, false
	}
	return r.newer(obj), true
}

// all returns the newer of each.
func (r *recent[T]) all(list []T) []T {
	out := make([]T, len(list))
	for i, obj := range list {
		out[i] = r.newer(obj)
	}
	return out
}

// newer returns what was written of an object of the cache, where that is newer.
func (r *recent[T]) newer(obj T) T {
	key := object.KeyOf(obj)
	r.mu.Lock()
	defer r.mu.Unlock()
	written, ok := r.written[key]
	if !ok {
		return obj
	}
	if written.GetUID() == obj.GetUID() && revision(written) > revision(obj) {
		return written
	}
	delete(r.written, key)
	return obj
}

// wrote keeps what the API has answered to a write.
func (r *recent[T]) wrote(obj T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.written[object.KeyOf(obj)] = obj
}

func (r *recent[T]) forget(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.written, key)
}

func revision(obj object.Object) uint64 {
	n, err := strconv.ParseUint(obj.GetResourceVersion(), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
