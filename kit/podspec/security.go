package podspec

import (
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/component-helpers/node/util/sysctl"

	"howdah.dev/kit/check"
)

func validatePodSecurity(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	c := spec.SecurityContext
	if c == nil {
		return validateShared(spec, path.Child("shareProcessNamespace"))
	}
	var errs field.ErrorList
	if c.FSGroup != nil {
		errs = append(errs, check.Each(validation.IsValidGroupID(*c.FSGroup), *c.FSGroup, path.Child("fsGroup"))...)
	}
	errs = append(errs, validateUser(c.RunAsUser, c.RunAsGroup, path)...)
	for i, g := range c.SupplementalGroups {
		errs = append(errs, check.Each(validation.IsValidGroupID(g), g, path.Child("supplementalGroups").Index(i))...)
	}
	errs = append(errs, validateShared(spec, path.Child("shareProcessNamespace"))...)
	errs = append(errs, validateSysctls(c.Sysctls, spec, path.Child("sysctls"))...)
	if p := c.FSGroupChangePolicy; p != nil {
		errs = append(errs, check.OneOf(*p, path.Child("fsGroupChangePolicy"), corev1.FSGroupChangeOnRootMismatch, corev1.FSGroupChangeAlways)...)
	}
	errs = append(errs, validateSeccomp(c.SeccompProfile, path.Child("seccompProfile"))...)
	errs = append(errs, validateWindowsOptions(c.WindowsOptions, path.Child("windowsOptions"))...)
	errs = append(errs, validateAppArmor(c.AppArmorProfile, path.Child("appArmorProfile"))...)
	if p := c.SupplementalGroupsPolicy; p != nil {
		errs = append(errs, check.OneOf(*p, path.Child("supplementalGroupsPolicy"), corev1.SupplementalGroupsPolicyMerge, corev1.SupplementalGroupsPolicyStrict)...)
	}
	if p := c.SELinuxChangePolicy; p != nil {
		errs = append(errs, check.OneOf(*p, path.Child("seLinuxChangePolicy"), corev1.SELinuxChangePolicyRecursive)...)
	}
	return errs
}

func validateUser(user, group *int64, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if user != nil {
		errs = append(errs, check.Each(validation.IsValidUserID(*user), *user, path.Child("runAsUser"))...)
	}
	if group != nil {
		errs = append(errs, check.Each(validation.IsValidGroupID(*group), *group, path.Child("runAsGroup"))...)
	}
	return errs
}

// validateSecurity checks a container's security context.
func (s *scope) validateSecurity(c *corev1.SecurityContext, path *field.Path) field.ErrorList {
	if c == nil {
		return nil
	}
	errs := validateUser(c.RunAsUser, c.RunAsGroup, path)
	if p := c.ProcMount; p != nil {
		errs = append(errs, check.OneOf(*p, path.Child("procMount"), corev1.DefaultProcMount, corev1.UnmaskedProcMount)...)
		if *p == corev1.UnmaskedProcMount && (s.spec.HostUsers == nil || *s.spec.HostUsers) {
			errs = append(errs, field.Invalid(path.Child("procMount"), *p, "`hostUsers` must be false to use `Unmasked`"))
		}
	}
	errs = append(errs, validateSeccomp(c.SeccompProfile, path.Child("seccompProfile"))...)
	if escalation := c.AllowPrivilegeEscalation; escalation != nil && !*escalation {
		if c.Privileged != nil && *c.Privileged {
			errs = append(errs, field.Invalid(path, c, "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"))
		}
		if c.Capabilities != nil && slices.Contains(c.Capabilities.Add, "CAP_SYS_ADMIN") {
			errs = append(errs, field.Invalid(path, c, "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"))
		}
	}
	errs = append(errs, validateWindowsOptions(c.WindowsOptions, path.Child("windowsOptions"))...)
	return append(errs, validateAppArmor(c.AppArmorProfile, path.Child("appArmorProfile"))...)
}

