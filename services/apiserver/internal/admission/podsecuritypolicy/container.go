package podsecuritypolicy

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func (p *policy) checkContainers(pod *corev1.Pod) (errs field.ErrorList) {
	own := corev1.PodSecurityContext{}
	if pod.Spec.SecurityContext != nil {
		own = *pod.Spec.SecurityContext
	}
	each(pod, func(c *corev1.Container, path *field.Path) {
		effective := corev1.SecurityContext{}
		if c.SecurityContext != nil {
			effective = *c.SecurityContext
		}
		inherit(&effective, &own)
		path = path.Child("securityContext")
		errs = append(errs, p.checkUser(&effective, path)...)
		errs = append(errs, p.checkPower(&effective, path)...)
		errs = append(errs, p.checkCapabilities(effective.Capabilities, path.Child("capabilities"))...)
		errs = append(errs, p.checkProfiles(&effective, path)...)
		errs = append(errs, p.checkHostPorts(c.Ports)...)
	})
	return errs
}

// inherit gives a container what the pod says of all.
func inherit(c *corev1.SecurityContext, pod *corev1.PodSecurityContext) {
	if c.RunAsUser == nil {
		c.RunAsUser = pod.RunAsUser
	}
	if c.RunAsGroup == nil {
		c.RunAsGroup = pod.RunAsGroup
	}
	if c.RunAsNonRoot == nil {
		c.RunAsNonRoot = pod.RunAsNonRoot
	}
	if c.SeccompProfile == nil {
		c.SeccompProfile = pod.SeccompProfile
	}
	if c.AppArmorProfile == nil {
		c.AppArmorProfile = pod.AppArmorProfile
	}
}

func (p *policy) checkUser(c *corev1.SecurityContext, path *field.Path) (errs field.ErrorList) {
	user := path.Child("runAsUser")
	switch {
	case p.RunAsUser.Rule == mustRunAs && c.RunAsUser == nil:
		errs = append(errs, field.Required(user, ""))
	case p.RunAsUser.Rule == mustRunAs && !contains(p.RunAsUser.Ranges, *c.RunAsUser):
		errs = append(errs, field.Invalid(user, *c.RunAsUser, fmt.Sprintf("must be in the ranges: %v", p.RunAsUser.Ranges)))
	case p.RunAsUser.Rule == mustRunAsNonRoot && c.RunAsNonRoot != nil && !*c.RunAsNonRoot:
		errs = append(errs, field.Invalid(path.Child("runAsNonRoot"), false, "must be true"))
	case p.RunAsUser.Rule == mustRunAsNonRoot && c.RunAsUser == nil && c.RunAsNonRoot == nil:
		errs = append(errs, field.Required(path.Child("runAsNonRoot"), "must be true"))
	case p.RunAsUser.Rule == mustRunAsNonRoot && c.RunAsUser != nil && *c.RunAsUser == 0:
		errs = append(errs, field.Invalid(user, *c.RunAsUser, "running with the root UID is forbidden"))
	}
	group := path.Child("runAsGroup")
	switch g := p.RunAsGroup; {
	case g == nil || g.Rule != mustRunAs && g.Rule != mayRunAs:
	case c.RunAsGroup == nil && g.Rule == mustRunAs:
		errs = append(errs, field.Required(group, ""))
	case c.RunAsGroup != nil && !contains(g.Ranges, *c.RunAsGroup):
		errs = append(errs, field.Invalid(group, *c.RunAsGroup, fmt.Sprintf("must be in the ranges: %v", g.Ranges)))
	}
	return errs
}

func (p *policy) checkPower(c *corev1.SecurityContext, path *field.Path) (errs field.ErrorList) {
	if c.Privileged != nil && *c.Privileged && !p.Privileged {
		errs = append(errs, field.Invalid(path.Child("privileged"), true, "Privileged containers are not allowed"))
	}
	if p.ReadOnlyRootFilesystem {
		switch {
		case c.ReadOnlyRootFilesystem == nil:
			errs = append(errs, field.Required(path.Child("readOnlyRootFilesystem"), "ReadOnlyRootFilesystem may not be nil and must be set to true"))
		case !*c.ReadOnlyRootFilesystem:
			errs = append(errs, field.Invalid(path.Child("readOnlyRootFilesystem"), false, "ReadOnlyRootFilesystem must be set to true"))
		}
	}
	if p.AllowPrivilegeEscalation != nil && !*p.AllowPrivilegeEscalation && (c.AllowPrivilegeEscalation == nil || *c.AllowPrivilegeEscalation) {
		errs = append(errs, field.Invalid(path.Child("allowPrivilegeEscalation"), true, "Allowing privilege escalation for containers is not allowed"))
	}
	if c.ProcMount != nil && *c.ProcMount != corev1.DefaultProcMount && !has(p.AllowedProcMountTypes, *c.ProcMount) {
		errs = append(errs, field.Invalid(path.Child("procMount"), *c.ProcMount, "ProcMountType is not allowed"))
	}
	return errs
}

func (p *policy) checkCapabilities(c *corev1.Capabilities, path *field.Path) (errs field.ErrorList) {
	if c == nil {
		c = &corev1.Capabilities{}
	}
	if !slices.Contains(p.AllowedCapabilities, corev1.Capability("*")) {
		for _, one := range c.Add {
			if !slices.Contains(p.AllowedCapabilities, one) && !slices.Contains(p.DefaultAddCapabilities, one) {
				errs = append(errs, field.Invalid(path.Child("add"), one, "capability may not be added"))
			}
		}
	}
	for _, one := range p.RequiredDropCapabilities {
		if !slices.Contains(c.Drop, one) {
			errs = append(errs, field.Invalid(path.Child("drop"), c.Drop, string(one)+" is required to be dropped but was not found"))
		}
	}
	return errs
}

func (p *policy) checkProfiles(c *corev1.SecurityContext, path *field.Path) (errs field.ErrorList) {
	for _, profile := range []struct {
		field, title, allowed, fallback, got string
	}{
		{"seccompProfile", "seccomp", p.annotations[seccompAllowed], p.annotations[seccompDefault], seccompName(c.SeccompProfile)},
		{"appArmorProfile", "AppArmor", p.annotations[appArmorAllowed], "", appArmorName(c.AppArmorProfile)},
	} {
		allowed := strings.FieldsFunc(profile.allowed, func(r rune) bool { return r == ',' || r == ' ' })
		switch {
		case profile.got == "" || has(allowed, profile.got) || profile.got == profile.fallback:
		case profile.title == "AppArmor" && len(allowed) == 0: // a policy that names none leaves AppArmor alone
		case profile.got == noProfile && len(allowed) == 0:
		default:
			errs = append(errs, field.Forbidden(path.Child(profile.field),
				fmt.Sprintf("%s is not an allowed %s profile. Valid values are %v", profile.got, profile.title, strings.Join(allowed, ","))))
		}
	}
	return errs
}

func (p *policy) checkHostPorts(ports []corev1.ContainerPort) (errs field.ErrorList) {
	for _, port := range ports {
		if port.HostPort > 0 && !contains(p.HostPorts, int64(port.HostPort)) {
			errs = append(errs, field.Invalid(specPath.Child("containers", "ports", "hostPort"), port.HostPort,
				fmt.Sprintf("Host port %d is not allowed to be used. Allowed ports: %v", port.HostPort, p.HostPorts)))
		}
	}
	return errs
}
