package quota

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/check"
	"howdah.dev/kit/podspec"
	"howdah.dev/services/apiserver/internal/kind/row"
	"howdah.dev/services/apiserver/internal/kind/typed"
	"howdah.dev/services/apiserver/internal/registry"
)

// LimitRange returns the kind LimitRange.
func LimitRange() *registry.Kind {
	k := row.Of[corev1.LimitRange, corev1.LimitRangeList](corev1.SchemeGroupVersion, "limitranges")
	k.Namespaced, k.ShortNames, k.CreateOnUpdate = true, []string{"limits"}, true
	k.Default = typed.Do(func(l *corev1.LimitRange) {
		for i := range l.Spec.Limits {
			item := &l.Spec.Limits[i]
			for _, list := range []corev1.ResourceList{item.Max, item.Min, item.Default, item.DefaultRequest, item.MaxLimitRequestRatio} {
				podspec.RoundUp(list)
			}
			fill(item)
		}
	})
	// One without a name gets one that nobody else has.
	k.PrepareCreate = typed.Do(func(l *corev1.LimitRange) {
		if l.Name == "" && l.GenerateName == "" {
			l.Name = string(uuid.NewUUID())
		}
	})
	k.Validate = typed.Check(func(l *corev1.LimitRange) field.ErrorList {
		var errs field.ErrorList
		seen := map[corev1.LimitType]bool{}
		for i := range l.Spec.Limits {
			item, at := &l.Spec.Limits[i], field.NewPath("spec", "limits").Index(i)
			if bad := check.QualifiedName(item.Type, at.Child("type")); len(bad) > 0 {
				errs = append(errs, bad...)
			} else if !strings.Contains(string(item.Type), "/") && !slices.Contains(standardTypes, item.Type) {
				errs = append(errs, field.Invalid(at.Child("type"), item.Type, "must be a standard limit type or fully qualified"))
			}
			if seen[item.Type] {
				errs = append(errs, field.Duplicate(at.Child("type"), item.Type))
			}
			seen[item.Type] = true
			errs = append(errs, validateItem(item, at)...)
		}
		return errs
	})
	return k
}

var standardTypes = []corev1.LimitType{corev1.LimitTypePod, corev1.LimitTypeContainer, corev1.LimitTypePersistentVolumeClaim}

// fill gives containers the most as default limit, and the default limit, or
// else the least, as default request.
func fill(item *corev1.LimitRangeItem) {
	if item.Type != corev1.LimitTypeContainer {
		return
	}
	add := func(to *corev1.ResourceList, from corev1.ResourceList) {
		if *to == nil {
			*to = corev1.ResourceList{}
		}
		for name, q := range from {
			if _, set := (*to)[name]; !set {
				(*to)[name] = q.DeepCopy()
			}
		}
	}
	add(&item.Default, item.Max)
	add(&item.DefaultRequest, item.Default)
	add(&item.DefaultRequest, item.Min)
}

