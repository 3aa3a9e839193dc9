package podspec

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/check"
)

// validateResourceClaims checks the devices that a pod claims; those that a node mirrors cannot claim any. The refusals of these have the
// path of nothing, as in Kubernetes.
func validateResourceClaims(meta *metav1.ObjectMeta, claims []corev1.PodResourceClaim, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	mirror := meta != nil && metav1.HasAnnotation(*meta, corev1.MirrorPodAnnotationKey)
	seen := map[string]bool{}
	for i, c := range claims {
		if mirror {
			errs = append(errs, field.Forbidden(field.NewPath(""), "static pods do not support resource claims"))
			continue
		}
		at := path.Index(i)
		switch {
		case c.Name == "":
			errs = append(errs, field.Required(at.Child("name"), ""))
		case seen[c.Name]:
			errs = append(errs, field.Duplicate(at.Child("name"), c.Name))
		default:
			errs = append(errs, check.Label(c.Name, at.Child("name"))...)
		}
		seen[c.Name] = true
		switch claim, template := c.ResourceClaimName != nil, c.ResourceClaimTemplateName != nil; {
		case claim && template:
			errs = append(errs, field.Invalid(at, c, "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"))
		case !claim && !template:
			errs = append(errs, field.Invalid(at, c, "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"))
		}
		if name := c.ResourceClaimName; name != nil {
			errs = append(errs, check.Subdomain(*name, at.Child("resourceClaimName"))...)
		}
		if name := c.ResourceClaimTemplateName; name != nil {
			errs = append(errs, check.Subdomain(*name, at.Child("resourceClaimTemplateName"))...)
		}
	}
	return errs
}

// claimNames are the names that containers may refer to, in order.
func claimNames(spec *corev1.PodSpec) []string {
	var names []string
	for _, c := range spec.ResourceClaims {
		if c.Name != "" {
			names = append(names, c.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// validateUsedClaims checks what a container uses of its pod's claims: each as a whole, or by request, once.
func validateUsedClaims(claims []corev1.ResourceClaim, known []string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, c := range claims {
		at := path.Index(i)
		if c.Name == "" {
			errs = append(errs, field.Required(at, ""))
			continue
		}
		errs = append(errs, usedTwice(c, seen, at)...)
		if !slices.Contains(known, c.Name) {
			missing := field.NotFound(at, c.Name)
			missing.Detail = "must be one of the names in pod.spec.resourceClaims"
			if len(known) == 0 {
				missing.Detail += " which is empty"
			} else {
				missing.Detail += ": " + strings.Join(known, ", ")
			}
			errs = append(errs, missing)
		}
	}
	return errs
}

// usedTwice refuses what is used already, and remembers what is not. Of a claim that is used as a whole the requests are not looked at.
func usedTwice(c corev1.ResourceClaim, seen map[string]bool, at *field.Path) field.ErrorList {
	if seen[c.Name] {
		return field.ErrorList{field.Duplicate(at, c.Name)}
	}
	var errs field.ErrorList
	key := c.Name
	if c.Request != "" {
		errs = check.Label(c.Request, at.Child("request"))
		key += "/" + c.Request
	}
	if seen[key] {
		errs = append(errs, field.Duplicate(at, key))
	} else if c.Request == "" {
		for other := range seen { // a refusal for each request that is used
			if strings.HasPrefix(other, c.Name+"/") {
				errs = append(errs, field.Duplicate(at, c.Name))
			}
		}
	}
	seen[key] = true
	return errs
}
