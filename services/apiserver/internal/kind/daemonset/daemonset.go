// Package daemonset is the kind DaemonSet: stored as apps/v1, served as
// apps/v1beta2 and extensions/v1beta1 too.
package daemonset

import (
	"maps"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"howdah.dev/kit/podspec"
	"howdah.dev/services/apiserver/internal/kind/column"
	"howdah.dev/services/apiserver/internal/kind/row"
	"howdah.dev/services/apiserver/internal/kind/typed"
	"howdah.dev/services/apiserver/internal/kind/workload"
	"howdah.dev/services/apiserver/internal/registry"
)

// Kind returns the kind; now is the clock for ages.
func Kind(now func() time.Time) *registry.Kind {
	k := row.Of[appsv1.DaemonSet, appsv1.DaemonSetList](appsv1.SchemeGroupVersion, "daemonsets")
	k.Namespaced, k.ShortNames, k.Categories = true, []string{"ds"}, []string{"all"}
	k.Served = []registry.Version{v1beta2Version(), extensionsVersion()}
	row.SpecStatus(k, func(d *appsv1.DaemonSet) *appsv1.DaemonSetSpec { return &d.Spec },
		func(d *appsv1.DaemonSet) *appsv1.DaemonSetStatus { return &d.Status }, validateStatus)
	k.Hidden = appsv1.DeprecatedTemplateGeneration
	k.Blank = func() registry.Object {
		d := &appsv1.DaemonSet{}
		setTemplateGeneration(d, 0)
		return d
	}
	create, update := k.PrepareCreate, k.PrepareUpdate
	k.PrepareCreate = func(obj registry.Object) {
		create(obj)
		setTemplateGeneration(obj.(*appsv1.DaemonSet), max(templateGeneration(obj.(*appsv1.DaemonSet)), 1))
	}
	k.PrepareUpdate = func(obj, before registry.Object) {
		update(obj, before)
		d, old := obj.(*appsv1.DaemonSet), before.(*appsv1.DaemonSet)
		n := templateGeneration(old)
		if !equality.Semantic.DeepEqual(d.Spec.Template, old.Spec.Template) {
			n++
		}
		if n > 0 {
			setTemplateGeneration(d, n)
		}
	}
	status := k.Status.PrepareUpdate
	k.Status.PrepareUpdate = func(obj, before registry.Object) {
		status(obj, before)
		if n := templateGeneration(before.(*appsv1.DaemonSet)); n > 0 {
			setTemplateGeneration(obj.(*appsv1.DaemonSet), n)
		}
	}
	k.Default = typed.Do(func(d *appsv1.DaemonSet) {
		fill(d, appsv1.RollingUpdateDaemonSetStrategyType)
		// Who writes an object without the count owns it nevertheless: for Kubernetes it is a field of every object.
		setTemplateGeneration(d, templateGeneration(d))
	})
	typed.Ratchet(k, validate)
	workload.Ratchet(k, func(d *appsv1.DaemonSet) *corev1.PodTemplateSpec { return &d.Spec.Template })
	k.ValidateUpdate = typed.CheckChange(validateUpdate)
	k.Warnings = typed.WarnOfSpec(func(d *appsv1.DaemonSet) []string { return podspec.TemplateWarnings(&d.Spec.Template) })
	k.Columns, k.Cells = columns(), typed.Get(func(d *appsv1.DaemonSet) []any { return cells(d, now()) })
	return k
}

// fill sets the defaults; the versions differ in the strategy.
func fill(d *appsv1.DaemonSet, strategy appsv1.DaemonSetUpdateStrategyType) {
	u := &d.Spec.UpdateStrategy
	if u.Type == "" {
		u.Type = strategy
	}
	if u.Type == appsv1.RollingUpdateDaemonSetStrategyType {
		row.Set(&u.RollingUpdate, appsv1.RollingUpdateDaemonSet{})
		row.Set(&u.RollingUpdate.MaxUnavailable, intstr.FromInt32(1))
		row.Set(&u.RollingUpdate.MaxSurge, intstr.FromInt32(0))
	}
	row.Set(&d.Spec.RevisionHistoryLimit, 10)
	podspec.Default(&d.Spec.Template.Spec)
}

// fillFromTemplate is how extensions/v1beta1 takes the selector, and the labels
// of a set without labels, from those of the template.
func fillFromTemplate(d *appsv1.DaemonSet) {
	if labels := d.Spec.Template.Labels; len(labels) > 0 {
		if d.Spec.Selector == nil {
			d.Spec.Selector = &metav1.LabelSelector{MatchLabels: maps.Clone(labels)}
		}
		if len(d.Labels) == 0 {
			d.Labels = maps.Clone(labels)
		}
	}
}

// The count of the template's changes is a field of extensions/v1beta1 only;
// it is stored as an annotation.
func templateGeneration(d *appsv1.DaemonSet) int64 {
	n, err := strconv.ParseInt(d.Annotations[appsv1.DeprecatedTemplateGeneration], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func setTemplateGeneration(d *appsv1.DaemonSet, n int64) {
	d.Annotations = maps.Clone(d.Annotations)
	if d.Annotations == nil {
		d.Annotations = map[string]string{}
	}
	d.Annotations[appsv1.DeprecatedTemplateGeneration] = strconv.FormatInt(n, 10)
}

func columns() []metav1.TableColumnDefinition {
	doc := appsv1.DaemonSetStatus{}.SwaggerDoc()
	list := []metav1.TableColumnDefinition{
		column.Name(),
		column.Integer("Desired", doc["desiredNumberScheduled"]),
		column.Integer("Current", doc["currentNumberScheduled"]),
		column.Integer("Ready", doc["numberReady"]),
		column.Integer("Up-to-date", doc["updatedNumberScheduled"]),
		column.Integer("Available", doc["numberAvailable"]),
		column.String("Node Selector", corev1.PodSpec{}.SwaggerDoc()["nodeSelector"]),
		column.Age(),
	}
	list = append(list, workload.PodColumns()...)
	return append(list, column.Wide(column.String("Selector", appsv1.DaemonSetSpec{}.SwaggerDoc()["selector"])))
}

func cells(d *appsv1.DaemonSet, now time.Time) []any {
	names, images := column.Containers(d.Spec.Template.Spec.Containers)
	s := &d.Status
	return []any{
		d.Name, int64(s.DesiredNumberScheduled), int64(s.CurrentNumberScheduled), int64(s.NumberReady),
		int64(s.UpdatedNumberScheduled), int64(s.NumberAvailable), column.Labels(d.Spec.Template.Spec.NodeSelector),
		column.Since(now, d.CreationTimestamp.Time), names, images, column.Selector(d.Spec.Selector),
	}
}