func validateItem(item *corev1.LimitRangeItem, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	names := map[corev1.ResourceName]bool{}
	for _, list := range []corev1.ResourceList{item.Max, item.Min, item.Default, item.DefaultRequest, item.MaxLimitRequestRatio} {
		for name := range list {
			names[name] = true
		}
	}
	errs = append(errs, resourceNames(item, path)...)
	if item.Type == corev1.LimitTypePod {
		if len(item.Default) > 0 {
			errs = append(errs, field.Forbidden(path.Child("default"), "may not be specified when `type` is 'Pod'"))
		}
		if len(item.DefaultRequest) > 0 {
			errs = append(errs, field.Forbidden(path.Child("defaultRequest"), "may not be specified when `type` is 'Pod'"))
		}
	}
	if item.Type == corev1.LimitTypePersistentVolumeClaim {
		_, least := item.Min[corev1.ResourceStorage]
		_, most := item.Max[corev1.ResourceStorage]
		if !least && !most {
			errs = append(errs, field.Required(path.Child("limits"), "either minimum or maximum storage value is required, but neither was provided"))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		for _, c := range []struct {
			field, less, more string
			a, b              corev1.ResourceList
		}{
			{"min", "min", "max", item.Min, item.Max},
			{"defaultRequest", "min", "default request", item.Min, item.DefaultRequest},
			{"defaultRequest", "default request", "max", item.DefaultRequest, item.Max},
			{"defaultRequest", "default request", "default limit", item.DefaultRequest, item.Default},
			{"default", "min", "default", item.Min, item.Default},
			{"default", "default", "max", item.Default, item.Max},
		} {
			a, hasA := c.a[name]
			b, hasB := c.b[name]
			if hasA && hasB && a.Cmp(b) > 0 {
				value := a
				switch {
				case c.field == "default" && c.less == "default":
					value = b // the most that there may be
				case c.field == "defaultRequest" && c.less == "min":
					value = b
				}
				errs = append(errs, field.Invalid(path.Child(c.field).Key(string(name)), value.String(),
					fmt.Sprintf("%s value %s is greater than %s value %s", c.less, a.String(), c.more, b.String())))
			}
		}
		errs = append(errs, reachable(item, name, path.Child("maxLimitRequestRatio"))...)
		if ratio, ok := item.MaxLimitRequestRatio[name]; ok && ratio.Cmp(*resource.NewQuantity(1, resource.DecimalSI)) < 0 {
			errs = append(errs, field.Invalid(path.Child("maxLimitRequestRatio").Key(string(name)), ratio.String(), fmt.Sprintf("ratio %s is less than 1", ratio.String())))
		}
	}
	return errs
}

// resourceNames checks what is limited; pods and containers have resources of containers.
func resourceNames(item *corev1.LimitRangeItem, path *field.Path) field.ErrorList {
	validate := podspec.ResourceName
	if item.Type == corev1.LimitTypePod || item.Type == corev1.LimitTypeContainer {
		validate = podspec.ContainerResourceName
	}
	var errs field.ErrorList
	for _, part := range []struct {
		name string
		list corev1.ResourceList
	}{
		{"max", item.Max}, {"min", item.Min}, {"default", item.Default}, {"defaultRequest", item.DefaultRequest},
		{"maxLimitRequestRatio", item.MaxLimitRequestRatio},
	} {
		if item.Type == corev1.LimitTypePod && strings.HasPrefix(part.name, "default") {
			continue // refused as a whole
		}
		for _, name := range slices.Sorted(maps.Keys(part.list)) {
			errs = append(errs, validate(name, path.Child(part.name).Key(string(name)))...)
		}
	}
	return errs
}

// reachable refuses a ratio that no limit and request within the bounds have.
func reachable(item *corev1.LimitRangeItem, name corev1.ResourceName, path *field.Path) field.ErrorList {
	ratio, limited := item.MaxLimitRequestRatio[name]
	least, hasLeast := item.Min[name]
	most, hasMost := item.Max[name]
	if !limited || !hasLeast || !hasMost || least.IsZero() {
		return nil
	}
	// Thousandths are counted where all of them can be, and units else: Kubernetes' numbers are of 64 bits.
	given, from, to := float64(ratio.Value()), least.Value(), most.Value()
	if ratio.Value() < resource.MaxMilliValue && from < resource.MaxMilliValue && to < resource.MaxMilliValue {
		given, from, to = float64(ratio.MilliValue())/1000, least.MilliValue(), most.MilliValue()
	}
	possible := float64(to) / float64(from)
	if !(given > possible) { //nolint:staticcheck // the bounds may both be beyond what can be counted, and what is possible no number
		return nil
	}
	return field.ErrorList{field.Invalid(path.Key(string(name)), ratio.String(), fmt.Sprintf("ratio %s is greater than max/min = %f", ratio.String(), possible))}
}
