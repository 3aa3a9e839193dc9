package pod

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/check"
	"howdah.dev/kit/podspec"
)

// validateClaimStatuses checks what a status says of the claims that were made for the pod.
func validateClaimStatuses(p *corev1.Pod, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, c := range p.Status.ResourceClaimStatuses {
		at := path.Child("resourceClaimStatuses").Index(i)
		known := slices.ContainsFunc(p.Spec.ResourceClaims, func(r corev1.PodResourceClaim) bool { return r.Name == c.Name })
		if !known {
			errs = append(errs, field.Invalid(at.Child("name"), c.Name, "must match the name of an entry in `spec.resourceClaims`"))
		}
		if slices.ContainsFunc(p.Status.ResourceClaimStatuses[:i], func(b corev1.PodResourceClaimStatus) bool { return b.Name == c.Name }) {
			errs = append(errs, field.Duplicate(at.Child("name"), c.Name))
		}
		if c.ResourceClaimName != nil {
			errs = append(errs, check.Subdomain(*c.ResourceClaimName, at.Child("resourceClaimName"))...)
		}
	}
	return append(errs, validateExtended(p, path.Child("extendedResourceClaimStatus"))...)
}

// validateExtended checks which requests of the claim made for extended resources serve which containers.
func validateExtended(p *corev1.Pod, path *field.Path) field.ErrorList {
	s := p.Status.ExtendedResourceClaimStatus
	if s == nil {
		return nil
	}
	var errs field.ErrorList
	mappings := path.Child("requestMappings")
	if len(s.RequestMappings) == 0 {
		errs = append(errs, field.Required(mappings, "at least one request mapping is required"))
	}
	seen := map[corev1.ContainerExtendedResourceRequest]bool{}
	for i, m := range s.RequestMappings {
		at := mappings.Index(i)
		container := containerOf(m.ContainerName, p.Spec.InitContainers, p.Spec.Containers)
		if container == nil {
			errs = append(errs, field.Invalid(at.Child("containerName"), m.ContainerName, "must match the name of an entry in spec.initContainers.name or spec.containers.name"))
		} else if _, asked := container.Resources.Requests[corev1.ResourceName(m.ResourceName)]; !asked {
			errs = append(errs, field.Invalid(at.Child("resourceName"), m.ResourceName,
				"must match the extended resource name of an entry in spec.initContainers.resources.requests or spec.containers.resources.requests"))
		}
		// Kubernetes leaves the mapping out of the path.
		errs = append(errs, check.Label(m.RequestName, path.Child("requestName"))...)
		if seen[m] {
			errs = append(errs, field.Duplicate(at.Child("containerName"), m.ContainerName), field.Duplicate(at.Child("resourceName"), m.ResourceName),
				field.Duplicate(at.Child("requestName"), m.RequestName))
		}
		seen[m] = true
	}
	if s.ResourceClaimName == "" {
		return append(errs, field.Required(path.Child("resourceClaimName"), ""))
	}
	return append(errs, check.Subdomain(s.ResourceClaimName, path.Child("resourceClaimName"))...)
}

func containerOf(name string, lists ...[]corev1.Container) *corev1.Container {
	for _, list := range lists {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}

// listed is one of the lists of container statuses.
type listed struct {
	name     string
	statuses []corev1.ContainerStatus
}

func statusLists(s *corev1.PodStatus) []listed {
	return []listed{
		{"containerStatuses", s.ContainerStatuses},
		{"initContainerStatuses", s.InitContainerStatuses},
		{"ephemeralContainerStatuses", s.EphemeralContainerStatuses},
	}
}

// mostID is the highest number of a user or group.
const mostID = 1<<31 - 1

func validateUsers(statuses []corev1.ContainerStatus, windows bool, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	id := func(n int64, at *field.Path) {
		if n < 0 || n > mostID {
			errs = append(errs, field.Invalid(at, n, "must be between 0 and 2147483647, inclusive"))
		}
	}
	for i, c := range statuses {
		if c.User == nil || c.User.Linux == nil {
			continue
		}
		at, user := path.Index(i).Child("user", "linux"), c.User.Linux
		if windows {
			errs = append(errs, field.Forbidden(at, podspec.NotOnWindows))
			continue
		}
		id(user.UID, at.Child("uid"))
		id(user.GID, at.Child("gid"))
		for j, g := range user.SupplementalGroups {
			id(g, at.Child("supplementalGroups").Index(j))
		}
	}
	return errs
}

// claimPrefix begins the names of resources that are devices of a claim.
const claimPrefix = "claim:"

// validateHealth checks what is said of the health of the devices that containers have.
func validateHealth(statuses []corev1.ContainerStatus, containers []corev1.Container, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range statuses {
		container := containerOf(statuses[i].Name, containers)
		for j, r := range statuses[i].AllocatedResourcesStatus {
			at := path.Index(i).Child("allocatedResourcesStatus").Index(j)
			if container != nil { // a status may outlive what it is of
				errs = append(errs, validateDeviceName(string(r.Name), container, at.Child("name"))...)
			}
			seen := map[corev1.ResourceID]bool{}
			for k, d := range r.Resources {
				device := at.Child("resources").Index(k)
				errs = append(errs, check.Listed(d.Health, device.Child("health"),
					corev1.ResourceHealthStatusHealthy, corev1.ResourceHealthStatusUnhealthy, corev1.ResourceHealthStatusUnknown)...)
				if m := d.Message; m != nil && *m == "" {
					errs = append(errs, field.Required(device.Child("message"), "must be non-empty if specified"))
				} else if m != nil && len(*m) > corev1.ResourceHealthMessageMaxLength {
					errs = append(errs, field.TooLong(device.Child("message"), *m, corev1.ResourceHealthMessageMaxLength))
				}
				if seen[d.ResourceID] {
					errs = append(errs, field.Duplicate(device.Child("resourceID"), d.ResourceID))
				}
				seen[d.ResourceID] = true
			}
		}
	}
	return errs
}

func validateDeviceName(name string, container *corev1.Container, path *field.Path) field.ErrorList {
	if claim, ok := strings.CutPrefix(name, claimPrefix); ok {
		uses := slices.ContainsFunc(container.Resources.Claims, func(c corev1.ResourceClaim) bool {
			return claim == c.Name && c.Request == "" || c.Request != "" && claim == c.Name+"/"+c.Request
		})
		if !uses {
			return field.ErrorList{field.Invalid(path, name, "must match one of the container's resource claims in a format 'claim:<claimName>/<request>' or 'claim:<claimName>' if request is empty")}
		}
		return nil
	}
	if _, asked := container.Resources.Requests[corev1.ResourceName(name)]; asked {
		return nil
	}
	return field.ErrorList{field.Invalid(path, name, "must match one of the container's resource requests")}
}
