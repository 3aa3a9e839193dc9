package podautoscaler

import (
	"errors"
	"fmt"
	"maps"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"
)

// Reading is what was read of one metric: samples of pods, or a value in thousandths; or why there is none.
type Reading struct {
	Samples Samples
	Value   int64
	Err     error
}

// judged is what one metric asks for, or why it asks for nothing.
type judged struct {
	replicas int32
	name     string // for people
	status   autoscalingv2.MetricStatus
	failure  *failure
}

// failure is why a metric cannot be judged.
type failure struct {
	reason string // of the event and the condition
	cause  error  // what these say
	err    error  // the same, for who looks at the whole
	spec   bool   // the autoscaler's own fault
}

// bench is what metrics are judged by.
type bench struct {
	current, replicas int32 // as the target wants it, and as it is
	pods              []*corev1.Pod
	tolerances        Tolerances
	readiness         Readiness
	now               time.Time
}

// judge returns what a metric asks for by what was read of it.
func (b bench) judge(m autoscalingv2.MetricSpec, r Reading) judged {
	switch {
	case m.Type == autoscalingv2.ResourceMetricSourceType && m.Resource != nil:
		return b.resource(m.Resource, r)
	case m.Type == autoscalingv2.ContainerResourceMetricSourceType && m.ContainerResource != nil:
		return b.container(m.ContainerResource, r)
	case m.Type == autoscalingv2.PodsMetricSourceType && m.Pods != nil && m.Pods.Target.AverageValue != nil:
		return b.ofPods(m.Pods, r)
	case m.Type == autoscalingv2.ObjectMetricSourceType && m.Object != nil:
		return b.object(m.Object, r)
	case m.Type == autoscalingv2.ExternalMetricSourceType && m.External != nil:
		return b.external(m.External, r)
	}
	err := fmt.Errorf("unknown metric source type %q", m.Type)
	return judged{failure: &failure{"InvalidMetricSourceType", err, err, true}}
}

func (b bench) resource(m *autoscalingv2.ResourceMetricSource, r Reading) judged {
	j, value, err := b.usage(m.Target, m.Name, "", r)
	if err != nil {
		return judged{failure: &failure{reason: "FailedGetResourceMetric", cause: err, err: fmt.Errorf("failed to get %s resource metric value: %w", m.Name, err)}}
	}
	j.status = autoscalingv2.MetricStatus{Type: autoscalingv2.ResourceMetricSourceType, Resource: &autoscalingv2.ResourceMetricStatus{Name: m.Name, Current: value}}
	return j
}

func (b bench) container(m *autoscalingv2.ContainerResourceMetricSource, r Reading) judged {
	j, value, err := b.usage(m.Target, m.Name, m.Container, r)
	if err != nil {
		return judged{failure: &failure{reason: "FailedGetContainerResourceMetric", cause: err, err: fmt.Errorf("failed to get %s container metric value: %w", m.Container, err)}}
	}
	j.status = autoscalingv2.MetricStatus{
		Type:              autoscalingv2.ContainerResourceMetricSourceType,
		ContainerResource: &autoscalingv2.ContainerResourceMetricStatus{Name: m.Name, Container: m.Container, Current: value},
	}
	return j
}

// usage judges a resource of pods, or of one container of each.
func (b bench) usage(target autoscalingv2.MetricTarget, name corev1.ResourceName, container string, r Reading) (judged, autoscalingv2.MetricValueStatus, error) {
	var value autoscalingv2.MetricValueStatus
	if target.AverageValue != nil {
		n, average, err := b.average(target.AverageValue.MilliValue(), name, r)
		if err != nil {
			return judged{}, value, fmt.Errorf("failed to get %s usage: %w", name, err)
		}
		value.AverageValue = amount(name, average)
		return judged{replicas: n, name: string(name) + " resource"}, value, nil
	}
	if target.AverageUtilization == nil {
		return judged{}, value, errors.New("invalid resource metric source: neither an average utilization target nor an average value (usage) target was set")
	}
	measure, first := utilization(*target.AverageUtilization, b.pods, container, name)
	n, err := b.count(measure, name, r)
	if err != nil {
		return judged{}, value, fmt.Errorf("failed to get %s utilization: %w", name, err)
	}
	value.AverageUtilization, value.AverageValue = &first.percent, amount(name, first.average)
	of := " resource utilization (percentage of request)"
	if container != "" {
		of = " container resource utilization (percentage of request)"
	}
	return judged{replicas: n, name: string(name) + of}, value, nil
}

func (b bench) average(target int64, name corev1.ResourceName, r Reading) (int32, int64, error) {
	measure, average := usage(target)
	n, err := b.count(measure, name, r)
	return n, *average, err
}

