package autoscaler

import (
	"fmt"
	"slices"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation/path"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/check"
	"howdah.dev/kit/podspec"
	"howdah.dev/services/apiserver/internal/kind/row"
	"howdah.dev/services/apiserver/internal/kind/workload"
)

// validate checks an autoscaler. zero says that its target may have no replicas.
func validate(h *scaler, zero bool) field.ErrorList {
	spec, at := &h.Spec, field.NewPath("spec")
	var errs field.ErrorList
	least := row.Deref(spec.MinReplicas)
	bound := int32(1)
	if zero {
		bound = 0
	}
	if spec.MinReplicas != nil && least < bound {
		errs = append(errs, field.Invalid(at.Child("minReplicas"), least, fmt.Sprintf("must be greater than or equal to %d", bound)))
	}
	most := at.Child("maxReplicas")
	switch {
	case spec.MaxReplicas == 0:
		errs = append(errs, field.Required(most, "must be set and greater than 0"))
	case spec.MaxReplicas < 0:
		errs = append(errs, field.Invalid(most, spec.MaxReplicas, "must be greater than or equal to 1"))
	}
	if spec.MinReplicas != nil && spec.MaxReplicas < least {
		errs = append(errs, field.Invalid(most, spec.MaxReplicas, "must be greater than or equal to `minReplicas`"))
	}
	errs = append(errs, validateTargetReference(&spec.ScaleTargetRef, at.Child("scaleTargetRef"))...)
	toZero := spec.MinReplicas != nil && least == 0
	for i := range spec.Metrics {
		m := &spec.Metrics[i]
		errs = append(errs, validateMetric(m, at.Child("metrics").Index(i))...)
		toZero = toZero && m.Type != autoscalingv2.ObjectMetricSourceType && m.Type != autoscalingv2.ExternalMetricSourceType
	}
	if toZero {
		errs = append(errs, field.Forbidden(at.Child("metrics"), "must specify at least one Object or External metric to support scaling to zero replicas"))
	}
	if b := spec.Behavior; b != nil {
		errs = append(errs, validateRules(b.ScaleUp, at.Child("behavior", "scaleUp"))...)
		errs = append(errs, validateRules(b.ScaleDown, at.Child("behavior", "scaleDown"))...)
	}
	return errs
}

// validateTargetReference also wants a group: of the core group, nothing but ReplicationControllers can be scaled.
func validateTargetReference(r *autoscalingv2.CrossVersionObjectReference, at *field.Path) field.ErrorList {
	errs := validateReference(r, at)
	if gv, err := schema.ParseGroupVersion(r.APIVersion); err == nil && gv.Group == "" && r.Kind != "ReplicationController" {
		errs = append(errs, field.Invalid(at.Child("apiVersion"), r.APIVersion, "apiVersion must specify API group"))
	}
	return errs
}

func validateReference(r *autoscalingv2.CrossVersionObjectReference, at *field.Path) field.ErrorList {
	errs := segment(r.Kind, at.Child("kind"))
	errs = append(errs, segment(r.Name, at.Child("name"))...)
	if _, err := schema.ParseGroupVersion(r.APIVersion); err != nil {
		errs = append(errs, field.Invalid(at.Child("apiVersion"), r.APIVersion, err.Error()))
	}
	return errs
}

// segment wants a text that fits into a URL.
func segment(text string, at *field.Path) field.ErrorList {
	if text == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	return check.Each(path.IsValidPathSegmentName(text), text, at)
}

// metricName is the field of a type; "" means there is no such type.
func metricName(t autoscalingv2.MetricSourceType) string {
	switch t {
	case autoscalingv2.ObjectMetricSourceType:
		return "object"
	case autoscalingv2.PodsMetricSourceType:
		return "pods"
	case autoscalingv2.ResourceMetricSourceType:
		return "resource"
	case autoscalingv2.ContainerResourceMetricSourceType:
		return "containerResource"
	case autoscalingv2.ExternalMetricSourceType:
		return "external"
	}
	return ""
}

