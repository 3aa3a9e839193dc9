package daemonset

import (
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	firstDelay = time.Second
	maxDelay   = 15 * time.Minute
	// calm is how long nothing may fail on a node before its delay begins anew.
	calm = 2 * maxDelay
)

// backoff spaces out the replacement of failed pods, a node: a kubelet that refuses a pod refuses the next one, too. It is
// a rate and no state; a new leader begins with the shortest delay.
type backoff struct {
	mu   sync.Mutex
	sets map[types.UID]*delays
}

// delays are those of one set's nodes. A newly observed spec starts without any.
type delays struct {
	generation int64
	nodes      map[string]delay
}

type delay struct {
	since  time.Time
	length time.Duration
}

func newBackoff() *backoff { return &backoff{sets: map[types.UID]*delays{}} }

// waits returns how long failed pods still have to stay, by node; nodes where they may go now are absent.
func (b *backoff) waits(ds *appsv1.DaemonSet, now time.Time) map[string]time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	d := b.sets[ds.UID]
	if d == nil || d.generation != ds.Status.ObservedGeneration {
		return nil
	}
	waits := map[string]time.Duration{}
	for node, had := range d.nodes {
		switch rest := had.since.Add(had.length).Sub(now); {
		case rest > 0:
			waits[node] = rest
		case now.Sub(had.since) > calm:
			delete(d.nodes, node)
		}
	}
	return waits
}

// failed notes that failed pods of the nodes are deleted now: the next ones there have to stay longer.
func (b *backoff) failed(ds *appsv1.DaemonSet, nodes []string, now time.Time) {
	if len(nodes) == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	d := b.sets[ds.UID]
	if d == nil || d.generation != ds.Status.ObservedGeneration {
		d = &delays{generation: ds.Status.ObservedGeneration, nodes: map[string]delay{}}
		b.sets[ds.UID] = d
	}
	for _, node := range nodes {
		had, ok := d.nodes[node]
		next := delay{since: now, length: firstDelay}
		if ok && now.Sub(had.since) <= calm {
			next.length = min(2*had.length, maxDelay)
		}
		d.nodes[node] = next
	}
}

// forget drops a set that is gone.
func (b *backoff) forget(set types.UID) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.sets, set)
}
