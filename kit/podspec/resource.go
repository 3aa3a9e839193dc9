package podspec

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/check"
)

// sorted gives errors about maps one order.
func sorted(list corev1.ResourceList) []corev1.ResourceName { return slices.Sorted(maps.Keys(list)) }

// validateRequirements checks a container's requests and limits.
func validateRequirements(r *corev1.ResourceRequirements, claims []string, path *field.Path) field.ErrorList {
	return requirements(r, claims, path, containerResource)
}

// Limits checks the limits of something that is no container, whose field limits at path they are taken for.
func Limits(list corev1.ResourceList, path *field.Path) field.ErrorList {
	return validateRequirements(&corev1.ResourceRequirements{Limits: list}, nil, path)
}

// requirements is validateRequirements with another check of the names.
func requirements(r *corev1.ResourceRequirements, claims []string, path *field.Path, named func(corev1.ResourceName, *field.Path) field.ErrorList) field.ErrorList {
	var errs field.ErrorList
	limits, requests := path.Child("limits"), path.Child("requests")
	paged, based := false, false
	note := func(name corev1.ResourceName) {
		paged = paged || hugePages(name)
		based = based || name == corev1.ResourceCPU || name == corev1.ResourceMemory
	}
	for _, name := range sorted(r.Limits) {
		q := r.Limits[name]
		at := limits.Key(string(name))
		errs = append(errs, named(name, at)...)
		errs = append(errs, quantity(name, q, at)...)
		if !wholePages(name, q) {
			errs = append(errs, field.Invalid(at, q.String(), q.String()+partOfPages+string(name)))
		}
		note(name)
	}
	for _, name := range sorted(r.Requests) {
		q := r.Requests[name]
		at := requests.Key(string(name))
		errs = append(errs, named(name, at)...)
		errs = append(errs, quantity(name, q, at)...)
		note(name)
		limit, limited := r.Limits[name]
		switch {
		case limited && overcommits(name) && q.Cmp(limit) > 0:
			errs = append(errs, field.Invalid(requests, q.String(), fmt.Sprintf("must be less than or equal to %s limit of %s", name, limit.String())))
		case limited && !overcommits(name) && q.Cmp(limit) != 0:
			errs = append(errs, field.Invalid(requests, q.String(), fmt.Sprintf("must be equal to %s limit of %s", name, limit.String())))
		case !limited && !overcommits(name):
			errs = append(errs, field.Required(limits, "Limit must be set for non overcommitable resources"))
		}
		if !wholePages(name, q) {
			errs = append(errs, field.Invalid(at, q.String(), q.String()+partOfPages+string(name)))
		}
	}
	if paged && !based {
		errs = append(errs, field.Forbidden(path, "HugePages require cpu or memory"))
	}
	return append(errs, validateUsedClaims(r.Claims, claims, path.Child("claims"))...)
}

// ResourceName refuses what is not the name of a resource anywhere.
func ResourceName(name corev1.ResourceName, path *field.Path) field.ErrorList {
	if errs := check.QualifiedName(name, path); len(errs) > 0 {
		return errs
	}
	return known(name, path)
}

// containerResource checks a resource's name: one of Kubernetes' own for
// containers, or an extended one with a domain.
func containerResource(name corev1.ResourceName, path *field.Path) field.ErrorList {
	errs := ResourceName(name, path)
	switch {
	case !strings.Contains(string(name), "/"):
		if !native(name) {
			errs = append(errs, field.Invalid(path, name, "must be a standard resource for containers"))
		}
	case !ownDomain(name) && !Extended(name):
		errs = append(errs, field.Invalid(path, name, "doesn't follow extended resource name standard"))
	}
	return errs
}

func native(name corev1.ResourceName) bool {
	return name == corev1.ResourceCPU || name == corev1.ResourceMemory || name == corev1.ResourceEphemeralStorage || hugePages(name)
}

func ownDomain(name corev1.ResourceName) bool {
	return strings.Contains(string(name), corev1.ResourceDefaultNamespacePrefix)
}

// Extended reports a name of a resource that nodes are told they have: with a
// domain other than Kubernetes' own, and short enough for a quota of it.
func Extended(name corev1.ResourceName) bool {
	if !strings.Contains(string(name), "/") || ownDomain(name) || strings.HasPrefix(string(name), corev1.DefaultResourceRequestsPrefix) {
		return false
	}
	return len(validation.IsQualifiedName(corev1.DefaultResourceRequestsPrefix+string(name))) == 0
}

// MayBeDevices reports whether drivers of devices may provide a resource: an extended one, or one that names a DeviceClass.
func MayBeDevices(name corev1.ResourceName) bool {
	return strings.HasPrefix(string(name), resourcev1.ResourceDeviceClassPrefix) || Extended(name)
}

