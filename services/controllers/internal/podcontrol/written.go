package podcontrol

import (
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// written remembers the version of each owner that its controller's last write made.
type written struct {
	mu     sync.Mutex
	owners map[types.UID]write
}

// write is the version that a write made, and when.
type write struct {
	version uint64
	at      time.Time
}

// Wrote notes an owner as a write of its status has left it.
func (c *Control) Wrote(owner metav1.Object) {
	c.written.mu.Lock()
	defer c.written.mu.Unlock()
	c.written.owners[owner.GetUID()] = write{version(owner), c.clock.Now()}
}

// Behind says whether an owner is older than what its controller wrote: the cache is yet to show that. A status that was made of it could only be refused.
// The event of the newer one calls again. It may never come, as when a database was restored to what it was before; so it is waited for no longer than Patience.
func (c *Control) Behind(owner metav1.Object) bool {
	c.written.mu.Lock()
	defer c.written.mu.Unlock()
	last := c.written.owners[owner.GetUID()]
	return version(owner) < last.version && c.clock.Now().Sub(last.at) < Patience
}

func (w *written) forget(owner types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.owners, owner)
}

// version is the number that an object's resourceVersion is; 0 where it is none.
func version(o metav1.Object) uint64 {
	n, err := strconv.ParseUint(o.GetResourceVersion(), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// Skips counts reconciles that are put off while a cache is behind, as Kubernetes' controllers count them. A nil one counts nothing.
type Skips struct{ counter *prometheus.CounterVec }

// NewSkips registers the count of a controller.
func NewSkips(registerer prometheus.Registerer, subsystem string) *Skips {
	s := &Skips{prometheus.NewCounterVec(prometheus.CounterOpts{
		Subsystem: subsystem, Name: "stale_sync_skips_total", Help: "Reconciles that were skipped because a cache was behind.",
	}, []string{"group", "resource"})}
	registerer.MustRegister(s.counter)
	return s
}

// Count counts a reconcile that waits for the cache of a resource.
func (s *Skips) Count(of schema.GroupResource) {
	if s != nil {
		s.counter.WithLabelValues(of.Group, of.Resource).Inc()
	}
}
