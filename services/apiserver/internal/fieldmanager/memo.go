package fieldmanager

import (
	"crypto/sha256"
	"sync"
)

// maxRemembered is how many outcomes each of the two generations of a memo holds.
const maxRemembered = 512

// digest names what an outcome follows from.
type digest [sha256.Size]byte

// memo remembers outcomes by what they follow from; what nobody asks for is forgotten. Outcomes are shared and not to be changed.
type memo[V any] struct {
	mu           sync.Mutex
	young, older map[digest]V
}

func (m *memo[V]) get(d digest) (V, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.young[d]
	if ok {
		return v, true
	}
	if v, ok = m.older[d]; ok {
		m.keep(d, v)
	}
	return v, ok
}

func (m *memo[V]) put(d digest, v V) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.keep(d, v)
}

func (m *memo[V]) keep(d digest, v V) {
	if m.young == nil || len(m.young) >= maxRemembered {
		m.young, m.older = make(map[digest]V), m.young
	}
	m.young[d] = v
}