// overcommits reports a resource whose requests may be below its limit.
func overcommits(name corev1.ResourceName) bool {
	return !hugePages(name) && (!strings.Contains(string(name), "/") || ownDomain(name))
}

func quantity(name corev1.ResourceName, q resource.Quantity, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if q.Sign() < 0 {
		errs = append(errs, field.Invalid(path, q.String(), check.Negative))
	}
	if Counted(name) && q.MilliValue()%1000 != 0 {
		errs = append(errs, field.Invalid(path, q.String(), "must be an integer"))
	}
	return errs
}

// Counted reports a resource of which there are whole ones only, and no memory.
func Counted(name corev1.ResourceName) bool {
	switch name {
	case corev1.ResourcePods, corev1.ResourceQuotas, corev1.ResourceServices, corev1.ResourceReplicationControllers, corev1.ResourceSecrets,
		corev1.ResourceConfigMaps, corev1.ResourcePersistentVolumeClaims, corev1.ResourceServicesNodePorts, corev1.ResourceServicesLoadBalancers:
		return true
	}
	return Extended(name)
}

// NodeResources checks what a node says to have.
func NodeResources(list corev1.ResourceList, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, name := range sorted(list) {
		q, at := list[name], path.Child(string(name))
		if q.Sign() < 0 {
			errs = append(errs, field.Invalid(at, q.String(), check.Negative))
		}
		if Counted(name) && q.MilliValue()%1000 != 0 {
			errs = append(errs, field.Invalid(at, q.String(), "must be an integer"))
		}
	}
	return errs
}

// validatePodResources checks what a pod asks for as a whole.
func (s *scope) validatePodResources(path *field.Path) field.ErrorList {
	spec := s.spec
	var errs field.ErrorList
	r := spec.Resources
	if r == nil {
		return nil
	}
	at := path.Child("resources")
	if spec.OS != nil && spec.OS.Name == corev1.Windows {
		return field.ErrorList{field.Forbidden(at, "may not be set for a windows pod")}
	}
	if r.Claims != nil {
		errs = append(errs, field.Forbidden(at.Child("claims"), "claims may not be set for Resources at pod-level"))
	}
	errs = append(errs, requirements(r, claimNames(spec), at, podResource)...)
	return append(errs, validateShares(spec, path)...)
}

// podResource checks the name of a resource that a pod asks for as a whole.
func podResource(name corev1.ResourceName, path *field.Path) field.ErrorList {
	if errs := ResourceName(name, path); len(errs) > 0 {
		return errs
	}
	if podLevel(name) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, name, []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceHugePagesPrefix, corev1.ResourceMemory})}
}

// validateShares refuses containers that ask for more than their pod does.
func validateShares(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	sums := containerRequests(spec)
	for _, name := range sorted(sums) {
		sum := sums[name]
		if request, ok := spec.Resources.Requests[name]; ok && request.Cmp(sum) < 0 {
			errs = append(errs, field.Invalid(path.Child("resources", "requests").Key(string(name)), request.String(),
				fmt.Sprintf("must be greater than or equal to aggregate container requests of %s", sum.String())))
		}
	}
	sums = containerLimits(spec)
	for _, name := range sorted(sums) { // huge pages are never promised twice
		sum := sums[name]
		if limit, ok := spec.Resources.Limits[name]; ok && hugePages(name) && limit.Cmp(sum) < 0 {
			errs = append(errs, field.Invalid(path.Child("resources", "limits").Key(string(name)), limit.String(),
				fmt.Sprintf("must be greater than or equal to aggregate container limits of %s", sum.String())))
		}
	}
	for i := range spec.Containers {
		for _, name := range sorted(spec.Containers[i].Resources.Limits) {
			limit := spec.Containers[i].Resources.Limits[name]
			if most, ok := spec.Resources.Limits[name]; ok && limit.Cmp(most) > 0 {
				errs = append(errs, field.Invalid(path.Child("resources", "containers").Index(i).Key(string(name)).Child("limits"), limit.String(), // so spelled
					fmt.Sprintf("must be less than or equal to pod limits of %s", most.String())))
			}
		}
	}
	return errs
}

// partOfPages is what is told of huge pages that are not whole.
const partOfPages = " is not positive integer multiple of "

// wholePages reports whether q is a number of whole pages, where name is one of huge pages.
func wholePages(name corev1.ResourceName, q resource.Quantity) bool {
	size, paged := strings.CutPrefix(string(name), corev1.ResourceHugePagesPrefix)
	if !paged {
		return true
	}
	page, err := resource.ParseQuantity(size)
	return err == nil && page.Sign() > 0 && page.MilliValue()%1000 == 0 && q.Value()%page.Value() == 0
}