func validateSeccomp(p *corev1.SeccompProfile, path *field.Path) field.ErrorList {
	if p == nil {
		return nil
	}
	var errs field.ErrorList
	if p.Type == "" {
		errs = append(errs, field.Required(path.Child("type"), "type is required when seccompProfile is set"))
	} else {
		errs = check.OneOf(p.Type, path.Child("type"),
			corev1.SeccompProfileTypeLocalhost, corev1.SeccompProfileTypeRuntimeDefault, corev1.SeccompProfileTypeUnconfined)
	}
	at := path.Child("localhostProfile")
	switch local := p.Type == corev1.SeccompProfileTypeLocalhost; {
	case local && p.LocalhostProfile == nil:
		errs = append(errs, field.Required(at, "must be set when seccomp type is Localhost"))
	case local:
		errs = append(errs, check.RelativePath(*p.LocalhostProfile, at)...)
	case p.LocalhostProfile != nil:
		errs = append(errs, field.Invalid(at, *p, "can only be set when seccomp type is Localhost"))
	}
	return errs
}

const longestProfile = 4095

func validateAppArmor(p *corev1.AppArmorProfile, path *field.Path) field.ErrorList {
	if p == nil {
		return nil
	}
	if p.Type == "" {
		return field.ErrorList{field.Required(path.Child("type"), "type is required when appArmorProfile is set")}
	}
	errs := check.OneOf(p.Type, path.Child("type"),
		corev1.AppArmorProfileTypeLocalhost, corev1.AppArmorProfileTypeRuntimeDefault, corev1.AppArmorProfileTypeUnconfined)
	if len(errs) > 0 {
		return errs
	}
	at := path.Child("localhostProfile")
	if p.Type != corev1.AppArmorProfileTypeLocalhost {
		if p.LocalhostProfile != nil {
			errs = append(errs, field.Invalid(at, *p.LocalhostProfile, "can only be set when AppArmor type is Localhost"))
		}
		return errs
	}
	if p.LocalhostProfile == nil {
		return append(errs, field.Required(at, "must be set when AppArmor type is Localhost"))
	}
	name := *p.LocalhostProfile
	switch {
	case strings.TrimSpace(name) != name:
		errs = append(errs, field.Invalid(at, name, "must not be padded with whitespace"))
	case name == "":
		errs = append(errs, field.Required(at, "must be set when AppArmor type is Localhost"))
	}
	if len(name) > longestProfile {
		errs = append(errs, field.TooLong(at, name, longestProfile))
	}
	return errs
}

const (
	longestSysctl  = 253
	sysctlSegment  = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
	sysctlContains = "(" + sysctlSegment + `[\./])*` + sysctlSegment
)

var sysctlName = regexp.MustCompile("^" + sysctlContains + "$")

func validateSysctls(list []corev1.Sysctl, spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, s := range list {
		at := path.Index(i).Child("name")
		dotted := strings.ReplaceAll(s.Name, "/", ".")
		switch {
		case s.Name == "":
			errs = append(errs, field.Required(at, ""))
		case len(s.Name) > longestSysctl || !sysctlName.MatchString(s.Name):
			errs = append(errs, field.Invalid(at, s.Name, "must have at most 253 characters and match regex ^"+sysctlContains+"$"))
		case seen[dotted]:
			errs = append(errs, field.Duplicate(at, s.Name))
		}
		seen[dotted] = true
		space, _, _ := sysctl.GetNamespace(s.Name)
		if spec.HostNetwork && space == sysctl.NetNamespace {
			errs = append(errs, field.Invalid(at, s.Name, "may not be specified when 'hostNetwork' is true"))
		}
		if spec.HostIPC && space == sysctl.IPCNamespace {
			errs = append(errs, field.Invalid(at, s.Name, "may not be specified when 'hostIPC' is true"))
		}
	}
	return errs
}
