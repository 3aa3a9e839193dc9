package autoscaler

import (
	"encoding/json"
	"maps"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"howdah.dev/services/apiserver/internal/kind/recast"
	"howdah.dev/services/apiserver/internal/kind/row"
	"howdah.dev/services/apiserver/internal/kind/typed"
	"howdah.dev/services/apiserver/internal/kind/unversioned"
	"howdah.dev/services/apiserver/internal/registry"
)

// What autoscaling/v1 has no fields for is kept in annotations, as JSON.
const (
	metricsAnnotation    = "autoscaling.alpha.kubernetes.io/metrics"
	currentAnnotation    = "autoscaling.alpha.kubernetes.io/current-metrics"
	conditionsAnnotation = "autoscaling.alpha.kubernetes.io/conditions"
	behaviorAnnotation   = "autoscaling.alpha.kubernetes.io/behavior"
)

func v1Version() registry.Version {
	return registry.Version{
		GVK:        autoscalingv1.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"),
		New:        func() registry.Object { return &autoscalingv1.HorizontalPodAutoscaler{} },
		NewList:    func() runtime.Object { return &autoscalingv1.HorizontalPodAutoscalerList{} },
		Default:    typed.Do(func(h *autoscalingv1.HorizontalPodAutoscaler) { row.Set(&h.Spec.MinReplicas, 1) }),
		ToStored:   typed.Convert(fromV1),
		FromStored: typed.Convert(toV1),
	}
}

