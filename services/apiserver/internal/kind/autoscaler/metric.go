package autoscaler

import (
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"

	"howdah.dev/services/apiserver/internal/kind/row"
)

// The metrics of autoscaling/v1, which only annotations have: values and names
// stand side by side where autoscaling/v2 has a target and a metric.

func specFromV1(in *autoscalingv1.MetricSpec) autoscalingv2.MetricSpec {
	out := autoscalingv2.MetricSpec{Type: autoscalingv2.MetricSourceType(in.Type)}
	if m := in.Object; m != nil {
		out.Object = &autoscalingv2.ObjectMetricSource{
			DescribedObject: autoscalingv2.CrossVersionObjectReference(m.Target),
			Metric:          autoscalingv2.MetricIdentifier{Name: m.MetricName, Selector: m.Selector},
			Target:          target2(nonzero(m.TargetValue), m.AverageValue, nil),
		}
	}
	if m := in.Pods; m != nil {
		out.Pods = &autoscalingv2.PodsMetricSource{
			Metric: autoscalingv2.MetricIdentifier{Name: m.MetricName, Selector: m.Selector},
			Target: target2(nil, &m.TargetAverageValue, nil),
		}
	}
	if m := in.Resource; m != nil {
		out.Resource = &autoscalingv2.ResourceMetricSource{Name: m.Name, Target: target2(nil, m.TargetAverageValue, m.TargetAverageUtilization)}
	}
	if m := in.ContainerResource; m != nil {
		out.ContainerResource = &autoscalingv2.ContainerResourceMetricSource{
			Name: m.Name, Container: m.Container, Target: target2(nil, m.TargetAverageValue, m.TargetAverageUtilization),
		}
	}
	if m := in.External; m != nil {
		out.External = &autoscalingv2.ExternalMetricSource{
			Metric: autoscalingv2.MetricIdentifier{Name: m.MetricName, Selector: m.MetricSelector},
			Target: target2(m.TargetValue, m.TargetAverageValue, nil),
		}
	}
	return out
}

// target2 tells the type of a target by what is set.
func target2(value, average *resource.Quantity, utilization *int32) autoscalingv2.MetricTarget {
	t := autoscalingv2.MetricTarget{Value: value, AverageValue: average, AverageUtilization: utilization}
	switch {
	case utilization != nil:
		t.Type = autoscalingv2.UtilizationMetricType
	case average != nil:
		t.Type = autoscalingv2.AverageValueMetricType
	default:
		t.Type = autoscalingv2.ValueMetricType
	}
	return t
}

// nonzero is nil for what stands for "not set" where the field is required.
func nonzero(q resource.Quantity) *resource.Quantity {
	if q.IsZero() {
		return nil
	}
	return &q
}

func specToV1(in *autoscalingv2.MetricSpec) autoscalingv1.MetricSpec {
	out := autoscalingv1.MetricSpec{Type: autoscalingv1.MetricSourceType(in.Type)}
	if m := in.Object; m != nil {
		out.Object = &autoscalingv1.ObjectMetricSource{
			Target: autoscalingv1.CrossVersionObjectReference(m.DescribedObject), MetricName: m.Metric.Name, Selector: m.Metric.Selector,
			TargetValue: row.Deref(m.Target.Value), AverageValue: m.Target.AverageValue,
		}
	}
	if m := in.Pods; m != nil {
		out.Pods = &autoscalingv1.PodsMetricSource{
			MetricName: m.Metric.Name, Selector: m.Metric.Selector, TargetAverageValue: row.Deref(m.Target.AverageValue),
		}
	}
	if m := in.Resource; m != nil {
		out.Resource = &autoscalingv1.ResourceMetricSource{
			Name: m.Name, TargetAverageValue: m.Target.AverageValue, TargetAverageUtilization: m.Target.AverageUtilization,
		}
	}
	if m := in.ContainerResource; m != nil {
		out.ContainerResource = &autoscalingv1.ContainerResourceMetricSource{
			Name: m.Name, Container: m.Container, TargetAverageValue: m.Target.AverageValue, TargetAverageUtilization: m.Target.AverageUtilization,
		}
	}
	if m := in.External; m != nil {
		out.External = &autoscalingv1.ExternalMetricSource{
			MetricName: m.Metric.Name, MetricSelector: m.Metric.Selector, TargetValue: m.Target.Value, TargetAverageValue: m.Target.AverageValue,
		}
	}
	return out
}

