package apiserver

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"k8s.io/component-base/metrics/legacyregistry"
)

// counted are the metrics that Kubernetes' libraries count by themselves, wherever they are used: here, expressions in CEL.
var counted = []string{
	"apiserver_admission_match_condition_evaluation_errors_total", "apiserver_admission_match_condition_evaluation_seconds",
	"apiserver_cel_compilation_duration_seconds", "apiserver_cel_evaluation_duration_seconds",
}

// borrowed tells of them. They are those of the process: the libraries have one registry.
type borrowed struct{ from prometheus.Gatherer }

func newBorrowed() borrowed { return borrowed{legacyregistry.DefaultGatherer} }

// Describe implements prometheus.Collector: what there will be is the libraries' business.
func (borrowed) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (b borrowed) Collect(out chan<- prometheus.Metric) {
	families, err := b.from.Gather()
	if err != nil && len(families) == 0 {
		return
	}
	for _, family := range families {
		if !slices.Contains(counted, family.GetName()) {
			continue
		}
		for _, m := range family.GetMetric() {
			var labels []string
			for _, pair := range m.GetLabel() {
				labels = append(labels, pair.GetName())
			}
			out <- passed{prometheus.NewDesc(family.GetName(), family.GetHelp(), labels, nil), m}
		}
	}
}

// passed is a metric as another registry tells of it.
type passed struct {
	desc *prometheus.Desc
	from *dto.Metric
}

// Desc implements prometheus.Metric.
func (p passed) Desc() *prometheus.Desc { return p.desc }

// Write implements prometheus.Metric.
func (p passed) Write(to *dto.Metric) error {
	to.Label, to.Counter, to.Gauge, to.Histogram = p.from.GetLabel(), p.from.GetCounter(), p.from.GetGauge(), p.from.GetHistogram()
	return nil
}
