package pod

import "sync"

// recent remembers values by key: at least the last max of them, and not more than twice as many. What is asked for stays. The zero
// value with a max is ready, for any number of goroutines.
type recent[K comparable, V any] struct {
	max int

	mu           sync.Mutex
	young, older map[K]V
}

// get returns what is remembered under a key.
func (r *recent[K, V]) get(key K) (V, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	v, ok := r.young[key]
	if !ok {
		if v, ok = r.older[key]; ok {
			r.keep(key, v)
		}
	}
	return v, ok
}

func (r *recent[K, V]) put(key K, v V) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keep(key, v)
}

func (r *recent[K, V]) keep(key K, v V) {
	if r.young == nil || len(r.young) >= r.max {
		r.young, r.older = make(map[K]V), r.young
	}
	r.young[key] = v
}
