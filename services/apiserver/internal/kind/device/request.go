package device

import (
	"encoding/json"
	"fmt"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/check"
)

// requests are the names by which constraints and configuration mean requests:
// "name", or "name/subrequest".
type requests map[string]sets.Set[string]

func (r requests) has(name string) bool {
	if _, ok := r[name]; ok {
		return true
	}
	for main, subs := range r {
		for sub := range subs {
			if name == main+"/"+sub {
				return true
			}
		}
	}
	return false
}

func requestNames(c *resourcev1.DeviceClaim) requests {
	names := requests{}
	for _, r := range c.Requests {
		names[r.Name] = sets.New[string]()
		for _, sub := range r.FirstAvailable {
			names[r.Name].Insert(sub.Name)
		}
	}
	return names
}

// atMost checks the length of a list and each of its elements.
func atMost[T any](list []T, most int, path *field.Path, each func(*T, *field.Path) field.ErrorList) field.ErrorList {
	var errs field.ErrorList
	if len(list) > most {
		return field.ErrorList{field.TooMany(path, len(list), most)}
	}
	for i := range list {
		errs = append(errs, each(&list[i], path.Index(i))...)
	}
	return errs
}

// set is atMost for a list whose elements have keys of their own.
func set[T any, K comparable](list []T, most int, path *field.Path, each func(*T, *field.Path) field.ErrorList, key func(*T) K) field.ErrorList {
	errs := atMost(list, most, path, each)
	if len(list) > most {
		return errs
	}
	return append(errs, unique(list, path, key)...)
}

// unique refuses keys that come twice.
func unique[T any, K comparable](list []T, path *field.Path, key func(*T) K) field.ErrorList {
	var errs field.ErrorList
	seen := sets.New[K]()
	for i := range list {
		if k := key(&list[i]); seen.Has(k) {
			errs = append(errs, field.Duplicate(path.Index(i), k))
		} else {
			seen.Insert(k)
		}
	}
	return errs
}

func validateDevices(c *resourcev1.DeviceClaim, path *field.Path) field.ErrorList {
	names := requestNames(c)
	errs := set(c.Requests, resourcev1.DeviceRequestsMaxSize, path.Child("requests"), validateRequest,
		func(r *resourcev1.DeviceRequest) string { return r.Name })
	errs = append(errs, atMost(c.Constraints, resourcev1.DeviceConstraintsMaxSize, path.Child("constraints"),
		func(c *resourcev1.DeviceConstraint, p *field.Path) field.ErrorList {
			return validateConstraint(c, names, p)
		})...)
	return append(errs, atMost(c.Config, resourcev1.DeviceConfigMaxSize, path.Child("config"),
		func(c *resourcev1.DeviceClaimConfiguration, p *field.Path) field.ErrorList {
			return append(references(c.Requests, names, p.Child("requests")), validateConfiguration(&c.DeviceConfiguration, p)...)
		})...)
}

func references(list []string, names requests, path *field.Path) field.ErrorList {
	return set(list, resourcev1.DeviceRequestsMaxSize, path,
		func(name *string, p *field.Path) field.ErrorList { return reference(*name, names, p) },
		func(s *string) string { return *s })
}

func reference(name string, names requests, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if strings.Count(name, "/") < 2 {
		for part := range strings.SplitSeq(name, "/") { // also of a name that is there: the request's own may be wrong
			errs = append(errs, check.Label(part, path)...)
		}
	}
	if names.has(name) {
		return errs
	}
	return append(errs, field.Invalid(path, name, "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"))
}

func validateRequest(r *resourcev1.DeviceRequest, path *field.Path) field.ErrorList {
	errs := check.Label(r.Name, path.Child("name"))
	switch {
	case r.Exactly == nil && len(r.FirstAvailable) == 0:
		return append(errs, field.Required(path, "exactly one of `exactly` or `firstAvailable` is required"))
	case r.Exactly != nil && len(r.FirstAvailable) > 0:
		return append(errs, field.Invalid(path, nil, "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set"))
	case r.Exactly != nil:
		e, p := r.Exactly, path.Child("exactly")
		return append(errs, validateAsked(e.DeviceClassName, e.Selectors, e.AllocationMode, e.Count, e.Tolerations, p)...)
	}
	list := path.Child("firstAvailable")
	return append(errs, set(r.FirstAvailable, resourcev1.FirstAvailableDeviceRequestMaxSize, list,
		func(s *resourcev1.DeviceSubRequest, p *field.Path) field.ErrorList {
			errs := check.Label(s.Name, p.Child("name"))
			return append(errs, validateAsked(s.DeviceClassName, s.Selectors, s.AllocationMode, s.Count, s.Tolerations, p)...)
		},
		func(s *resourcev1.DeviceSubRequest) string { return s.Name })...)
}