func validateMetric(m *autoscalingv2.MetricSpec, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if m.Type == "" {
		errs = append(errs, field.Required(at.Child("type"), "must specify a metric source type"))
	}
	name := metricName(m.Type)
	unknown := check.OneOf(m.Type, at.Child("type"), autoscalingv2.ObjectMetricSourceType, autoscalingv2.PodsMetricSourceType,
		autoscalingv2.ResourceMetricSourceType, autoscalingv2.ContainerResourceMetricSourceType, autoscalingv2.ExternalMetricSourceType)
	errs = append(errs, unknown...)
	var present []string
	for _, source := range sources(m) {
		if !source.set {
			continue
		}
		// Only the first is looked at: more than one is wrong anyway.
		if present = append(present, source.name); len(present) == 1 {
			errs = append(errs, source.check(at.Child(source.name))...)
		}
	}
	errs = append(errs, unknown...)
	if name != "" && !slices.Contains(present, name) {
		errs = append(errs, field.Required(at.Child(name), "must populate information for the given metric source"))
	}
	if len(present) > 1 {
		for _, other := range present {
			if other != name {
				errs = append(errs, field.Forbidden(at.Child(other), "must populate the given metric source only"))
			}
		}
	}
	return errs
}

type source struct {
	name  string
	set   bool
	check func(*field.Path) field.ErrorList
}

func sources(m *autoscalingv2.MetricSpec) []source {
	return []source{
		{"object", m.Object != nil, func(p *field.Path) field.ErrorList { return validateObject(m.Object, p) }},
		{"external", m.External != nil, func(p *field.Path) field.ErrorList {
			errs := validateIdentifier(&m.External.Metric, p.Child("metric"))
			return append(errs, validateAmount(&m.External.Target, p.Child("target"), true)...)
		}},
		{"pods", m.Pods != nil, func(p *field.Path) field.ErrorList {
			errs := validateIdentifier(&m.Pods.Metric, p.Child("metric"))
			errs = append(errs, validateTarget(&m.Pods.Target, p.Child("target"))...)
			if m.Pods.Target.AverageValue == nil {
				errs = append(errs, field.Required(p.Child("target", "averageValue"), "must specify a positive target averageValue"))
			}
			return errs
		}},
		{"resource", m.Resource != nil, func(p *field.Path) field.ErrorList {
			return append(named(m.Resource.Name, p), validateResource(&m.Resource.Target, p.Child("target"))...)
		}},
		{"containerResource", m.ContainerResource != nil, func(p *field.Path) field.ErrorList {
			return validateContainerResource(m.ContainerResource, p)
		}},
	}
}

func named(resource corev1.ResourceName, at *field.Path) field.ErrorList {
	if resource == "" {
		return field.ErrorList{field.Required(at.Child("name"), "must specify a resource name")}
	}
	return nil
}

func validateContainerResource(r *autoscalingv2.ContainerResourceMetricSource, at *field.Path) field.ErrorList {
	errs := named(r.Name, at)
	if r.Name != "" {
		errs = append(errs, podspec.ContainerResourceName(r.Name, at.Child("name"))...)
	}
	if r.Container == "" {
		errs = append(errs, field.Required(at.Child("container"), "must specify a container"))
	} else {
		errs = append(errs, check.Label(r.Container, at.Child("container"))...)
	}
	return append(errs, validateResource(&r.Target, at.Child("target"))...)
}

func validateObject(o *autoscalingv2.ObjectMetricSource, at *field.Path) field.ErrorList {
	errs := validateReference(&o.DescribedObject, at.Child("describedObject"))
	errs = append(errs, validateIdentifier(&o.Metric, at.Child("metric"))...)
	return append(errs, validateAmount(&o.Target, at.Child("target"), false)...)
}

// validateAmount wants a value or an average, or exactly one of them.
func validateAmount(t *autoscalingv2.MetricTarget, at *field.Path, one bool) field.ErrorList {
	errs := validateTarget(t, at)
	switch {
	case t.Value == nil && t.AverageValue == nil:
		text := "must set either a target value or averageValue"
		if one {
			text = "must set either a target value for metric or a per-pod target"
		}
		errs = append(errs, field.Required(at.Child("averageValue"), text))
	case one && t.Value != nil && t.AverageValue != nil:
		errs = append(errs, field.Forbidden(at.Child("value"), "may not set both a target value for metric and a per-pod target"))
	}
	return errs
}

