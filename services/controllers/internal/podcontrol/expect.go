package podcontrol

import (
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/kit/object"
	"howdah.dev/services/controllers/internal/written"
)

// Patience bounds the wait for an event that may never come, as when a
// relist jumped over a pod's whole life.
const Patience = written.Patience

// expectations remember, an owner, the writes that the pod cache has yet to
// show. Pods are named before they are created, so each is awaited by name,
// and a create of unknown outcome is repeated under the same name.
type expectations struct {
	mu     sync.Mutex
	owners map[types.UID]*expected
}

// expected is what one owner waits for.
type expected struct {
	created map[string]struct{}    // names of pods that should appear
	deleted map[types.UID]struct{} // pods that should go, or be marked as going
	unsure  []string               // names whose create may or may not have landed
	since   time.Time
}

func newExpectations() *expectations {
	return &expectations{owners: map[types.UID]*expected{}}
}

// creating awaits pods of the names. It must be called before the write.
func (e *expectations) creating(owner types.UID, names []string, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	x := e.of(owner)
	x.since = now
	for _, n := range names {
		x.created[n] = struct{}{}
	}
}

// deleting awaits the end of the pods. It must be called before the write.
func (e *expectations) deleting(owner types.UID, pods []*corev1.Pod, now time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	x := e.of(owner)
	x.since = now
	for _, p := range pods {
		x.deleted[p.UID] = struct{}{}
	}
}

// notCreated gives up on names; where unsure, they are kept to be tried again.
func (e *expectations) notCreated(owner types.UID, names []string, unsure bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	x := e.of(owner)
	for _, n := range names {
		delete(x.created, n)
	}
	if unsure {
		x.unsure = append(x.unsure, names...)
	}
}

// takeUnsure returns, and forgets, at most n names with the prefix whose create may have landed.
func (e *expectations) takeUnsure(owner types.UID, prefix string, n int) []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	x := e.owners[owner]
	if x == nil {
		return nil
	}
	var taken, left []string
	for _, name := range x.unsure {
		if len(taken) < n && strings.HasPrefix(name, prefix) && len(name) == len(prefix)+object.SuffixLength {
			taken = append(taken, name)
		} else {
			left = append(left, name)
		}
	}
	x.unsure = left
	return taken
}

// notDeleted gives up on a pod's deletion.
func (e *expectations) notDeleted(owner, pod types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.of(owner).deleted, pod)
}

// observed takes note of a pod as the cache now shows it; gone says that it
// is there no more.
func (e *expectations) observed(owner types.UID, p *corev1.Pod, gone bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	x := e.owners[owner]
	if x == nil {
		return
	}
	delete(x.created, p.Name)
	if gone || p.DeletionTimestamp != nil {
		delete(x.deleted, p.UID)
	}
}

// settled says whether the cache shows all that was written, or the wait has
// lasted too long.
func (e *expectations) settled(owner types.UID, now time.Time) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	x := e.owners[owner]
	if x == nil || len(x.created)+len(x.deleted) == 0 {
		return true
	}
	if now.Sub(x.since) < Patience {
		return false
	}
	clear(x.created)
	clear(x.deleted)
	return true
}

// forget drops what is known of an owner that is gone.
func (e *expectations) forget(owner types.UID) {
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.owners, owner)
}

func (e *expectations) of(owner types.UID) *expected {
	x := e.owners[owner]
	if x == nil {
		x = &expected{created: map[string]struct{}{}, deleted: map[types.UID]struct{}{}}
		e.owners[owner] = x
	}
	return x
}
