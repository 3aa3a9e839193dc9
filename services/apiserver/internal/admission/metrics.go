package admission

import (
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics measure the chain under Kubernetes' names.
type Metrics struct {
	plugins, steps *prometheus.HistogramVec
	// all are the recorders, resolved once: a write passes dozens.
	all map[string]*recorder
}

// NewMetrics registers the metrics; a nil registerer leaves them unregistered.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	buckets := []float64{0.00001, 0.0001, 0.0005, 0.005, 0.025, 0.1, 0.5, 1, 2.5, 10}
	m := &Metrics{
		plugins: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "apiserver_admission_controller_admission_duration_seconds",
			Help: "Time that admission plugins took, by plugin, operation, kind of turn (admit or validate) and whether it was refused.", Buckets: buckets,
		}, []string{"name", "type", "operation", "rejected"}),
		steps: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "apiserver_admission_step_admission_duration_seconds",
			Help: "Time that a phase of admission took, by operation, phase (admit or validate) and whether it was refused.", Buckets: buckets,
		}, []string{"type", "operation", "rejected"}),
		all: map[string]*recorder{},
	}
	if registerer != nil {
		registerer.MustRegister(m.plugins, m.steps)
	}
	for _, phase := range []string{"admit", "validate"} {
		m.all[phase] = newRecorder(m.steps, phase)
	}
	return m
}

// recorder holds the observers of one plugin and phase. They are made when they are first needed: most never are.
type recorder struct {
	vector *prometheus.HistogramVec
	labels []string
	made   [4][2]atomic.Pointer[prometheus.Observer]
}

func newRecorder(v *prometheus.HistogramVec, labels ...string) *recorder {
	return &recorder{vector: v, labels: labels}
}

func (m *Metrics) plugin(name, phase string) *recorder {
	if m == nil {
		return nil
	}
	return newRecorder(m.plugins, name, phase)
}

func (m *Metrics) step(phase string) *recorder {
	if m == nil {
		return nil
	}
	return m.all[phase]
}

func (r *recorder) observe(op Operation, refused bool, took time.Duration) {
	if r == nil {
		return
	}
	n := slices.Index(operations, op)
	if n < 0 {
		return
	}
	i := 0
	if refused {
		i = 1
	}
	slot := &r.made[n][i]
	observer := slot.Load()
	if observer == nil {
		made := r.vector.WithLabelValues(append(slices.Clone(r.labels), string(op), strconv.FormatBool(refused))...)
		observer = &made
		slot.Store(observer)
	}
	(*observer).Observe(took.Seconds())
}

// operations are the slots of a recorder.
var operations = []Operation{Create, Update, Delete, Connect}
