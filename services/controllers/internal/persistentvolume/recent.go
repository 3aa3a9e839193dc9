package persistentvolume

import (
	"sync"

	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/services/controllers/internal/written"
)

// recent are the objects of one kind as they were last seen: those of the cache, or, where it has not heard of them yet, as this process wrote
// them. A plan made from older ones would find a volume free that has just been given away; the API would refuse it, and the claim had to wait.
type recent[T object.Object] struct {
	cache    *object.Informer[T]
	versions *written.Versions

	mu      sync.Mutex
	answers map[string]T // to writes
}

func newRecent[T object.Object](cache *object.Informer[T], clock clock.PassiveClock) *recent[T] {
	return &recent[T]{cache: cache, versions: written.New(clock), answers: map[string]T{}}
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
	answer, ok := r.answers[key]
	if !ok {
		return obj
	}
	if answer.GetUID() == obj.GetUID() && r.versions.Behind(obj) {
		return answer
	}
	r.drop(key)
	return obj
}

// wrote keeps what the API has answered to a write.
func (r *recent[T]) wrote(obj T) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answers[object.KeyOf(obj)] = obj
	r.versions.Wrote(obj)
}

func (r *recent[T]) forget(key string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(key)
}

// drop forgets what was written of an object. r.mu is held.
func (r *recent[T]) drop(key string) {
	if answer, ok := r.answers[key]; ok {
		delete(r.answers, key)
		r.versions.Forget(answer.GetUID())
	}
}
