package podspec

import (
	"math"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/check"
)

// scope is what the checks of a part of a spec must know of the rest.
type scope struct {
	spec    *corev1.PodSpec
	volumes map[string]*corev1.Volume
}

// Validate checks the spec of a pod or of a template; path is that of the spec
// and meta the metadata beside it; nil for that of a template, which no pod has as its own. The problems are in Kubernetes' order.
func Validate(spec *corev1.PodSpec, meta *metav1.ObjectMeta, path *field.Path) field.ErrorList {
	return validateSpec(&scope{spec: spec, volumes: map[string]*corev1.Volume{}}, meta, path)
}

func validateSpec(s *scope, meta *metav1.ObjectMeta, path *field.Path) field.ErrorList {
	spec := s.spec
	var errs field.ErrorList
	if spec.TerminationGracePeriodSeconds == nil {
		errs = append(errs, field.Required(path.Child("terminationGracePeriodSeconds"), ""))
	}
	errs = append(errs, s.validateVolumes(meta, path.Child("volumes"))...)
	errs = append(errs, validateResourceClaims(meta, spec.ResourceClaims, path.Child("resourceClaims"))...)
	errs = append(errs, s.validateContainers(path.Child("containers"))...)
	errs = append(errs, s.validateInitContainers(path.Child("initContainers"))...)
	errs = append(errs, s.validateEphemeralContainers(path.Child("ephemeralContainers"))...)
	errs = append(errs, s.validatePodResources(path)...)
	errs = append(errs, check.ListedChoice(spec.RestartPolicy, path.Child("restartPolicy"),
		corev1.RestartPolicyAlways, corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever)...)
	errs = append(errs, check.ListedChoice(spec.DNSPolicy, path.Child("dnsPolicy"),
		corev1.DNSClusterFirstWithHostNet, corev1.DNSClusterFirst, corev1.DNSDefault, corev1.DNSNone)...)
	errs = append(errs, metavalidation.ValidateLabels(spec.NodeSelector, path.Child("nodeSelector"))...)
	errs = append(errs, validateHost(spec, path)...)
	errs = append(errs, validatePodSecurity(spec, path.Child("securityContext"))...)
	errs = append(errs, validateAffinity(spec.Affinity, path.Child("affinity"))...)
	errs = append(errs, validateDNSConfig(spec, path.Child("dnsConfig"))...)
	errs = append(errs, validateConditions(spec, path)...)
	errs = append(errs, validateSpread(spec.TopologySpreadConstraints, path.Child("topologySpreadConstraints"))...)
	errs = append(errs, validateHostProcess(spec, path)...)
	errs = append(errs, validateHostUsers(spec, path)...)
	errs = append(errs, s.validateNames(path)...)
	errs = append(errs, validateOS(spec, path)...)
	errs = append(errs, validateGroup(spec.SchedulingGroup, path.Child("schedulingGroup", "podGroupName"))...)
	return append(errs, s.validateEnvFiles(path)...)
}

// validateGroup checks the group of pods that a pod is scheduled with.
func validateGroup(g *corev1.PodSchedulingGroup, path *field.Path) field.ErrorList {
	switch {
	case g == nil:
		return nil
	case g.PodGroupName == nil:
		return field.ErrorList{field.Invalid(path, nil, "must specify one of: `podGroupName`")}
	}
	return check.Subdomain(*g.PodGroupName, path)
}

