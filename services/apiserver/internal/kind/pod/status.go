package pod

import (
	"net"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/services/apiserver/internal/kind/check"
	"howdah.dev/services/apiserver/internal/kind/podspec"
)

func validateStatusUpdate(p, old *corev1.Pod) field.ErrorList {
	s, path := &p.Status, field.NewPath("status")
	var errs field.ErrorList
	if p.Spec.NodeName != old.Spec.NodeName {
		errs = append(errs, field.Forbidden(path.Child("nodeName"), "may not be changed directly"))
	}
	if s.NominatedNodeName != "" {
		errs = append(errs, check.Subdomain(s.NominatedNodeName, path.Child("nominatedNodeName"))...)
	}
	errs = append(errs, check.NonNegative(s.ObservedGeneration, path.Child("observedGeneration"))...)
	for i, c := range s.Conditions {
		errs = append(errs, check.NonNegative(c.ObservedGeneration, path.Child("conditions").Index(i).Child("observedGeneration"))...)
	}
	errs = append(errs, validateTransition(s.ContainerStatuses, old.Status.ContainerStatuses,
		func(string) corev1.RestartPolicy { return p.Spec.RestartPolicy }, path.Child("containerStatuses"))...)
	initPolicy := initPolicies(&p.Spec)
	errs = append(errs, validateTransition(s.InitContainerStatuses, old.Status.InitContainerStatuses, initPolicy, path.Child("initContainerStatuses"))...)
	errs = append(errs, validateTransition(s.EphemeralContainerStatuses, old.Status.EphemeralContainerStatuses,
		func(string) corev1.RestartPolicy { return corev1.RestartPolicyNever }, path.Child("ephemeralContainerStatuses"))...)
	if s.QOSClass != old.Status.QOSClass && old.Status.QOSClass != "" {
		errs = append(errs, field.Invalid(path.Child("qosClass"), s.QOSClass, check.Immutable))
	}
	return append(errs, validateIPs(s, path)...)
}

// initPolicies tells how each init container restarts: sidecars always, the
// others as the pod, where Always means until they succeed.
func initPolicies(spec *corev1.PodSpec) func(string) corev1.RestartPolicy {
	return func(name string) corev1.RestartPolicy {
		for i := range spec.InitContainers {
			if c := &spec.InitContainers[i]; c.Name == name && podspec.Sidecar(c) {
				return corev1.RestartPolicyAlways
			}
		}
		return spec.RestartPolicy
	}
}

// validateTransition refuses that a container which does not restart comes back to life.
func validateTransition(now, was []corev1.ContainerStatus, policy func(string) corev1.RestartPolicy, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range was {
		o := &was[i]
		rule := policy(o.Name)
		t := o.State.Terminated
		if t == nil || rule == corev1.RestartPolicyAlways || rule == corev1.RestartPolicyOnFailure && t.ExitCode != 0 {
			continue
		}
		for j := range now {
			if n := &now[j]; n.Name == o.Name && n.State.Terminated == nil {
				errs = append(errs, field.Forbidden(path.Index(j).Child("state"), "may not be transitioned to non-terminated state"))
			}
		}
	}
	return errs
}

func validateIPs(s *corev1.PodStatus, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	var ips, hosts []string
	for _, ip := range s.PodIPs {
		ips = append(ips, ip.IP)
	}
	for _, ip := range s.HostIPs {
		hosts = append(hosts, ip.IP)
	}
	errs = append(errs, addresses(ips, "podIPs", path)...)
	errs = append(errs, addresses(hosts, "hostIPs", path)...)
	if len(hosts) > 0 && s.HostIP != "" && s.HostIP != hosts[0] {
		errs = append(errs, field.Invalid(path.Child("hostIPs").Index(0).Child("ip"), hosts[0], "must be equal to `hostIP`"))
	}
	if len(ips) > 0 && s.PodIP != "" && s.PodIP != ips[0] {
		errs = append(errs, field.Invalid(path.Child("podIPs").Index(0).Child("ip"), ips[0], "must be equal to `podIP`"))
	}
	return errs
}

// addresses wants at most one address a family.
func addresses(ips []string, name string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	at := path.Child(name)
	families := map[bool]bool{}
	seen := map[string]bool{}
	for i, ip := range ips {
		errs = append(errs, validation.IsValidIPForLegacyField(at.Index(i), ip, false, nil)...)
		if seen[ip] {
			errs = append(errs, field.Duplicate(at.Index(i), ip))
		}
		seen[ip] = true
		if parsed := net.ParseIP(ip); parsed != nil {
			families[parsed.To4() != nil] = true
		}
	}
	if len(ips) > 2 || len(ips) == 2 && len(errs) == 0 && len(families) != 2 {
		errs = append(errs, field.Invalid(at, ips, "may specify no more than one IP for each IP family"))
	}
	return errs
}
