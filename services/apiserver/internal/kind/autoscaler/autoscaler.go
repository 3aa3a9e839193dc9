// Package autoscaler is the kind HorizontalPodAutoscaler: stored as
// autoscaling/v2, served as autoscaling/v1 too.
package autoscaler

import (
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/services/apiserver/internal/kind/column"
	"howdah.dev/services/apiserver/internal/kind/row"
	"howdah.dev/services/apiserver/internal/kind/typed"
	"howdah.dev/services/apiserver/internal/registry"
)

type scaler = autoscalingv2.HorizontalPodAutoscaler

// FeatureToZero is the gate with which targets may have no replicas.
const FeatureToZero = "HPAScaleToZero"

// Kind returns the kind; now is the clock for ages, toZero says whether FeatureToZero is on.
func Kind(now func() time.Time, toZero bool) *registry.Kind {
	k := row.Of[scaler, autoscalingv2.HorizontalPodAutoscalerList](autoscalingv2.SchemeGroupVersion, "horizontalpodautoscalers")
	k.Namespaced, k.ShortNames, k.Categories = true, []string{"hpa"}, []string{"all"}
	k.Served = []registry.Version{v1Version()}
	row.SpecStatusUncounted(k, func(h *scaler) *autoscalingv2.HorizontalPodAutoscalerSpec { return &h.Spec },
		func(h *scaler) *autoscalingv2.HorizontalPodAutoscalerStatus { return &h.Status }, validateStatus)
	k.Default = typed.Do(func(h *autoscalingv2.HorizontalPodAutoscaler) {
		if stands(h.Annotations) { // for fields, which this version has
			h.Annotations = bare(h.Annotations)
		}
		fill(h)
	})
	typed.Ratchet(k, func(h, old *scaler) field.ErrorList {
		was := old != nil && old.Spec.MinReplicas != nil && *old.Spec.MinReplicas == 0 // what was let in stays
		return validate(h, toZero || was)
	})
	spec, status := autoscalingv2.HorizontalPodAutoscalerSpec{}.SwaggerDoc(), autoscalingv2.HorizontalPodAutoscalerStatus{}.SwaggerDoc()
	k.Columns = []metav1.TableColumnDefinition{
		column.Name(),
		column.String("Reference", spec["scaleTargetRef"]),
		column.String("Targets", spec["metrics"]),
		column.String("MinPods", spec["minReplicas"]),
		column.String("MaxPods", spec["maxReplicas"]),
		column.String("Replicas", status["currentReplicas"]),
		column.Age(),
	}
	k.Cells = typed.Get(func(h *scaler) []any { return cells(h, now()) })
	return k
}

const defaultUtilization = 80

func fill(h *scaler) {
	row.Set(&h.Spec.MinReplicas, 1)
	if len(h.Spec.Metrics) == 0 {
		percent := int32(defaultUtilization)
		h.Spec.Metrics = []autoscalingv2.MetricSpec{{
			Type: autoscalingv2.ResourceMetricSourceType,
			Resource: &autoscalingv2.ResourceMetricSource{
				Name:   corev1.ResourceCPU,
				Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &percent},
			},
		}}
	}
	if len(h.Status.CurrentMetrics) == 0 {
		h.Status.CurrentMetrics = nil // the one form of none
	}
	b := h.Spec.Behavior
	if b == nil {
		return
	}
	// Up at once, by what is more of 4 pods and twice as many; down to any number.
	b.ScaleUp = rules(b.ScaleUp,
		autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PodsScalingPolicy, Value: 4, PeriodSeconds: 15},
		autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PercentScalingPolicy, Value: 100, PeriodSeconds: 15})
	row.Set(&b.ScaleUp.StabilizationWindowSeconds, 0)
	b.ScaleDown = rules(b.ScaleDown,
		autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PercentScalingPolicy, Value: 100, PeriodSeconds: 15})
}

func rules(r *autoscalingv2.HPAScalingRules, policies ...autoscalingv2.HPAScalingPolicy) *autoscalingv2.HPAScalingRules {
	if r == nil {
		r = &autoscalingv2.HPAScalingRules{}
	}
	row.Set(&r.SelectPolicy, autoscalingv2.MaxChangePolicySelect)
	if r.Policies == nil {
		r.Policies = policies
	}
	return r
}