// statusFromV1 has every quantity that is required there, as zero where it was not said, which stands in the status from then on.
func statusFromV1(in *autoscalingv1.MetricStatus) autoscalingv2.MetricStatus {
	out := autoscalingv2.MetricStatus{Type: autoscalingv2.MetricSourceType(in.Type)}
	value := func(v, average *resource.Quantity, utilization *int32) autoscalingv2.MetricValueStatus {
		return autoscalingv2.MetricValueStatus{Value: v, AverageValue: average, AverageUtilization: utilization}
	}
	if m := in.Object; m != nil {
		out.Object = &autoscalingv2.ObjectMetricStatus{
			DescribedObject: autoscalingv2.CrossVersionObjectReference(m.Target),
			Metric:          autoscalingv2.MetricIdentifier{Name: m.MetricName, Selector: m.Selector},
			Current:         value(&m.CurrentValue, m.AverageValue, nil),
		}
	}
	if m := in.Pods; m != nil {
		out.Pods = &autoscalingv2.PodsMetricStatus{
			Metric:  autoscalingv2.MetricIdentifier{Name: m.MetricName, Selector: m.Selector},
			Current: value(nil, &m.CurrentAverageValue, nil),
		}
	}
	if m := in.Resource; m != nil {
		out.Resource = &autoscalingv2.ResourceMetricStatus{Name: m.Name, Current: value(nil, &m.CurrentAverageValue, m.CurrentAverageUtilization)}
	}
	if m := in.ContainerResource; m != nil {
		out.ContainerResource = &autoscalingv2.ContainerResourceMetricStatus{
			Name: m.Name, Container: m.Container, Current: value(nil, &m.CurrentAverageValue, m.CurrentAverageUtilization),
		}
	}
	if m := in.External; m != nil {
		out.External = &autoscalingv2.ExternalMetricStatus{
			Metric:  autoscalingv2.MetricIdentifier{Name: m.MetricName, Selector: m.MetricSelector},
			Current: value(&m.CurrentValue, m.CurrentAverageValue, nil),
		}
	}
	return out
}

func statusToV1(in *autoscalingv2.MetricStatus) autoscalingv1.MetricStatus {
	out := autoscalingv1.MetricStatus{Type: autoscalingv1.MetricSourceType(in.Type)}
	if m := in.Object; m != nil {
		out.Object = &autoscalingv1.ObjectMetricStatus{
			Target: autoscalingv1.CrossVersionObjectReference(m.DescribedObject), MetricName: m.Metric.Name, Selector: m.Metric.Selector,
			CurrentValue: row.Deref(m.Current.Value), AverageValue: m.Current.AverageValue,
		}
	}
	if m := in.Pods; m != nil {
		out.Pods = &autoscalingv1.PodsMetricStatus{
			MetricName: m.Metric.Name, Selector: m.Metric.Selector, CurrentAverageValue: row.Deref(m.Current.AverageValue),
		}
	}
	if m := in.Resource; m != nil {
		out.Resource = &autoscalingv1.ResourceMetricStatus{
			Name: m.Name, CurrentAverageValue: row.Deref(m.Current.AverageValue), CurrentAverageUtilization: m.Current.AverageUtilization,
		}
	}
	if m := in.ContainerResource; m != nil {
		out.ContainerResource = &autoscalingv1.ContainerResourceMetricStatus{
			Name: m.Name, Container: m.Container, CurrentAverageValue: row.Deref(m.Current.AverageValue), CurrentAverageUtilization: m.Current.AverageUtilization,
		}
	}
	if m := in.External; m != nil {
		out.External = &autoscalingv1.ExternalMetricStatus{
			MetricName: m.Metric.Name, MetricSelector: m.Metric.Selector,
			CurrentValue: row.Deref(m.Current.Value), CurrentAverageValue: m.Current.AverageValue,
		}
	}
	return out
}