func validateAsked(class string, selectors []resourcev1.DeviceSelector, mode resourcev1.DeviceAllocationMode, count int64,
	tolerations []resourcev1.DeviceToleration, path *field.Path,
) field.ErrorList {
	var errs field.ErrorList
	if class == "" {
		errs = append(errs, field.Required(path.Child("deviceClassName"), ""))
	} else {
		errs = append(errs, check.Subdomain(class, path.Child("deviceClassName"))...)
	}
	errs = append(errs, atMost(selectors, resourcev1.DeviceSelectorsMaxSize, path.Child("selectors"), validateSelector)...)
	switch mode {
	case resourcev1.DeviceAllocationModeAll:
		if count != 0 {
			errs = append(errs, field.Invalid(path.Child("count"), count, fmt.Sprintf("must not be specified when allocationMode is '%s'", mode)))
		}
	case resourcev1.DeviceAllocationModeExactCount:
		if count <= 0 {
			errs = append(errs, field.Invalid(path.Child("count"), count, "must be greater than zero"))
		}
	default:
		errs = append(errs, check.OneOf(mode, path.Child("allocationMode"), resourcev1.DeviceAllocationModeAll, resourcev1.DeviceAllocationModeExactCount)...)
	}
	for i := range tolerations {
		errs = append(errs, validateToleration(&tolerations[i], path.Child("tolerations").Index(i))...)
	}
	return errs
}

func validateSelector(s *resourcev1.DeviceSelector, path *field.Path) field.ErrorList {
	at := path.Child("cel", "expression")
	switch {
	case s.CEL == nil:
		return field.ErrorList{field.Required(path.Child("cel"), "")}
	case len(s.CEL.Expression) > resourcev1.CELSelectorExpressionMaxLength:
		return field.ErrorList{field.TooLong(at, "" /* it is too long to be shown */, resourcev1.CELSelectorExpressionMaxLength)}
	}
	return compile(s.CEL.Expression, at)
}

func validateConstraint(c *resourcev1.DeviceConstraint, names requests, path *field.Path) field.ErrorList {
	errs := references(c.Requests, names, path.Child("requests"))
	switch {
	case c.MatchAttribute != nil:
		return append(errs, validateFullName(*c.MatchAttribute, path.Child("matchAttribute"))...)
	case c.DistinctAttribute != nil:
		return append(errs, validateFullName(*c.DistinctAttribute, path.Child("distinctAttribute"))...)
	}
	return append(errs, field.Required(path, `exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set`))
}

func validateConfiguration(c *resourcev1.DeviceConfiguration, path *field.Path) field.ErrorList {
	if c.Opaque == nil {
		return field.ErrorList{field.Required(path.Child("opaque"), "")}
	}
	errs := validateDriver(c.Opaque.Driver, path.Child("opaque", "driver"))
	return append(errs, validateRaw(c.Opaque.Parameters, resourcev1.OpaqueParametersMaxLength, path.Child("opaque", "parameters"))...)
}

func validateRaw(raw runtime.RawExtension, most int, path *field.Path) field.ErrorList {
	var value any
	switch {
	case len(raw.Raw) == 0:
		return field.ErrorList{field.Required(path, "")}
	case len(raw.Raw) > most:
		return field.ErrorList{field.TooLong(path, "" /* it is too long to be shown */, most)}
	}
	if err := json.Unmarshal(raw.Raw, &value); err != nil {
		return field.ErrorList{field.Invalid(path, "<value omitted>", fmt.Sprintf("error parsing data as JSON: %v", err.Error()))}
	}
	if value == nil {
		return field.ErrorList{field.Required(path, "")}
	}
	if _, isObject := value.(map[string]any); !isObject {
		return field.ErrorList{field.Invalid(path, "<value omitted>", "must be a valid JSON object")}
	}
	return nil
}

func validateDriver(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	var errs field.ErrorList
	if len(name) > resourcev1.DriverNameMaxLength {
		errs = append(errs, field.TooLong(path, "" /* it is too long to be shown */, resourcev1.DriverNameMaxLength))
	}
	return append(errs, check.Each(validation.IsDNS1123Subdomain(strings.ToLower(name)), name, path)...)
}

func validateToleration(t *resourcev1.DeviceToleration, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if t.Key != "" {
		errs = append(errs, check.Each(content.IsLabelKey(t.Key), t.Key, path.Child("key"))...)
	}
	switch t.Operator {
	case resourcev1.DeviceTolerationOpExists:
		if t.Value != "" {
			errs = append(errs, field.Invalid(path.Child("value"), t.Value, "must be empty for operator `Exists`"))
		}
	case resourcev1.DeviceTolerationOpEqual:
		errs = append(errs, check.Each(validation.IsValidLabelValue(t.Value), t.Value, path.Child("value"))...)
	case "":
		errs = append(errs, field.Required(path.Child("operator"), ""))
	default:
		errs = append(errs, check.OneOf(t.Operator, path.Child("operator"), resourcev1.DeviceTolerationOpEqual, resourcev1.DeviceTolerationOpExists)...)
	}
	if t.Effect != "" {
		errs = append(errs, check.OneOf(t.Effect, path.Child("effect"), effects()...)...)
	}
	return errs
}

func effects() []resourcev1.DeviceTaintEffect {
	return []resourcev1.DeviceTaintEffect{resourcev1.DeviceTaintEffectNoExecute, resourcev1.DeviceTaintEffectNoSchedule, resourcev1.DeviceTaintEffectNone}
}
