// Package meter tells a reading of what the node uses as Prometheus metrics: those of /metrics/resource and /metrics/cadvisor.
package meter

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"howdah.dev/nodeagent/internal/usage"
)

// Source makes readings.
type Source interface {
	Read(ctx context.Context) *usage.Reading
}

// emitter writes metrics of one moment.
type emitter struct{ to chan<- prometheus.Metric }

func (e emitter) at(t time.Time, desc *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
	e.to <- prometheus.NewMetricWithTimestamp(t, prometheus.MustNewConstMetric(desc, kind, value, labels...))
}

func (e emitter) timeless(desc *prometheus.Desc, value float64, labels ...string) {
	e.to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
}

// resources are the names of /metrics/resource, the kubelet's, in the order: node, pod, container.
type resources struct {
	source                                         Source
	cpu, memory, swap                              [3]*prometheus.Desc
	swapLimit, started, scrapeError, resourceError *prometheus.Desc
}

const (
	ofNode = iota
	ofPod
	ofContainer
)

// Resource returns the collector of /metrics/resource.
func Resource(source Source) prometheus.Collector {
	c := &resources{source: source}
	labels := [3][]string{nil, {"pod", "namespace"}, {"container", "pod", "namespace"}}
	for i, what := range []string{"node", "pod", "container"} {
		c.cpu[i] = prometheus.NewDesc(what+"_cpu_usage_seconds_total", "Time of cores that the "+what+" has used, in seconds.", labels[i], nil)
		c.memory[i] = prometheus.NewDesc(what+"_memory_working_set_bytes", "Working set of the "+what+".", labels[i], nil)
		c.swap[i] = prometheus.NewDesc(what+"_swap_usage_bytes", "Swap that the "+what+" uses.", labels[i], nil)
	}
	c.swapLimit = prometheus.NewDesc("container_swap_limit_bytes", "Swap that the container may use.", labels[ofContainer], nil)
	c.started = prometheus.NewDesc("container_start_time_seconds", "When the container started, in seconds since 1970.", labels[ofContainer], nil)
	c.scrapeError = prometheus.NewDesc("scrape_error", "1 where what pods use could not be read.", nil, nil)
	c.resourceError = prometheus.NewDesc("resource_scrape_error", "1 where what pods use could not be read.", nil, nil)
	return c
}

// Describe implements prometheus.Collector: nothing is promised, for what there is comes and goes.
func (c *resources) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c *resources) Collect(to chan<- prometheus.Metric) {
	e := emitter{to}
	r := c.source.Read(context.Background()) // which is bounded
	failed := 0.0
	if r.Err != nil {
		failed = 1
	}
	e.timeless(c.scrapeError, failed)
	e.timeless(c.resourceError, failed)
	c.group(e, ofNode, r.Node.Measured)
	for i := range r.Pods {
		p := &r.Pods[i]
		c.group(e, ofPod, p.Measured, p.Name, p.Namespace)
		for j := range p.Containers {
			one := &p.Containers[j]
			e.timeless(c.started, seconds(one.Started), one.Name, p.Name, p.Namespace)
			c.group(e, ofContainer, one.Measured, one.Name, p.Name, p.Namespace)
			if one.Swap != nil && one.Swap.Limit > 0 {
				e.at(one.At, c.swapLimit, prometheus.GaugeValue, float64(one.Swap.Limit), one.Name, p.Name, p.Namespace)
			}
		}
	}
}

func (c *resources) group(e emitter, what int, m usage.Measured, labels ...string) {
	if m.CPU != nil {
		e.at(m.At, c.cpu[what], prometheus.CounterValue, m.CPU.Total.Seconds(), labels...)
	}
	if m.Memory != nil {
		e.at(m.At, c.memory[what], prometheus.GaugeValue, float64(m.Memory.WorkingSet), labels...)
	}
	if m.Swap != nil {
		e.at(m.At, c.swap[what], prometheus.GaugeValue, float64(m.Swap.Usage), labels...)
	}
}

// seconds is a moment as Prometheus tells it.
func seconds(t time.Time) float64 { return float64(t.UnixNano()) / float64(time.Second) }