func fromV1(in *autoscalingv1.HorizontalPodAutoscaler) *scaler {
	s, t := &in.Spec, &in.Status
	out := &scaler{ObjectMeta: in.ObjectMeta}
	out.SetGroupVersionKind(autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"))
	out.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference(s.ScaleTargetRef)
	out.Spec.MinReplicas, out.Spec.MaxReplicas = s.MinReplicas, s.MaxReplicas
	out.Status = autoscalingv2.HorizontalPodAutoscalerStatus{
		ObservedGeneration: t.ObservedGeneration, LastScaleTime: t.LastScaleTime,
		CurrentReplicas: t.CurrentReplicas, DesiredReplicas: t.DesiredReplicas,
	}
	if t.CurrentCPUUtilizationPercentage != nil {
		out.Status.CurrentMetrics = []autoscalingv2.MetricStatus{{
			Type: autoscalingv2.ResourceMetricSourceType,
			Resource: &autoscalingv2.ResourceMetricStatus{
				Name: corev1.ResourceCPU, Current: autoscalingv2.MetricValueStatus{AverageUtilization: t.CurrentCPUUtilizationPercentage},
			},
		}}
	}
	var metrics []autoscalingv1.MetricSpec
	if annotated(in.Annotations, metricsAnnotation, &metrics) {
		for i := range metrics {
			out.Spec.Metrics = append(out.Spec.Metrics, specFromV1(&metrics[i]))
		}
	}
	if s.TargetCPUUtilizationPercentage != nil {
		out.Spec.Metrics = append(out.Spec.Metrics, autoscalingv2.MetricSpec{
			Type: autoscalingv2.ResourceMetricSourceType,
			Resource: &autoscalingv2.ResourceMetricSource{Name: corev1.ResourceCPU, Target: autoscalingv2.MetricTarget{
				Type: autoscalingv2.UtilizationMetricType, AverageUtilization: s.TargetCPUUtilizationPercentage,
			}},
		})
	}
	var current []autoscalingv1.MetricStatus
	if annotated(in.Annotations, currentAnnotation, &current) {
		out.Status.CurrentMetrics = nil // all are there
		for i := range current {
			out.Status.CurrentMetrics = append(out.Status.CurrentMetrics, statusFromV1(&current[i]))
		}
	}
	var conditions []autoscalingv1.HorizontalPodAutoscalerCondition
	if annotated(in.Annotations, conditionsAnnotation, &conditions) {
		recast.Into(&conditions, &out.Status.Conditions)
	}
	var behavior autoscalingv2.HorizontalPodAutoscalerBehavior
	if annotated(in.Annotations, behaviorAnnotation, &behavior) && behavior != (autoscalingv2.HorizontalPodAutoscalerBehavior{}) {
		spelled(behavior.ScaleUp)
		spelled(behavior.ScaleDown)
		out.Spec.Behavior = &behavior
	}
	out.Annotations = bare(in.Annotations)
	return out
}

// spelled leaves rules that an annotation gives without policies without them, so that they are refused: only fields are filled in.
func spelled(r *autoscalingv2.HPAScalingRules) {
	if r != nil && r.Policies == nil {
		r.Policies = []autoscalingv2.HPAScalingPolicy{}
	}
}

// annotated reads one of the annotations; what is no JSON counts as absent.
func annotated(annotations map[string]string, key string, into any) bool {
	text, ok := annotations[key]
	return ok && json.Unmarshal([]byte(text), into) == nil
}

// stands reports whether some of the annotations stand for fields.
func stands(annotations map[string]string) bool {
	for _, key := range []string{metricsAnnotation, currentAnnotation, conditionsAnnotation, behaviorAnnotation} {
		if _, ok := annotations[key]; ok {
			return true
		}
	}
	return false
}

// bare is annotations without those that stand for fields.
func bare(annotations map[string]string) map[string]string {
	out := maps.Clone(annotations)
	for _, key := range []string{metricsAnnotation, currentAnnotation, conditionsAnnotation, behaviorAnnotation} {
		delete(out, key)
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

func toV1(in *scaler) *autoscalingv1.HorizontalPodAutoscaler {
	s, t := &in.Spec, &in.Status
	out := &autoscalingv1.HorizontalPodAutoscaler{ObjectMeta: in.ObjectMeta}
	out.SetGroupVersionKind(autoscalingv1.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler"))
	out.Spec = autoscalingv1.HorizontalPodAutoscalerSpec{
		ScaleTargetRef: autoscalingv1.CrossVersionObjectReference(s.ScaleTargetRef), MinReplicas: s.MinReplicas, MaxReplicas: s.MaxReplicas,
	}
	out.Status = autoscalingv1.HorizontalPodAutoscalerStatus{
		ObservedGeneration: t.ObservedGeneration, LastScaleTime: t.LastScaleTime,
		CurrentReplicas: t.CurrentReplicas, DesiredReplicas: t.DesiredReplicas,
	}
	var metrics []autoscalingv1.MetricSpec
	for i := range s.Metrics {
		m := &s.Metrics[i]
		if r := m.Resource; m.Type == autoscalingv2.ResourceMetricSourceType && r != nil && r.Name == corev1.ResourceCPU && r.Target.AverageUtilization != nil {
			row.Set(&out.Spec.TargetCPUUtilizationPercentage, *r.Target.AverageUtilization)
			continue
		}
		metrics = append(metrics, specToV1(m))
	}
	var current []autoscalingv1.MetricStatus
	for i := range t.CurrentMetrics {
		m := &t.CurrentMetrics[i]
		if r := m.Resource; m.Type == autoscalingv2.ResourceMetricSourceType && r != nil && r.Name == corev1.ResourceCPU && r.Current.AverageUtilization != nil {
			out.Status.CurrentCPUUtilizationPercentage = r.Current.AverageUtilization
		}
		current = append(current, statusToV1(m))
	}
	var conditions []autoscalingv1.HorizontalPodAutoscalerCondition
	recast.Into(&t.Conditions, &conditions)
	out.Annotations = bare(in.Annotations)
	annotate(out, metricsAnnotation, metrics, len(metrics) > 0)
	annotate(out, currentAnnotation, current, len(current) > 0)
	annotate(out, conditionsAnnotation, conditions, len(conditions) > 0)
	annotate(out, behaviorAnnotation, unversioned.Form(s.Behavior), s.Behavior != nil)
	return out
}

func annotate(h *autoscalingv1.HorizontalPodAutoscaler, key string, value any, set bool) {
	if !set {
		return
	}
	text, err := json.Marshal(value)
	if err != nil {
		return // of plain API types, none fails
	}
	if h.Annotations == nil {
		h.Annotations = map[string]string{}
	}
	h.Annotations[key] = string(text)
}
