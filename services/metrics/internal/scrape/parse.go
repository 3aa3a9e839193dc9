// Package scrape asks nodes' HTTPS endpoints what they and their containers use.
package scrape

import (
	"fmt"
	"io"
	"math"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"howdah.dev/services/metrics/internal/sample"
)

// The metrics of /metrics/resource, as Kubernetes names them
// (https://kubernetes.io/docs/reference/instrumentation/node-metrics/).
const (
	nodeCPU          = "node_cpu_usage_seconds_total"
	nodeMemory       = "node_memory_working_set_bytes"
	containerCPU     = "container_cpu_usage_seconds_total"
	containerMemory  = "container_memory_working_set_bytes"
	containerStarted = "container_start_time_seconds"
)

// parse reads a node's metrics. What has no time of its own was measured at now. Containers of which the processor or the memory is not told are left out.
func parse(text io.Reader, now time.Time) (sample.Scrape, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(text)
	if err != nil {
		return sample.Scrape{}, fmt.Errorf("read metrics: %w", err)
	}
	out := sample.Scrape{Pods: map[sample.Pod]map[string]sample.Reading{}}
	cpu, memory := first(families[nodeCPU]), first(families[nodeMemory])
	if cpu == nil || memory == nil || !counts(cpu) {
		return sample.Scrape{}, fmt.Errorf("%s and %s are not both told", nodeCPU, nodeMemory)
	}
	out.Node = sample.Reading{Time: timeOf(cpu, now), CPU: valueOf(cpu), Memory: bytesOf(memory)}

	memories, starts := byContainer(families[containerMemory]), byContainer(families[containerStarted])
	for of, m := range byContainer(families[containerCPU]) {
		held, known := memories[of]
		if !known || !counts(m) {
			continue
		}
		reading := sample.Reading{Time: timeOf(m, now), CPU: valueOf(m), Memory: bytesOf(held)}
		if started := starts[of]; started != nil {
			reading.Started = secondsOf(valueOf(started))
		}
		if out.Pods[of.pod] == nil {
			out.Pods[of.pod] = map[string]sample.Reading{}
		}
		out.Pods[of.pod][of.container] = reading
	}
	return out, nil
}

type container struct {
	pod       sample.Pod
	container string
}

func byContainer(family *dto.MetricFamily) map[container]*dto.Metric {
	out := map[container]*dto.Metric{}
	for _, m := range family.GetMetric() {
		var of container
		for _, l := range m.GetLabel() {
			switch l.GetName() {
			case "namespace":
				of.pod.Namespace = l.GetValue()
			case "pod":
				of.pod.Name = l.GetValue()
			case "container":
				of.container = l.GetValue()
			}
		}
		out[of] = m
	}
	return out
}

func first(family *dto.MetricFamily) *dto.Metric {
	if all := family.GetMetric(); len(all) > 0 {
		return all[0]
	}
	return nil
}

// valueOf is the number of a metric of any of the types that nodes give it.
func valueOf(m *dto.Metric) float64 {
	switch {
	case m.Counter != nil:
		return m.GetCounter().GetValue()
	case m.Gauge != nil:
		return m.GetGauge().GetValue()
	}
	return m.GetUntyped().GetValue()
}

// counts reports whether a counter has a number that can be.
func counts(m *dto.Metric) bool {
	v := valueOf(m)
	return v >= 0 && !math.IsInf(v, 0)
}

// bytesOf is a number of bytes; nonsense is none.
func bytesOf(m *dto.Metric) uint64 {
	if v := valueOf(m); v > 0 && v < math.MaxInt64 {
		return uint64(v)
	}
	return 0
}

func timeOf(m *dto.Metric, now time.Time) time.Time {
	if m.TimestampMs == nil {
		return now
	}
	return time.UnixMilli(m.GetTimestampMs())
}

func secondsOf(s float64) time.Time {
	whole, part := math.Modf(s)
	return time.Unix(int64(whole), int64(part*1e9))
}