// ValidatePod checks the spec of a pod, which must be complete where that of a
// template need not be.
func ValidatePod(spec *corev1.PodSpec, meta *metav1.ObjectMeta, path *field.Path) field.ErrorList {
	errs := ValidateAnnotations(meta, spec, field.NewPath("metadata", "annotations"))
	rest := validateSpec(&scope{spec: spec, volumes: map[string]*corev1.Volume{}}, meta, path)
	for i := range spec.Volumes { // those of templates may be named later
		at, source := path.Child("volumes").Index(i), spec.Volumes[i].VolumeSource
		image := source.Image
		if source.Image = nil; image == nil || image.Reference != "" || source != (corev1.VolumeSource{}) {
			continue
		}
		place := 0 // after what is wrong with the volumes before
		for j := range i {
			before := path.Child("volumes").Index(j).String()
			for place < len(rest) && strings.HasPrefix(rest[place].Field, before) {
				place++
			}
		}
		rest = slices.Insert(rest, place, field.Required(at.Child("image", "reference"), ""))
	}
	errs = append(errs, rest...)
	errs = append(errs, validateTokens(spec, path.Child("volumes"))...)
	errs = append(errs, untrimmedImages(spec.Containers, path.Child("containers"))...)
	return append(errs, untrimmedImages(spec.InitContainers, path.Child("initContainers"))...)
}

// ValidatePodCreate checks what a new pod must not have yet, and that it does not say one thing in two ways.
func ValidatePodCreate(spec *corev1.PodSpec, meta *metav1.ObjectMeta, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(spec.EphemeralContainers) > 0 {
		errs = append(errs, field.Forbidden(path.Child("ephemeralContainers"), "cannot be set on create"))
	}
	if spec.NodeName != "" && len(spec.SchedulingGates) > 0 {
		errs = append(errs, field.Forbidden(path.Child("nodeName"), "cannot be set until all schedulingGates have been cleared"))
	}
	return append(errs, matchAnnotations(meta.Annotations, spec, path)...)
}

// validateNames checks what names other objects, or the pod itself in DNS.
func (s *scope) validateNames(path *field.Path) field.ErrorList {
	spec := s.spec
	var errs field.ErrorList
	name := func(field, value string, valid func(string, bool) []string) {
		if value != "" {
			errs = append(errs, check.Each(valid(value, false), value, path.Child(field))...)
		}
	}
	if name := spec.HostnameOverride; name != nil {
		errs = append(errs, validateHostnameOverride(spec, *name, path.Child("hostnameOverride"))...)
	}
	name("serviceAccountName", spec.ServiceAccountName, apivalidation.ValidateServiceAccountName)
	name("nodeName", spec.NodeName, apivalidation.NameIsDNSSubdomain)
	if n := spec.ActiveDeadlineSeconds; n != nil && (*n < 1 || *n > math.MaxInt32) {
		errs = append(errs, field.Invalid(path.Child("activeDeadlineSeconds"), *n, validation.InclusiveRangeError(1, math.MaxInt32)))
	}
	name("hostname", spec.Hostname, apivalidation.NameIsDNSLabel)
	name("subdomain", spec.Subdomain, apivalidation.NameIsDNSLabel)
	errs = append(errs, Tolerations(spec.Tolerations, path.Child("tolerations"))...)
	errs = append(errs, validateHostAliases(spec.HostAliases, path.Child("hostAliases"))...)
	name("priorityClassName", spec.PriorityClassName, apivalidation.NameIsDNSSubdomain)
	if name := spec.RuntimeClassName; name != nil {
		errs = append(errs, check.Subdomain(*name, path.Child("runtimeClassName"))...)
	}
	if p := spec.PreemptionPolicy; p != nil {
		errs = append(errs, check.ListedChoice(*p, path.Child("preemptionPolicy"), corev1.PreemptLowerPriority, corev1.PreemptNever)...)
	}
	return append(errs, validateRequirements(&corev1.ResourceRequirements{Limits: spec.Overhead}, nil, path.Child("overhead"))...)
}

// longestHostname is that of Linux.
const longestHostname = 64

func validateHostnameOverride(spec *corev1.PodSpec, name string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if spec.SetHostnameAsFQDN != nil && *spec.SetHostnameAsFQDN {
		errs = append(errs, field.Forbidden(path, "may not be specified when setHostnameAsFQDN is true"))
	}
	if spec.HostNetwork {
		errs = append(errs, field.Forbidden(path, "may not be specified when hostNetwork is true"))
	}
	if len(name) > longestHostname {
		errs = append(errs, field.TooLong(path, name, longestHostname))
	}
	return append(errs, check.Subdomain(name, path)...)
}

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
