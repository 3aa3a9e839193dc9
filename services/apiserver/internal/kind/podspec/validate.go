package podspec

import (
	"math"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/services/apiserver/internal/kind/check"
)

// scope is what the checks of a part of a spec must know of the rest.
type scope struct {
	spec    *corev1.PodSpec
	volumes map[string]*corev1.Volume
}

// Validate checks the spec of a pod or of a template; path is that of the spec
// and meta the metadata beside it.
func Validate(spec *corev1.PodSpec, meta *metav1.ObjectMeta, path *field.Path) field.ErrorList {
	s := &scope{spec: spec, volumes: map[string]*corev1.Volume{}}
	errs := s.validateVolumes(meta, path.Child("volumes"))
	errs = append(errs, s.validateContainers(path.Child("containers"))...)
	errs = append(errs, s.validateInitContainers(path.Child("initContainers"))...)
	errs = append(errs, s.validateEphemeralContainers(path.Child("ephemeralContainers"))...)
	errs = append(errs, validatePodResources(spec, path)...)
	errs = append(errs, validateLife(spec, path)...)
	errs = append(errs, validateNames(spec, path)...)
	errs = append(errs, validateHost(spec, path)...)
	errs = append(errs, validatePodSecurity(spec, path.Child("securityContext"))...)
	errs = append(errs, validateDNS(spec, path)...)
	errs = append(errs, validateHostAliases(spec.HostAliases, path.Child("hostAliases"))...)
	errs = append(errs, metavalidation.ValidateLabels(spec.NodeSelector, path.Child("nodeSelector"))...)
	errs = append(errs, validateAffinity(spec.Affinity, path.Child("affinity"))...)
	errs = append(errs, Tolerations(spec.Tolerations, path.Child("tolerations"))...)
	errs = append(errs, validateSpread(spec.TopologySpreadConstraints, path.Child("topologySpreadConstraints"))...)
	errs = append(errs, validateConditions(spec, path)...)
	errs = append(errs, validateOS(spec, path)...)
	return append(errs, validateAbsent(spec, path)...)
}

// ValidatePod checks the spec of a pod, which must be complete where that of a
// template need not be.
func ValidatePod(spec *corev1.PodSpec, meta *metav1.ObjectMeta, path *field.Path) field.ErrorList {
	errs := Validate(spec, meta, path)
	errs = append(errs, untrimmedImages(spec.Containers, path.Child("containers"))...)
	errs = append(errs, untrimmedImages(spec.InitContainers, path.Child("initContainers"))...)
	if spec.NodeName != "" && len(spec.SchedulingGates) > 0 {
		errs = append(errs, field.Forbidden(path.Child("nodeName"), "cannot be set until all schedulingGates have been cleared"))
	}
	return errs
}

// ValidatePodCreate checks what a new pod must not have yet.
func ValidatePodCreate(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	if len(spec.EphemeralContainers) > 0 {
		return field.ErrorList{field.Forbidden(path.Child("ephemeralContainers"), "cannot be set on create")}
	}
	return nil
}

func validateLife(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	errs := check.Choice(spec.RestartPolicy, path.Child("restartPolicy"),
		corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever)
	if n := spec.ActiveDeadlineSeconds; n != nil && (*n < 1 || *n > math.MaxInt32) {
		errs = append(errs, field.Invalid(path.Child("activeDeadlineSeconds"), *n, validation.InclusiveRangeError(1, math.MaxInt32)))
	}
	// A negative number is let through, with a warning, and means one second.
	if spec.TerminationGracePeriodSeconds == nil {
		errs = append(errs, field.Required(path.Child("terminationGracePeriodSeconds"), ""))
	}
	return errs
}

// validateNames checks what names other objects, or the pod itself in DNS.
func validateNames(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, f := range []struct {
		name, value string
		check       func(string, bool) []string
	}{
		{"serviceAccountName", spec.ServiceAccountName, apivalidation.ValidateServiceAccountName},
		{"nodeName", spec.NodeName, apivalidation.NameIsDNSSubdomain},
		{"schedulerName", spec.SchedulerName, qualified},
		{"priorityClassName", spec.PriorityClassName, apivalidation.NameIsDNSSubdomain},
		{"hostname", spec.Hostname, apivalidation.NameIsDNSLabel},
		{"subdomain", spec.Subdomain, apivalidation.NameIsDNSLabel},
	} {
		if f.value != "" {
			errs = append(errs, check.Each(f.check(f.value, false), f.value, path.Child(f.name))...)
		}
	}
	if name := spec.RuntimeClassName; name != nil {
		errs = append(errs, check.Subdomain(*name, path.Child("runtimeClassName"))...)
	}
	if p := spec.PreemptionPolicy; p != nil {
		errs = append(errs, check.Choice(*p, path.Child("preemptionPolicy"), corev1.PreemptLowerPriority, corev1.PreemptNever)...)
	}
	for i, s := range spec.ImagePullSecrets {
		if s.Name != "" {
			errs = append(errs, check.Subdomain(s.Name, path.Child("imagePullSecrets").Index(i).Child("name"))...)
		}
	}
	return errs
}

func qualified(name string, _ bool) []string { return validation.IsQualifiedName(name) }

// validateConditions checks the gates before scheduling and before readiness.
func validateConditions(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, g := range spec.ReadinessGates {
		errs = append(errs, check.QualifiedName(string(g.ConditionType), path.Child("readinessGates").Index(i).Child("conditionType"))...)
	}
	seen := map[string]bool{}
	for i, g := range spec.SchedulingGates {
		at := path.Child("schedulingGates").Index(i)
		errs = append(errs, check.QualifiedName(g.Name, at)...)
		if seen[g.Name] {
			errs = append(errs, field.Duplicate(at, g.Name))
		}
		seen[g.Name] = true
	}
	return errs
}

// validateAbsent refuses what Kubernetes has and this cluster has not, rather
// than to store and ignore it.
func validateAbsent(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(spec.ResourceClaims) > 0 {
		errs = append(errs, field.Forbidden(path.Child("resourceClaims"), absent))
	}
	if spec.SchedulingGroup != nil {
		errs = append(errs, field.Forbidden(path.Child("schedulingGroup"), absent))
	}
	if spec.HostnameOverride != nil {
		errs = append(errs, field.Forbidden(path.Child("hostnameOverride"), absent))
	}
	return errs
}

const absent = "not supported by this cluster"