// count returns how many replicas samples ask for.
func (b bench) count(measure scale, name corev1.ResourceName, r Reading) (int32, error) {
	if r.Err != nil {
		return 0, r.Err
	}
	if len(b.pods) == 0 {
		return 0, errNoPods
	}
	return byPods(b.current, maps.Clone(r.Samples), takeCensus(b.pods, r.Samples, name, b.readiness, b.now), measure, b.tolerances)
}

func (b bench) ofPods(m *autoscalingv2.PodsMetricSource, r Reading) judged {
	n, average, err := b.average(m.Target.AverageValue.MilliValue(), "", r)
	if err != nil {
		return judged{failure: &failure{reason: "FailedGetPodsMetric", cause: err, err: fmt.Errorf("failed to get pods metric value: %w", err)}}
	}
	return judged{replicas: n, name: "pods metric " + m.Metric.Name, status: autoscalingv2.MetricStatus{
		Type: autoscalingv2.PodsMetricSourceType,
		Pods: &autoscalingv2.PodsMetricStatus{Metric: m.Metric, Current: autoscalingv2.MetricValueStatus{AverageValue: amount("", average)}},
	}}
}

func (b bench) object(m *autoscalingv2.ObjectMetricSource, r Reading) judged {
	j := judged{status: autoscalingv2.MetricStatus{
		Type: autoscalingv2.ObjectMetricSourceType, Object: &autoscalingv2.ObjectMetricStatus{DescribedObject: m.DescribedObject, Metric: m.Metric},
	}}
	current, cause := &j.status.Object.Current, r.Err
	full := r.Err
	switch {
	case m.Target.Type == autoscalingv2.ValueMetricType && m.Target.Value != nil:
		j.name = fmt.Sprintf("%s metric %s", m.DescribedObject.Kind, m.Metric.Name)
		if cause == nil {
			j.replicas, cause = byValue(b.current, r.Value, m.Target.Value.MilliValue(), b.pods, b.tolerances)
			current.Value, full = amount("", r.Value), cause
		}
	case m.Target.Type == autoscalingv2.AverageValueMetricType && m.Target.AverageValue != nil:
		j.name = fmt.Sprintf("external metric %s(%+v)", m.Metric.Name, m.Metric.Selector)
		if cause != nil {
			full = fmt.Errorf("failed to get %s object metric: %w", m.Metric.Name, cause)
			break
		}
		n, share := byShare(b.replicas, r.Value, m.Target.AverageValue.MilliValue(), b.tolerances)
		j.replicas, current.AverageValue = n, amount("", share)
	default:
		cause = errors.New("invalid object metric source: neither a value target nor an average value target was set")
		full = cause
	}
	if cause != nil {
		return judged{failure: &failure{reason: "FailedGetObjectMetric", cause: cause, err: fmt.Errorf("failed to get object metric value: %w", full)}}
	}
	return j
}

func (b bench) external(m *autoscalingv2.ExternalMetricSource, r Reading) judged {
	j := judged{
		name:   fmt.Sprintf("external metric %s(%+v)", m.Metric.Name, m.Metric.Selector),
		status: autoscalingv2.MetricStatus{Type: autoscalingv2.ExternalMetricSourceType, External: &autoscalingv2.ExternalMetricStatus{Metric: m.Metric}},
	}
	current, cause, text := &j.status.External.Current, r.Err, ""
	switch {
	case m.Target.AverageValue != nil:
		text = fmt.Sprintf("failed to get %s external metric: ", m.Metric.Name)
		if cause == nil {
			n, share := byShare(b.replicas, r.Value, m.Target.AverageValue.MilliValue(), b.tolerances)
			j.replicas, current.AverageValue = n, amount("", share)
		}
	case m.Target.Value != nil:
		text = fmt.Sprintf("failed to get external metric %s: ", m.Metric.Name)
		if cause == nil {
			j.replicas, cause = byValue(b.current, r.Value, m.Target.Value.MilliValue(), b.pods, b.tolerances)
			current.Value = amount("", r.Value)
		}
	default:
		cause = errors.New("invalid external metric source: neither a value target nor an average value target was set")
	}
	if cause != nil {
		return judged{failure: &failure{
			reason: "FailedGetExternalMetric", cause: cause, err: fmt.Errorf("failed to get %s external metric value: %s%w", m.Metric.Name, text, cause),
		}}
	}
	return j
}

// amount is a number of thousandths as a quantity. Memory is told in powers of two, as metrics-server tells it.
func amount(name corev1.ResourceName, thousandths int64) *resource.Quantity {
	if name == corev1.ResourceMemory {
		return ptr.To(*resource.NewMilliQuantity(thousandths, resource.BinarySI))
	}
	return ptr.To(*resource.NewMilliQuantity(thousandths, resource.DecimalSI))
}
