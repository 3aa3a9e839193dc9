package persistentvolume

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"howdah.dev/kit/obs"
)

// The operations that are measured: somebody else carries them out, and this controller sees when they are asked for and when they are done.
const (
	provisioning = "provision"
	deleting     = "delete"
)

// operations measures provisioning, from when a provisioner is asked to the binding, and deletion, from when nothing holds a volume any more to its end.
type operations struct {
	seconds *prometheus.HistogramVec
	// errors counts under Kubernetes' name, and former under the one that it had until 1.36.
	errors, former *prometheus.CounterVec

	mu    sync.Mutex
	begun map[operation]begun
}

// operation is one on a claim, known by its key, or on a volume.
type operation struct{ name, on string }

type begun struct {
	plugin string
	at     time.Time
}

func newOperations(registerer prometheus.Registerer) *operations {
	label := []string{"plugin_name", "operation_name"}
	counter := func(name string) *prometheus.CounterVec {
		return obs.Register(registerer, prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: "Operations with volumes that have failed."}, label))
	}
	return &operations{
		seconds: obs.Register(registerer, prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "volume_operation_total_seconds", Help: "How long operations with volumes took, from when they were asked for until they were done.",
			Buckets: []float64{.1, .25, .5, 1, 2.5, 5, 10, 15, 25, 50, 120, 300, 600},
		}, label)),
		errors: counter("volume_operation_errors_total"), former: counter("volume_operation_total_errors"), begun: map[operation]begun{},
	}
}

// forget drops what a leadership has begun: the next one cannot say when.
func (o *operations) forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	clear(o.begun)
}

// begins notes that an operation is asked for, unless it was before.
func (o *operations) begins(op operation, plugin string, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, again := o.begun[op]; !again {
		o.begun[op] = begun{plugin, now}
	}
}

// dropped says that an operation is not wanted any more.
func (o *operations) dropped(op operation) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.begun, op)
}

// tried measures an operation that was begun here and is done, or counts that something about it has failed. A cache that was behind is no failure.
func (o *operations) tried(op operation, err error, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	b, ours := o.begun[op]
	switch {
	case !ours || apierrors.IsConflict(err) || apierrors.IsNotFound(err):
	case err != nil:
		o.errors.WithLabelValues(b.plugin, op.name).Inc()
		o.former.WithLabelValues(b.plugin, op.name).Inc()
	default:
		o.seconds.WithLabelValues(b.plugin, op.name).Observe(now.Sub(b.at).Seconds())
		delete(o.begun, op)
	}
}
