package device

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"

	"github.com/google/uuid"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/check"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// validateDevice checks a device of a slice; perDevice says that it tells itself where it is.
func validateDevice(d *resourcev1.Device, perDevice bool, path *field.Path) field.ErrorList {
	errs := check.Label(d.Name, path.Child("name"))
	if n, most := len(d.Attributes)+len(d.Capacity), resourcev1.ResourceSliceMaxAttributesAndCapacitiesPerDevice; n > most {
		errs = append(errs, field.Invalid(path, n, fmt.Sprintf("the total number of attributes and capacities must not exceed %d", most)))
	}
	attributes, capacity := path.Child("attributes"), path.Child("capacity")
	for _, name := range slices.Sorted(keys(d.Attributes)) {
		errs = append(errs, validateQualified(name, attributes)...)
		errs = append(errs, validateAttribute(d.Attributes[name], attributes.Key(string(name)))...)
	}
	shared := d.AllowMultipleAllocations != nil && *d.AllowMultipleAllocations
	for _, name := range slices.Sorted(keys(d.Capacity)) {
		errs = append(errs, validateQualified(name, capacity)...)
		errs = append(errs, validateDeviceCapacity(d.Capacity[name], shared, capacity.Key(string(name)))...)
	}
	errs = append(errs, atMost(d.Taints, resourcev1.DeviceTaintsMaxLength, path.Child("taints"), func(t *resourcev1.DeviceTaint, p *field.Path) field.ErrorList {
		errs := check.Each(validation.IsQualifiedName(t.Key), t.Key, p.Child("key"))
		if t.Value != "" {
			errs = append(errs, check.Each(validation.IsValidLabelValue(t.Value), t.Value, p.Child("value"))...)
		}
		return append(errs, check.Choice(t.Effect, p.Child("effect"), effects()...)...)
	})...)
	errs = append(errs, set(d.ConsumesCounters, resourcev1.ResourceSliceMaxDeviceCounterConsumptionsPerDevice, path.Child("consumesCounters"),
		func(c *resourcev1.DeviceCounterConsumption, p *field.Path) field.ErrorList {
			return append(counterName(c.CounterSet, p.Child("counterSet")), validateCounters(c.Counters, p.Child("counters"))...)
		},
		func(c *resourcev1.DeviceCounterConsumption) string { return c.CounterSet })...)
	if perDevice {
		const rule = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec"
		errs = append(errs, validatePlaces(places{node: d.NodeName, selector: d.NodeSelector, all: d.AllNodes, emptyNode: "must not be empty", rule: rule}, path)...)
	} else if d.NodeName != nil || d.NodeSelector != nil || d.AllNodes != nil {
		errs = append(errs, field.Invalid(path, nil, "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec"))
	}
	return append(errs, validateBinding(d.BindingConditions, d.BindingFailureConditions, path)...)
}

// validateBinding wants conditions for both outcomes, or none, and no condition for both.
func validateBinding(done, failed []string, path *field.Path) field.ErrorList {
	met, unmet := path.Child("bindingConditions"), path.Child("bindingFailureConditions")
	errs := atMost(done, resourcev1.BindingConditionsMaxSize, met, conditionName)
	errs = append(errs, atMost(failed, resourcev1.BindingFailureConditionsMaxSize, unmet, conditionName)...)
	same := func(s *string) string { return *s }
	errs = append(errs, unique(done, met, same)...)
	for i, name := range failed {
		if slices.Contains(failed[:i], name) {
			errs = append(errs, field.Duplicate(unmet.Index(i), name))
		}
		if slices.Contains(done, name) {
			errs = append(errs, field.Invalid(unmet.Index(i), name, "bindingFailureConditions must not overlap with bindingConditions"))
		}
	}
	switch {
	case len(done) == 0 && len(failed) > 0:
		errs = append(errs, field.Invalid(met, done, "bindingConditions are required to use bindingFailureConditions"))
	case len(done) > 0 && len(failed) == 0:
		errs = append(errs, field.Invalid(unmet, failed, "bindingFailureConditions are required to use bindingConditions"))
	}
	return errs
}

func conditionName(name *string, path *field.Path) field.ErrorList {
	return check.QualifiedName(*name, path)
}

