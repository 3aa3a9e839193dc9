// Package recent remembers what was worked out a short while ago, within bounds.
package recent

import "sync"

// defaultMax is the Max of a Map that names none.
const defaultMax = 512

// Map remembers values by key: at least the last Max of them that were put or asked for, and not more than twice as many. The zero
// value is ready, for any number of goroutines; Max and the like must not change once it is used.
type Map[K comparable, V any] struct {
	Max int // 0: 512
	// Size, where it is set, is how many bytes a value takes; MaxSize then bounds their sum as Max does their number. What is larger than a
	// tenth of it is not remembered.
	Size    func(V) int
	MaxSize int

	mu           sync.Mutex
	young, older map[K]V
	size         int // of the young ones
}

// Get returns what is remembered under a key.
func (m *Map[K, V]) Get(key K) (V, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.young[key]
	if ok {
		return v, true
	}
	if v, ok = m.older[key]; ok {
		m.keep(key, v)
	}
	return v, ok
}

// Put remembers a value, in place of what was remembered under its key.
func (m *Map[K, V]) Put(key K, v V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.Size != nil && m.Size(v) > m.MaxSize/10 {
		return
	}
	m.keep(key, v)
}

// Len is how many values are held, those that are to be forgotten next among them.
func (m *Map[K, V]) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.young) + len(m.older)
}

// keep lets two generations take turns: what was not asked for while the young one filled goes with the older.
func (m *Map[K, V]) keep(key K, v V) {
	most := m.Max
	if most == 0 {
		most = defaultMax
	}
	before, here := m.young[key]
	size := 0
	if m.Size != nil {
		if size = m.Size(v); here {
			m.size -= m.Size(before)
		}
	}
	if m.young == nil || !here && len(m.young) >= most || m.Size != nil && m.size+size > m.MaxSize {
		m.young, m.older, m.size = make(map[K]V), m.young, 0
	}
	m.young[key] = v
	m.size += size
}