func validateResource(t *autoscalingv2.MetricTarget, at *field.Path) field.ErrorList {
	errs := validateTarget(t, at)
	switch {
	case t.AverageUtilization == nil && t.AverageValue == nil:
		errs = append(errs, field.Required(at.Child("averageUtilization"), "must set either a target raw value or a target utilization"))
	case t.AverageUtilization != nil && t.AverageValue != nil:
		errs = append(errs, field.Forbidden(at.Child("averageValue"), "may not set both a target raw value and a target utilization"))
	}
	return errs
}

func validateTarget(t *autoscalingv2.MetricTarget, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if t.Type == "" {
		errs = append(errs, field.Required(at.Child("type"), "must specify a metric target type"))
	}
	if t.Type != autoscalingv2.UtilizationMetricType && t.Type != autoscalingv2.ValueMetricType && t.Type != autoscalingv2.AverageValueMetricType {
		errs = append(errs, field.Invalid(at.Child("type"), t.Type, "must be either Utilization, Value, or AverageValue"))
	}
	if t.Value != nil && t.Value.Sign() != 1 {
		errs = append(errs, field.Invalid(at.Child("value"), t.Value, "must be positive"))
	}
	if t.AverageValue != nil && t.AverageValue.Sign() != 1 {
		errs = append(errs, field.Invalid(at.Child("averageValue"), t.AverageValue, "must be positive"))
	}
	if t.AverageUtilization != nil && *t.AverageUtilization < 1 {
		errs = append(errs, field.Invalid(at.Child("averageUtilization"), t.AverageUtilization, "must be greater than 0"))
	}
	return errs
}

// validateIdentifier leaves the selector to the system that the metric comes from.
func validateIdentifier(m *autoscalingv2.MetricIdentifier, at *field.Path) field.ErrorList {
	if m.Name == "" {
		return field.ErrorList{field.Required(at.Child("name"), "must specify a metric name")}
	}
	return check.Each(path.IsValidPathSegmentName(m.Name), m.Name, at.Child("name"))
}

const (
	longestWindow = 3600
	longestPeriod = 1800
)

func validateRules(r *autoscalingv2.HPAScalingRules, at *field.Path) field.ErrorList {
	if r == nil {
		return nil
	}
	var errs field.ErrorList
	if n := row.Deref(r.StabilizationWindowSeconds); n < 0 {
		errs = append(errs, field.Invalid(at.Child("stabilizationWindowSeconds"), n, "must be greater than or equal to zero"))
	} else if n > longestWindow {
		errs = append(errs, field.Invalid(at.Child("stabilizationWindowSeconds"), n, "must be less than or equal to 3600"))
	}
	if r.SelectPolicy != nil {
		errs = append(errs, check.OneOf(*r.SelectPolicy, at.Child("selectPolicy"), autoscalingv2.MaxChangePolicySelect,
			autoscalingv2.MinChangePolicySelect, autoscalingv2.DisabledPolicySelect)...)
	}
	policies := at.Child("policies")
	if len(r.Policies) == 0 {
		errs = append(errs, field.Required(policies, "must specify at least one Policy"))
	}
	for i, p := range r.Policies {
		at := policies.Index(i)
		errs = append(errs, check.OneOf(p.Type, at.Child("type"), autoscalingv2.PodsScalingPolicy, autoscalingv2.PercentScalingPolicy)...)
		if p.Value <= 0 {
			errs = append(errs, field.Invalid(at.Child("value"), p.Value, "must be greater than zero"))
		}
		if p.PeriodSeconds <= 0 {
			errs = append(errs, field.Invalid(at.Child("periodSeconds"), p.PeriodSeconds, "must be greater than zero"))
		}
		if p.PeriodSeconds > longestPeriod {
			errs = append(errs, field.Invalid(at.Child("periodSeconds"), p.PeriodSeconds, "must be less than or equal to 1800"))
		}
	}
	if r.Tolerance != nil && r.Tolerance.Sign() < 0 {
		errs = append(errs, field.Invalid(at.Child("tolerance"), r.Tolerance, "must be greater than or equal to 0"))
	}
	return errs
}

func validateStatus(h, _ *scaler) field.ErrorList {
	return workload.Counts(field.NewPath("status"), workload.Count{Name: "currentReplicas", N: h.Status.CurrentReplicas},
		workload.Count{Name: "desiredReplicas", N: h.Status.DesiredReplicas})
}