// semantic is the pattern of semver.org's specification 2.0.0.
var semantic = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(\.(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*)?(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?$`)

func validateAttribute(a resourcev1.DeviceAttribute, path *field.Path) field.ErrorList {
	given := 0
	for _, set := range []bool{a.IntValue != nil, a.BoolValue != nil, a.StringValue != nil, a.VersionValue != nil} {
		if set {
			given++
		}
	}
	var errs field.ErrorList
	text := func(value *string, path *field.Path) {
		if value != nil && len(*value) > resourcev1.DeviceAttributeMaxValueLength {
			errs = append(errs, field.TooLong(path, "" /* it is too long to be shown */, resourcev1.DeviceAttributeMaxValueLength))
		}
	}
	text(a.StringValue, path.Child("string"))
	if v := a.VersionValue; v != nil && !semantic.MatchString(*v) {
		errs = append(errs, field.Invalid(path.Child("version"), *v, "must be a string compatible with semver.org spec 2.0.0"))
	}
	text(a.VersionValue, path.Child("version"))
	switch {
	case given == 0:
		errs = append(errs, field.Invalid(path, "", "exactly one value must be specified"))
	case given > 1:
		errs = append(errs, field.Invalid(path, a, "exactly one value must be specified"))
	}
	return errs
}

func validateDeviceCapacity(c resourcev1.DeviceCapacity, shared bool, path *field.Path) field.ErrorList {
	p, path := c.RequestPolicy, path.Child("requestPolicy")
	switch {
	case p == nil:
		return nil
	case !shared:
		return field.ErrorList{field.Forbidden(path, "allowMultipleAllocations must be true")}
	case len(p.ValidValues) > 0 && p.ValidRange != nil:
		return field.ErrorList{field.Forbidden(path, `exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time`)}
	case len(p.ValidValues) > 0:
		if p.Default == nil {
			return field.ErrorList{field.Required(path.Child("default"), "required when validValues is defined")}
		}
		return validateValues(p.ValidValues, *p.Default, c.Value, path.Child("validValues"))
	case p.ValidRange != nil:
		if p.Default == nil {
			return field.ErrorList{field.Required(path.Child("default"), "required when validRange is defined")}
		}
		return validateRange(p.ValidRange, *p.Default, c.Value, path.Child("validRange"))
	}
	return nil
}

// mostOptions bounds the values of a policy.
const mostOptions = 10

func validateValues(values []resource.Quantity, preset, whole resource.Quantity, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := 1; i < len(values); i++ {
		if values[i].Cmp(values[i-1]) < 0 {
			errs = append(errs, field.Invalid(path.Index(i), values[i].String(), "values must be sorted in ascending order"))
		}
	}
	errs = append(errs, set(values, mostOptions, path, func(q *resource.Quantity, at *field.Path) field.ErrorList {
		if q.Cmp(whole) <= 0 {
			return nil
		}
		return field.ErrorList{field.Invalid(at, q.String(), fmt.Sprintf("option is larger than capacity value: %s", whole.String()))}
	}, func(q *resource.Quantity) string { return strconv.FormatInt(q.Value(), 10) })...)
	// Of too many, none is looked at.
	if len(values) <= mostOptions && slices.ContainsFunc(values, func(q resource.Quantity) bool { return q.Cmp(preset) == 0 }) {
		return errs
	}
	return append(errs, field.Invalid(path, preset.String(), "default value is not valid according to the requestPolicy"))
}

func validateRange(r *resourcev1.CapacityRequestPolicyRange, preset, whole resource.Quantity, path *field.Path) field.ErrorList {
	lower, upper, stride := path.Child("min"), path.Child("max"), path.Child("step")
	if r.Min == nil {
		return field.ErrorList{field.Required(lower, "required when validRange is defined")}
	}
	var errs field.ErrorList
	wrong := func(is bool, path *field.Path, value resource.Quantity, text string, than resource.Quantity) {
		if is {
			errs = append(errs, field.Invalid(path, value.String(), text+": "+than.String()))
		}
	}
	wrong(r.Min.Cmp(whole) > 0, lower, *r.Min, "min is larger than capacity value", whole)
	wrong(preset.Cmp(*r.Min) < 0, lower, preset, "default is less than min", *r.Min)
	if r.Max != nil {
		wrong(r.Min.Cmp(*r.Max) > 0, upper, *r.Min, "min is larger than max", *r.Max)
		wrong(preset.Cmp(*r.Max) > 0, upper, preset, "default is more than max", *r.Max)
		wrong(r.Max.Cmp(whole) > 0, upper, *r.Max, "max is larger than capacity value", whole)
	}
	if r.Step == nil || r.Step.Value() == 0 {
		return errs // a step of nothing leaves every value
	}
	first := r.Min.DeepCopy()
	first.Add(*r.Step)
	wrong(first.Cmp(whole) > 0, stride, *r.Step, fmt.Sprintf("one step %s is larger than capacity value", first.String()), whole)
	for _, q := range []*resource.Quantity{&preset, r.Max} {
		if q != nil && (q.Value()-r.Min.Value())%r.Step.Value() != 0 {
			errs = append(errs, field.Invalid(stride, q.String(), fmt.Sprintf("value is not a multiple of a given step (%s) from (%s)", r.Step.String(), r.Min.String())))
		}
	}
	return errs
}

// validateShare wants a UUID in its usual form.
func validateShare(id string, path *field.Path) field.ErrorList {
	parsed, err := uuid.Parse(id)
	if err == nil && parsed.String() != id {
		err = errors.New("uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal characters")
	}
	if err != nil {
		return field.ErrorList{field.Invalid(path, id, fmt.Sprintf("error validating uid: %v", err))}
	}
	return nil
}
