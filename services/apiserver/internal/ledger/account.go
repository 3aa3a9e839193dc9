package ledger

import (
	"slices"
	"sync"

	"howdah.dev/services/apiserver/internal/admission"
	"howdah.dev/services/apiserver/internal/store"
)

// entry is one caller's writes.
type entry struct {
	usages []*admission.Usage
	writes []store.Write

	done    chan struct{}
	results []store.Result
	err     error
}

func (e *entry) namespaces() []string {
	var names []string
	for _, u := range e.usages {
		names = append(names, u.Namespace)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (e *entry) finish(results []store.Result, err error) {
	e.results, e.err = results, err
	close(e.done)
}

func (e *entry) finished() bool {
	select {
	case <-e.done:
		return true
	default:
		return false
	}
}

// account is a namespace whose quotas are written at the moment.
type account struct {
	namespace string
	users     int // guarded by the ledger
	// turn is held by whoever commits for the namespace.
	turn chan struct{}
	// known are the states of quotas that were written here and that the cache may not have seen yet, by key. It belongs to the
	// holder of the turn.
	known map[string]*state
	// streak counts the groups that were committed since the queue was last empty; it belongs to the holder of the turn.
	streak int

	mu    sync.Mutex
	queue []*entry
}

func (a *account) push(e *entry) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.queue = append(a.queue, e)
}

// idle reports that nobody waits.
func (a *account) idle() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.queue) == 0
}

// withdraw takes an entry back that nobody has begun to commit.
func (a *account) withdraw(e *entry) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	i := slices.Index(a.queue, e)
	if i >= 0 {
		a.queue = slices.Delete(a.queue, i, i+1)
	}
	return i >= 0
}

// take returns the entries at the head of the queue that can be committed together: no two write the same key, and what several
// write is bounded.
func (a *account) take() []*entry {
	a.mu.Lock()
	defer a.mu.Unlock()
	var group, rest []*entry
	keys, size := map[string]bool{}, 0
	for _, e := range a.queue {
		taken := slices.ContainsFunc(e.writes, func(w store.Write) bool { return keys[w.Key] })
		full := len(keys)+len(e.writes) > maxWrites || size+e.size() > maxBytes
		if taken || len(group) == maxGroup || len(group) > 0 && full {
			rest = append(rest, e)
			continue
		}
		for _, w := range e.writes {
			keys[w.Key] = true
		}
		group, size = append(group, e), size+e.size()
	}
	a.queue = rest
	return group
}

// size is how many bytes the entry writes.
func (e *entry) size() (n int) {
	for _, w := range e.writes {
		n += len(w.Value)
	}
	return n
}
