package apiserver

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

// TestBorrowed has metrics of another registry passed on, those alone that are wanted.
func TestBorrowed(t *testing.T) {
	t.Parallel()
	theirs, ours := prometheus.NewRegistry(), prometheus.NewRegistry()
	evaluations := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "apiserver_admission_match_condition_evaluation_seconds", Help: "H", Buckets: []float64{1}}, []string{"name"})
	errors := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "apiserver_admission_match_condition_evaluation_errors_total", Help: "E"}, []string{"name"})
	other := prometheus.NewCounter(prometheus.CounterOpts{Name: "workqueue_adds_total", Help: "O"})
	theirs.MustRegister(evaluations, errors, other)
	ours.MustRegister(borrowed{theirs})
	evaluations.WithLabelValues("x").Observe(0.5)
	errors.WithLabelValues("x").Inc()
	const want = `
# HELP apiserver_admission_match_condition_evaluation_errors_total E
# TYPE apiserver_admission_match_condition_evaluation_errors_total counter
apiserver_admission_match_condition_evaluation_errors_total{name="x"} 1
# HELP apiserver_admission_match_condition_evaluation_seconds H
# TYPE apiserver_admission_match_condition_evaluation_seconds histogram
apiserver_admission_match_condition_evaluation_seconds_bucket{name="x",le="1"} 1
apiserver_admission_match_condition_evaluation_seconds_bucket{name="x",le="+Inf"} 1
apiserver_admission_match_condition_evaluation_seconds_sum{name="x"} 0.5
apiserver_admission_match_condition_evaluation_seconds_count{name="x"} 1
`
	if err := testutil.GatherAndCompare(ours, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}
