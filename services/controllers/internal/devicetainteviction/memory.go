package devicetainteviction

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/services/internal/devicetaint"
)

// memory is what the controller knows of what it did itself. It dies with the leadership: nothing that is done follows from it but what is told.
type memory struct {
	mu      sync.Mutex
	pods    map[types.UID]state
	evicted map[types.UID]int // pods, by rule
}

// state is that of a pod.
type state int

const (
	stays     state = iota
	tolerates       // its tolerance ends
	ended           // it was deleted; the cache may still have it
)

func newMemory() *memory { return &memory{pods: map[types.UID]state{}, evicted: map[types.UID]int{}} }

// note remembers the state of a pod and returns what it was.
func (m *memory) note(uid types.UID, is state) (was state) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if was = m.pods[uid]; is == stays {
		delete(m.pods, uid)
	} else {
		m.pods[uid] = is
	}
	return was
}

// over reports whether a pod was deleted.
func (m *memory) over(p *corev1.Pod) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pods[p.UID] == ended
}

// count counts a pod for the rules by which it went.
func (m *memory) count(rules []*devicetaint.Rule) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, r := range rules {
		m.evicted[r.UID]++
	}
}

// counted returns how many pods went by a rule.
func (m *memory) counted(r *devicetaint.Rule) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.evicted[r.UID]
}

// forget drops a rule that is gone.
func (m *memory) forget(r *devicetaint.Rule) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.evicted, r.UID)
}
