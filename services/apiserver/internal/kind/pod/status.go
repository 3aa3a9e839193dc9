package pod

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	utilnet "k8s.io/utils/net"

	"howdah.dev/services/apiserver/internal/kind/check"
	"howdah.dev/services/apiserver/internal/kind/podspec"
)

func validateStatusUpdate(p, old *corev1.Pod) field.ErrorList {
	s, path := &p.Status, field.NewPath("status")
	var errs field.ErrorList
	for i, c := range s.Conditions {
		at := path.Child("conditions").Index(i)
		errs = append(errs, validateObserved(c.ObservedGeneration, at.Child("observedGeneration"))...)
		errs = append(errs, check.QualifiedName(string(c.Type), at.Child("Type"))...)
	}
	if p.Spec.NodeName != old.Spec.NodeName {
		errs = append(errs, field.Forbidden(path.Child("nodeName"), "may not be changed directly"))
	}
	if s.NominatedNodeName != "" {
		errs = append(errs, check.Subdomain(s.NominatedNodeName, path.Child("nominatedNodeName"))...)
	}
	errs = append(errs, validateObserved(s.ObservedGeneration, path.Child("observedGeneration"))...)
	errs = append(errs, validateTransition(s.ContainerStatuses, old.Status.ContainerStatuses,
		func(string) corev1.RestartPolicy { return p.Spec.RestartPolicy }, path.Child("containerStatuses"))...)
	initPolicy := initPolicies(&p.Spec)
	errs = append(errs, validateTransition(s.InitContainerStatuses, old.Status.InitContainerStatuses, initPolicy, path.Child("initContainerStatuses"))...)
	errs = append(errs, validateTransition(s.EphemeralContainerStatuses, old.Status.EphemeralContainerStatuses,
		func(string) corev1.RestartPolicy { return corev1.RestartPolicyNever }, path.Child("ephemeralContainerStatuses"))...)
	if s.QOSClass != old.Status.QOSClass && old.Status.QOSClass != "" {
		errs = append(errs, field.Invalid(path.Child("qosClass"), s.QOSClass, check.Immutable))
	}
	errs = append(errs, validateClaimStatuses(p, path)...)
	errs = append(errs, validateIPs(s, path)...)
	for _, list := range statusLists(s) {
		errs = append(errs, validateUsers(list.statuses, path.Child(list.name))...)
	}
	errs = append(errs, validateHealth(s.ContainerStatuses, p.Spec.Containers, path.Child("containerStatuses"))...)
	errs = append(errs, validateHealth(s.InitContainerStatuses, p.Spec.InitContainers, path.Child("initContainerStatuses"))...)
	for i, c := range s.EphemeralContainerStatuses {
		if len(c.AllocatedResourcesStatus) > 0 {
			errs = append(errs, field.Forbidden(path.Child("ephemeralContainerStatuses").Index(i).Child("allocatedResourcesStatus"),
				"must not be specified in container status"))
		}
	}
	return errs
}

func validateObserved(generation int64, path *field.Path) field.ErrorList {
	if generation < 0 {
		return field.ErrorList{field.Invalid(path, generation, "must be a non-negative integer")}
	}
	return nil
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
	var ips, hosts []string
	for _, ip := range s.PodIPs {
		ips = append(ips, ip.IP)
	}
	for _, ip := range s.HostIPs {
		hosts = append(hosts, ip.IP)
	}
	errs := addresses(ips, s.PodIPs, path.Child("podIPs"))
	if len(hosts) > 0 && s.HostIP != hosts[0] {
		errs = append(errs, field.Invalid(path.Child("hostIPs").Index(0).Child("ip"), hosts[0], "must be equal to `hostIP`"))
	}
	return append(errs, addresses(hosts, s.HostIPs, path.Child("hostIPs"))...)
}

// addresses wants at most one address a family; list is what they are from.
func addresses(ips []string, list any, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, ip := range ips {
		errs = append(errs, validation.IsValidIPForLegacyField(path.Index(i), ip, true, nil)...)
	}
	if len(ips) < 2 {
		return errs
	}
	families := map[bool]bool{}
	for i, ip := range ips {
		parsed := utilnet.ParseIPSloppy(ip)
		if parsed == nil {
			families = nil
			errs = append(errs, field.InternalError(path, fmt.Errorf("failed to check for dual stack with error:invalid IP[%d]: %s", i, ip)))
			break
		}
		families[parsed.To4() != nil] = true
	}
	if len(ips) > 2 || len(families) != 2 {
		errs = append(errs, field.Invalid(path, list, "may specify no more than one IP for each IP family"))
	}
	return errs
}
