package device

import (
	"fmt"
	"slices"

	resourcev1 "k8s.io/api/resource/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/services/apiserver/internal/kind/check"
	"howdah.dev/services/apiserver/internal/kind/podspec"
)

func validateSliceUpdate(s, old *resourcev1.ResourceSlice) field.ErrorList {
	errs := apivalidation.ValidateImmutableField(s.Spec.NodeName, old.Spec.NodeName, specPath.Child("nodeName"))
	errs = append(errs, apivalidation.ValidateImmutableField(s.Spec.Driver, old.Spec.Driver, specPath.Child("driver"))...)
	return append(errs, apivalidation.ValidateImmutableField(s.Spec.Pool.Name, old.Spec.Pool.Name, specPath.Child("pool", "name"))...)
}

func validateSlice(s *resourcev1.ResourceSlice) field.ErrorList {
	spec, pool := &s.Spec, specPath.Child("pool")
	errs := validateDriver(spec.Driver, specPath.Child("driver"))
	errs = append(errs, validatePool(spec.Pool.Name, pool.Child("name"))...)
	if spec.Pool.ResourceSliceCount <= 0 {
		errs = append(errs, field.Invalid(pool.Child("resourceSliceCount"), spec.Pool.ResourceSliceCount, "must be greater than zero"))
	}
	if spec.Pool.Generation < 0 {
		errs = append(errs, field.Invalid(pool.Child("generation"), spec.Pool.Generation, check.Negative))
	}
	errs = append(errs, validateNodes(spec)...)
	most := resourcev1.ResourceSliceMaxDevices
	if slices.ContainsFunc(spec.Devices, func(d resourcev1.Device) bool { return len(d.Taints) > 0 || len(d.ConsumesCounters) > 0 }) {
		most = resourcev1.ResourceSliceMaxDevicesWithAdvancedFeatures
	}
	errs = append(errs, atMost(spec.Devices, most, specPath.Child("devices"), validateDevice)...)
	errs = append(errs, unique(spec.Devices, specPath.Child("devices"), func(d *resourcev1.Device) string { return d.Name })...)
	sets := specPath.Child("sharedCounters")
	errs = append(errs, atMost(spec.SharedCounters, resourcev1.ResourceSliceMaxCounterSets, sets, func(c *resourcev1.CounterSet, p *field.Path) field.ErrorList {
		errs := check.Label(c.Name, p.Child("name"))
		if len(c.Counters) == 0 {
			errs = append(errs, field.Required(p.Child("counters"), ""))
		}
		return errs
	})...)
	return append(errs, unique(spec.SharedCounters, sets, func(c *resourcev1.CounterSet) string { return c.Name })...)
}

// validateNodes wants exactly one way of telling where the devices are.
func validateNodes(spec *resourcev1.ResourceSliceSpec) field.ErrorList {
	var errs field.ErrorList
	given := 0
	if n := spec.NodeName; n != nil {
		given++
		if *n == "" {
			errs = append(errs, field.Invalid(specPath.Child("nodeName"), *n, "must be either unset or set to a non-empty string"))
		} else {
			errs = append(errs, check.Subdomain(*n, specPath.Child("nodeName"))...)
		}
	}
	if s := spec.NodeSelector; s != nil {
		given++
		path := specPath.Child("nodeSelector")
		errs = append(errs, podspec.NodeSelector(s, path)...)
		if len(s.NodeSelectorTerms) != 1 {
			errs = append(errs, field.Invalid(path.Child("nodeSelectorTerms"), s.NodeSelectorTerms, "must have exactly one node selector term"))
		}
	}
	for _, f := range []struct {
		name string
		flag *bool
	}{{"allNodes", spec.AllNodes}, {"perDeviceNodeSelection", spec.PerDeviceNodeSelection}} {
		if f.flag == nil {
			continue
		}
		if *f.flag {
			given++
		} else {
			errs = append(errs, field.Invalid(specPath.Child(f.name), false, "must be either unset or set to true"))
		}
	}
	const texts = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
	switch {
	case given == 0:
		errs = append(errs, field.Required(specPath, texts))
	case given > 1:
		errs = append(errs, field.Invalid(specPath, nil, texts+", but multiple fields are set"))
	}
	return errs
}

func validateDevice(d *resourcev1.Device, path *field.Path) field.ErrorList {
	errs := check.Label(d.Name, path.Child("name"))
	if n, most := len(d.Attributes)+len(d.Capacity), resourcev1.ResourceSliceMaxAttributesAndCapacitiesPerDevice; n > most {
		errs = append(errs, field.Invalid(path, n, fmt.Sprintf("the total number of attributes and capacities must not exceed %d", most)))
	}
	for _, name := range slices.Sorted(keys(d.Attributes)) {
		at := path.Child("attributes").Key(string(name))
		errs = append(errs, validateQualified(name, at)...)
		errs = append(errs, validateAttribute(d.Attributes[name], at)...)
	}
	for _, name := range slices.Sorted(keys(d.Capacity)) {
		errs = append(errs, validateQualified(name, path.Child("capacity").Key(string(name)))...)
	}
	errs = append(errs, atMost(d.Taints, resourcev1.DeviceTaintsMaxLength, path.Child("taints"), func(t *resourcev1.DeviceTaint, p *field.Path) field.ErrorList {
		errs := check.Each(validation.IsQualifiedName(t.Key), t.Key, p.Child("key"))
		if t.Value != "" {
			errs = append(errs, check.Each(validation.IsValidLabelValue(t.Value), t.Value, p.Child("value"))...)
		}
		return append(errs, check.Choice(t.Effect, p.Child("effect"), effects()...)...)
	})...)
	errs = append(errs, atMost(d.BindingConditions, resourcev1.BindingConditionsMaxSize, path.Child("bindingConditions"), conditionName)...)
	return append(errs, atMost(d.BindingFailureConditions, resourcev1.BindingFailureConditionsMaxSize, path.Child("bindingFailureConditions"), conditionName)...)
}

func conditionName(name *string, path *field.Path) field.ErrorList {
	return check.QualifiedName(*name, path)
}

func validateAttribute(a resourcev1.DeviceAttribute, path *field.Path) field.ErrorList {
	given := 0
	for _, set := range []bool{
		a.IntValue != nil, a.BoolValue != nil, a.StringValue != nil, a.VersionValue != nil,
		a.IntValues != nil, a.BoolValues != nil, a.StringValues != nil, a.VersionValues != nil,
	} {
		if set {
			given++
		}
	}
	switch {
	case given == 0:
		return field.ErrorList{field.Required(path, "exactly one value must be specified")}
	case given > 1:
		return field.ErrorList{field.Invalid(path, a, "exactly one value must be specified")}
	}
	for name, text := range map[string]*string{"string": a.StringValue, "version": a.VersionValue} {
		if text != nil && len(*text) > resourcev1.DeviceAttributeMaxValueLength {
			return field.ErrorList{field.TooLong(path.Child(name), "" /* it is too long to be shown */, resourcev1.DeviceAttributeMaxValueLength)}
		}
	}
	return nil
}
