package pod

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	utilnet "k8s.io/utils/net"

	"howdah.dev/kit/check"
	"howdah.dev/kit/podspec"
)

func validateStatusUpdate(p, old *corev1.Pod) field.ErrorList {
	s, path := &p.Status, field.NewPath("status")
	errs := validateAnnotationsUpdate(p, old)
	for i, c := range s.Conditions {
		at := path.Child("conditions").Index(i)
		errs = append(errs, validateObserved(c.ObservedGeneration, at.Child("observedGeneration"))...)
		errs = append(errs, check.QualifiedName(string(c.Type), at.Child("Type"))...)
	}
	if p.Spec.NodeName != old.Spec.NodeName {
		errs = append(errs, field.Forbidden(path.Child("nodeName"), "may not be changed directly"))
	}
	if s.NominatedNodeName != "" && s.NominatedNodeName != old.Status.NominatedNodeName {
		errs = append(errs, check.Subdomain(s.NominatedNodeName, path.Child("nominatedNodeName"))...)
		if old.Spec.NodeName != "" {
			errs = append(errs, field.Forbidden(path.Child("nominatedNodeName"), "may not be set on pods that are already bound to a node"))
		}
	}
	errs = append(errs, validateObserved(s.ObservedGeneration, path.Child("observedGeneration"))...)
	if !podspec.RestartsAll(&p.Spec) {
		errs = append(errs, validateTransition(s.ContainerStatuses, old.Status.ContainerStatuses, restarts(&p.Spec, p.Spec.Containers), path.Child("containerStatuses"))...)
		errs = append(errs, validateTransition(s.InitContainerStatuses, old.Status.InitContainerStatuses, restarts(&p.Spec, p.Spec.InitContainers), path.Child("initContainerStatuses"))...)
	}
	errs = append(errs, validateTransition(s.EphemeralContainerStatuses, old.Status.EphemeralContainerStatuses,
		func(string, int32) bool { return false }, path.Child("ephemeralContainerStatuses"))...)
	if s.QOSClass != old.Status.QOSClass && old.Status.QOSClass != "" {
		errs = append(errs, field.Invalid(path.Child("qosClass"), s.QOSClass, check.Immutable))
	}
	errs = append(errs, validateClaimStatuses(p, path)...)
	errs = append(errs, validateIPs(s, path)...)
	for _, list := range statusLists(s) {
		errs = append(errs, validateUsers(list.statuses, onWindows(p), path.Child(list.name))...)
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

// restarts tells of a container that has ended with a code whether it may come back: what is not in the list may not.
func restarts(spec *corev1.PodSpec, list []corev1.Container) func(name string, code int32) bool {
	return func(name string, code int32) bool {
		i := slices.IndexFunc(list, func(c corev1.Container) bool { return c.Name == name })
		return i >= 0 && podspec.Restarts(&list[i], spec.RestartPolicy, code)
	}
}

// validateTransition refuses that a container which does not restart comes back to life. It is told at its place in the stored list.
func validateTransition(now, was []corev1.ContainerStatus, restarts func(name string, code int32) bool, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range was {
		ended := was[i].State.Terminated
		if ended == nil {
			continue
		}
		back := slices.ContainsFunc(now, func(n corev1.ContainerStatus) bool { return n.Name == was[i].Name && n.State.Terminated == nil })
		if back && !restarts(was[i].Name, ended.ExitCode) {
			errs = append(errs, field.Forbidden(path.Index(i).Child("state"), "may not be transitioned to non-terminated state"))
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
