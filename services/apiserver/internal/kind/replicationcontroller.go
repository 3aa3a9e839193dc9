package kind

import (
	"maps"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/check"
	"howdah.dev/kit/podspec"
	"howdah.dev/services/apiserver/internal/kind/column"
	"howdah.dev/services/apiserver/internal/kind/row"
	"howdah.dev/services/apiserver/internal/kind/typed"
	"howdah.dev/services/apiserver/internal/kind/workload"
	"howdah.dev/services/apiserver/internal/registry"
)

func replicationController(now func() time.Time) *registry.Kind {
	type rc = corev1.ReplicationController
	k := row.Of[rc, corev1.ReplicationControllerList](corev1.SchemeGroupVersion, "replicationcontrollers")
	k.Namespaced, k.ShortNames, k.Categories = true, []string{"rc"}, []string{"all"}
	k.PrefixIsFree = true
	row.SpecStatus(k, func(c *rc) *corev1.ReplicationControllerSpec { return &c.Spec },
		func(c *rc) *corev1.ReplicationControllerStatus { return &c.Status }, validateReplicationControllerStatus)
	row.AfterStatus(k, defaultReplicationController) // a status cannot take away the labels of the template
	k.Default = typed.Do(defaultReplicationController)
	k.Validate = typed.Check(validateReplicationController)
	workload.Ratchet(k, func(c *rc) *corev1.PodTemplateSpec { return c.Spec.Template })
	k.Warnings = typed.Warn(func(c, old *rc) []string {
		if old != nil { // of a change, Kubernetes tells what there was to say of the template before
			if c.Generation == old.Generation {
				return nil
			}
			c = old
		}
		if c.Spec.Template == nil {
			return nil
		}
		return podspec.TemplateWarnings(c.Spec.Template)
	})
	workload.WarnOfNames(k)
	k.Scale = &registry.Scale{
		Get: func(obj registry.Object) (int32, int32, string) {
			c := obj.(*rc)
			return row.Deref(c.Spec.Replicas), c.Status.Replicas, labels.Set(c.Spec.Selector).AsSelector().String()
		},
		Set: func(obj registry.Object, replicas int32) error {
			obj.(*rc).Spec.Replicas = &replicas
			return nil
		},
	}
	k.SelectableFields = typed.Get(func(c *rc) fields.Set {
		return fields.Set{"status.replicas": strconv.Itoa(int(c.Status.Replicas))}
	})
	k.Columns = append([]metav1.TableColumnDefinition{
		column.Name(),
		column.Integer("Desired", corev1.ReplicationControllerSpec{}.SwaggerDoc()["replicas"]),
		column.Integer("Current", corev1.ReplicationControllerStatus{}.SwaggerDoc()["replicas"]),
		column.Integer("Ready", corev1.ReplicationControllerStatus{}.SwaggerDoc()["readyReplicas"]),
		column.Age(),
	}, append(workload.PodColumns(), column.Wide(column.String("Selector", corev1.ReplicationControllerSpec{}.SwaggerDoc()["selector"])))...)
	k.Cells = typed.Get(func(c *rc) []any {
		var names, images string
		if c.Spec.Template != nil {
			names, images = column.Containers(c.Spec.Template.Spec.Containers)
		}
		return []any{
			c.Name, int64(row.Deref(c.Spec.Replicas)), int64(c.Status.Replicas), int64(c.Status.ReadyReplicas),
			column.Since(now(), c.CreationTimestamp.Time), names, images, column.Labels(c.Spec.Selector),
		}
	})
	return k
}

func defaultReplicationController(c *corev1.ReplicationController) {
	row.Set(&c.Spec.Replicas, 1)
	if c.Spec.Template == nil {
		return
	}
	if l := c.Spec.Template.Labels; len(l) > 0 {
		if len(c.Spec.Selector) == 0 {
			c.Spec.Selector = maps.Clone(l)
		}
		if len(c.Labels) == 0 {
			c.Labels = maps.Clone(l)
		}
	}
	podspec.Default(&c.Spec.Template.Spec)
}

func validateReplicationController(c *corev1.ReplicationController) field.ErrorList {
	spec, path := &c.Spec, field.NewPath("spec")
	errs := check.NonNegative(spec.MinReadySeconds, path.Child("minReadySeconds"))
	if len(spec.Selector) == 0 {
		errs = append(errs, field.Required(path.Child("selector"), ""))
	}
	if spec.Replicas == nil {
		errs = append(errs, field.Required(path.Child("replicas"), ""))
	} else {
		errs = append(errs, check.NonNegative(*spec.Replicas, path.Child("replicas"))...)
	}
	template := path.Child("template")
	if spec.Template == nil {
		return append(errs, field.Required(template, ""))
	}
	selector := labels.Set(spec.Selector).AsSelectorPreValidated()
	if !selector.Empty() && !selector.Matches(labels.Set(spec.Template.Labels)) {
		errs = append(errs, field.Invalid(template.Child("metadata", "labels"), spec.Template.Labels, workload.Mismatch))
	}
	errs = append(errs, podspec.ValidateTemplate(spec.Template, template)...)
	return append(errs, workload.Runs(spec.Template, "ReplicationController", template)...)
}

func validateReplicationControllerStatus(c, _ *corev1.ReplicationController) field.ErrorList {
	s, path := &c.Status, field.NewPath("status")
	labeled := workload.Count{Name: "fullyLabeledReplicas", N: s.FullyLabeledReplicas}
	ready := workload.Count{Name: "readyReplicas", N: s.ReadyReplicas}
	available := workload.Count{Name: "availableReplicas", N: s.AvailableReplicas}
	errs := workload.Counts(path, workload.Count{Name: "replicas", N: s.Replicas}, labeled, ready, available)
	errs = append(errs, check.NonNegative(s.ObservedGeneration, path.Child("observedGeneration"))...)
	errs = append(errs, workload.AtMost(path, s.Replicas, "status.replicas", labeled, ready, available)...)
	return append(errs, workload.AtMost(path, s.ReadyReplicas, "readyReplicas", available)...)
}
