package device

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/check"
	"howdah.dev/kit/podspec"
)

func validateSlice(s *resourcev1.ResourceSlice) field.ErrorList {
	return append(validateOrigin(&s.Spec), validateContents(&s.Spec)...)
}

func validateSliceUpdate(s, old *resourcev1.ResourceSlice) field.ErrorList {
	errs := validateOrigin(&s.Spec)
	errs = append(errs, apivalidation.ValidateImmutableField(s.Spec.Pool.Name, old.Spec.Pool.Name, specPath.Child("pool", "name"))...)
	errs = append(errs, apivalidation.ValidateImmutableField(s.Spec.Driver, old.Spec.Driver, specPath.Child("driver"))...)
	errs = append(errs, apivalidation.ValidateImmutableField(s.Spec.NodeName, old.Spec.NodeName, specPath.Child("nodeName"))...)
	return append(errs, validateContents(&s.Spec)...)
}

// sliceWarnings are about what is only accepted for compatibility.
func sliceWarnings(s, _ *resourcev1.ResourceSlice) []string {
	if s.Spec.Driver == strings.ToLower(s.Spec.Driver) {
		return nil
	}
	return []string{fmt.Sprintf("spec.driver: driver names should be lowercase; %q contains uppercase characters", s.Spec.Driver)}
}

func validateOrigin(spec *resourcev1.ResourceSliceSpec) field.ErrorList {
	pool := specPath.Child("pool")
	errs := validateDriver(spec.Driver, specPath.Child("driver"))
	errs = append(errs, validatePool(spec.Pool.Name, pool.Child("name"))...)
	if spec.Pool.ResourceSliceCount <= 0 {
		errs = append(errs, field.Invalid(pool.Child("resourceSliceCount"), spec.Pool.ResourceSliceCount, "must be greater than zero"))
	}
	if spec.Pool.Generation < 0 {
		errs = append(errs, field.Invalid(pool.Child("generation"), spec.Pool.Generation, "must be greater than or equal to zero"))
	}
	return errs
}

func validateContents(spec *resourcev1.ResourceSliceSpec) field.ErrorList {
	errs := validatePlaces(places{
		node: spec.NodeName, selector: spec.NodeSelector, all: spec.AllNodes, perDevice: spec.PerDeviceNodeSelection,
		perTerm: true, emptyNode: "must be either unset or set to a non-empty string",
		rule: "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required", more: ", but multiple fields are set",
	}, specPath)
	if spec.SharedCounters != nil && spec.Devices != nil {
		errs = append(errs, field.Invalid(specPath, "", "only one of `sharedCounters` or `devices` is allowed"))
	}
	most := resourcev1.ResourceSliceMaxDevices
	if slices.ContainsFunc(spec.Devices, func(d resourcev1.Device) bool { return len(d.Taints) > 0 || len(d.ConsumesCounters) > 0 }) {
		most = resourcev1.ResourceSliceMaxDevicesWithAdvancedFeatures
	}
	perDevice := spec.PerDeviceNodeSelection != nil && *spec.PerDeviceNodeSelection
	errs = append(errs, set(spec.Devices, most, specPath.Child("devices"),
		func(d *resourcev1.Device, p *field.Path) field.ErrorList { return validateDevice(d, perDevice, p) },
		func(d *resourcev1.Device) string { return d.Name })...)
	return append(errs, set(spec.SharedCounters, resourcev1.ResourceSliceMaxCounterSets, specPath.Child("sharedCounters"),
		func(c *resourcev1.CounterSet, p *field.Path) field.ErrorList {
			return append(counterName(c.Name, p.Child("name")), validateCounters(c.Counters, p.Child("counters"))...)
		},
		func(c *resourcev1.CounterSet) string { return c.Name })...)
}

func counterName(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	return check.Label(name, path)
}

func validateCounters(counters map[string]resourcev1.Counter, path *field.Path) field.ErrorList {
	if len(counters) == 0 {
		return field.ErrorList{field.Required(path, "")}
	}
	var errs field.ErrorList
	for _, name := range sortedKeys(counters) {
		errs = append(errs, check.Label(name, path)...)
	}
	return errs
}

// places are the ways of telling where devices are, one of which has to be used.
type places struct {
	node                  *string
	selector              *corev1.NodeSelector
	all, perDevice        *bool
	emptyNode, rule, more string
	perTerm               bool // one term selects the nodes
}

func validatePlaces(p places, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	var given []string
	if n := p.node; n != nil {
		at := path.Child("nodeName")
		if *n == "" {
			errs = append(errs, field.Invalid(at, *n, p.emptyNode))
		} else {
			given = append(given, "`nodeName`")
			errs = append(errs, check.Subdomain(*n, at)...)
		}
	}
	if s := p.selector; s != nil {
		given = append(given, "`nodeSelector`")
		at := path.Child("nodeSelector")
		errs = append(errs, podspec.NodeSelector(s, at)...)
		if p.perTerm && len(s.NodeSelectorTerms) != 1 {
			errs = append(errs, field.Invalid(at.Child("nodeSelectorTerms"), s.NodeSelectorTerms, "must have exactly one node selector term"))
		}
	}
	for _, f := range []struct {
		name string
		flag *bool
	}{{"allNodes", p.all}, {"perDeviceNodeSelection", p.perDevice}} {
		switch {
		case f.flag == nil:
		case *f.flag:
			given = append(given, "`"+f.name+"`")
		default:
			errs = append(errs, field.Invalid(path.Child(f.name), false, "must be either unset or set to true"))
		}
	}
	switch {
	case len(given) == 0:
		errs = append(errs, field.Required(path, p.rule))
	case len(given) > 1:
		errs = append(errs, field.Invalid(path, "{"+strings.Join(given, ", ")+"}", p.rule+p.more))
	}
	return errs
}
