package device

import (
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/check"
	"howdah.dev/services/apiserver/internal/kind/column"
	"howdah.dev/services/apiserver/internal/kind/row"
	"howdah.dev/services/apiserver/internal/kind/typed"
	"howdah.dev/services/apiserver/internal/registry"
)

type rule = resourcev1beta2.DeviceTaintRule

// taintRule taints devices from outside their drivers. It has no stable version.
func taintRule(now func() time.Time) *registry.Kind {
	k := row.Of[rule, resourcev1beta2.DeviceTaintRuleList](resourcev1beta2.SchemeGroupVersion, "devicetaintrules")
	k.ReturnDeleted = true
	row.SpecStatus(k, func(r *rule) *resourcev1beta2.DeviceTaintRuleSpec { return &r.Spec },
		func(r *rule) *resourcev1beta2.DeviceTaintRuleStatus { return &r.Status }, validateRuleStatus)
	// The time of a taint is that of its effect: one that is sent along with another effect is the old one's.
	stamp := func(r *rule) { r.Spec.Taint.TimeAdded = &metav1.Time{Time: now().Truncate(time.Second)} }
	k.Default = typed.Do(func(r *rule) {
		if r.Spec.Taint.TimeAdded == nil {
			stamp(r)
		}
	})
	prepare := k.PrepareUpdate
	k.PrepareUpdate = func(obj, before registry.Object) {
		r, old := obj.(*rule), before.(*rule)
		if r.Spec.Taint.Effect != old.Spec.Taint.Effect && r.Spec.Taint.TimeAdded.Equal(old.Spec.Taint.TimeAdded) {
			stamp(r)
		}
		prepare(obj, before)
	}
	k.Validate = typed.Check(validateRule)
	docs := resourcev1beta2.DeviceTaint{}.SwaggerDoc()
	k.Columns = []metav1.TableColumnDefinition{
		column.Name(), column.String("Key", docs["key"]), column.String("Value", docs["value"]), column.String("Effect", docs["effect"]),
		column.String("TimeAdded", docs["timeAdded"]), column.Age(),
	}
	k.Cells = typed.Get(func(r *rule) []any {
		t := r.Spec.Taint
		return []any{r.Name, t.Key, t.Value, string(t.Effect), column.Since(now(), row.Deref(t.TimeAdded).Time), column.Since(now(), r.CreationTimestamp.Time)}
	})
	return k
}

func validateRule(r *rule) field.ErrorList {
	path := field.NewPath("spec")
	var errs field.ErrorList
	if s := r.Spec.DeviceSelector; s != nil {
		at := path.Child("deviceSelector")
		if s.Driver != nil {
			errs = append(errs, validateDriver(*s.Driver, at.Child("driver"))...)
		}
		if s.Pool != nil {
			errs = append(errs, validatePool(*s.Pool, at.Child("pool"))...)
		}
		if s.Device != nil {
			errs = append(errs, check.Label(*s.Device, at.Child("device"))...)
		}
	}
	t, at := r.Spec.Taint, path.Child("taint")
	errs = append(errs, check.Each(validation.IsQualifiedName(t.Key), t.Key, at.Child("key"))...)
	if t.Value != "" {
		errs = append(errs, check.Each(validation.IsValidLabelValue(t.Value), t.Value, at.Child("value"))...)
	}
	return append(errs, check.Choice(resourcev1.DeviceTaintEffect(t.Effect), at.Child("effect"), effects()...)...)
}

func validateRuleStatus(r, _ *rule) field.ErrorList {
	path := field.NewPath("status", "conditions")
	if n := len(r.Status.Conditions); n > resourcev1beta2.DeviceTaintRuleStatusMaxConditions {
		return field.ErrorList{field.TooMany(path, n, resourcev1beta2.DeviceTaintRuleStatusMaxConditions)}
	}
	return metavalidation.ValidateConditions(r.Status.Conditions, path)
}
