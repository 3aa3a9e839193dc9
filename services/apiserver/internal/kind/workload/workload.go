// Package workload has the validations and cells that the kinds which run pods
// from a template share.
package workload

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/check"
	"howdah.dev/kit/podspec"
	"howdah.dev/services/apiserver/internal/kind/column"
	"howdah.dev/services/apiserver/internal/registry"
)

// Mismatch is the text about a template whose pods the selector would not find.
const Mismatch = "`selector` does not match template `labels`"

// Ratchet lets faults stay in the template of a kind that older versions took. It comes after the kind's Validate and Ratchet.
func Ratchet[T registry.Object](k *registry.Kind, template func(T) *corev1.PodTemplateSpec) {
	check := k.Ratchet
	if check == nil {
		validate := k.Validate
		check = func(obj, _ registry.Object) field.ErrorList { return validate(obj) }
	}
	k.Ratchet = func(obj, old registry.Object) field.ErrorList {
		errs, t := check(obj, old), template(old.(T))
		if t == nil {
			return errs
		}
		return podspec.Tolerated(errs, &t.Spec, &t.ObjectMeta)
	}
}

// WarnOfNames tells of names of new objects of a kind that are no names of hosts, before what the kind tells.
func WarnOfNames(k *registry.Kind) {
	warnings := k.Warnings
	k.Warnings = func(obj, old registry.Object) []string {
		if old != nil {
			return warnings(obj, old)
		}
		return append(podspec.NameWarnings(obj.GetName(), podspec.InPods), warnings(obj, old)...)
	}
}

// Runs checks that the pods of a template are kept running, by a kind so named.
func Runs(t *corev1.PodTemplateSpec, kind string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if t.Spec.RestartPolicy != corev1.RestartPolicyAlways {
		errs = append(errs, field.NotSupported(path.Child("spec", "restartPolicy"), t.Spec.RestartPolicy,
			[]corev1.RestartPolicy{corev1.RestartPolicyAlways}))
	}
	if t.Spec.ActiveDeadlineSeconds != nil {
		errs = append(errs, field.Forbidden(path.Child("spec", "activeDeadlineSeconds"),
			"activeDeadlineSeconds in "+kind+" is not Supported"))
	}
	return errs
}

// Portion checks a number or percentage of at most 100; nil is 0.
func Portion(v *intstr.IntOrString, path *field.Path) field.ErrorList {
	if v == nil {
		return nil
	}
	return append(podspec.IntOrPercent(*v, path), podspec.AtMostAll(*v, path)...)
}

// Amount is the number or the percentage, and 0 for nil or nonsense.
func Amount(v *intstr.IntOrString) int {
	if v == nil {
		return 0
	}
	if v.Type == intstr.Int {
		return v.IntValue()
	}
	if len(validation.IsValidPercent(v.StrVal)) > 0 {
		return 0
	}
	n, err := strconv.Atoi(strings.TrimSuffix(v.StrVal, "%"))
	if err != nil {
		return 0
	}
	return n
}

// Count is a field of a status.
type Count struct {
	Name string
	N    int32
}

// Counts refuses numbers below 0.
func Counts(path *field.Path, counts ...Count) field.ErrorList {
	var errs field.ErrorList
	for _, c := range counts {
		errs = append(errs, check.NonNegative(c.N, path.Child(c.Name))...)
	}
	return errs
}

// AtMost refuses counts above most, which text names.
func AtMost(path *field.Path, most int32, text string, counts ...Count) field.ErrorList {
	var errs field.ErrorList
	for _, c := range counts {
		if c.N > most {
			errs = append(errs, field.Invalid(path.Child(c.Name), c.N, "cannot be greater than "+text))
		}
	}
	return errs
}

// Collisions refuses a collision count that goes down or away.
func Collisions(n, old *int32, path *field.Path) field.ErrorList {
	now := int32(0)
	if n != nil {
		now = *n
	}
	if old != nil && (n == nil || *n < *old) {
		return field.ErrorList{field.Invalid(path.Child("collisionCount"), now, "cannot be decremented")}
	}
	return nil
}

// PodColumns are the columns of -o wide about the containers.
func PodColumns() []metav1.TableColumnDefinition {
	return []metav1.TableColumnDefinition{
		column.Wide(column.String("Containers", "Names of each container in the template.")),
		column.Wide(column.String("Images", "Images referenced by each container in the template.")),
	}
}

// Selector turns a label selector into the text that scale clients use.
func Selector(s *metav1.LabelSelector) string {
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return ""
	}
	return selector.String()
}
