package podspec

import (
	"regexp"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"howdah.dev/kit/check"
)

// The bounds of what Windows takes, as Microsoft documents them.
const (
	longestCredential = 64 * 1024
	longestDomain     = 256
	longestUser       = 104
	// notInUsers are the characters that user names may not have.
	notInUsers = `"/\:;|=,+*?<>@[]`
)

// The two forms of the name of a domain.
var (
	netBIOS   = regexp.MustCompile(`^[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}$`)
	dnsDomain = regexp.MustCompile(`^[a-zA-Z0-9](?:[-.a-zA-Z0-9]*[a-zA-Z0-9])?$`)
)

// validateWindowsOptions checks the options that only containers on Windows have.
func validateWindowsOptions(o *corev1.WindowsSecurityContextOptions, path *field.Path) field.ErrorList {
	if o == nil {
		return nil
	}
	var errs field.ErrorList
	if name := o.GMSACredentialSpecName; name != nil {
		errs = append(errs, check.Subdomain(*name, path.Child("gmsaCredentialSpecName"))...)
	}
	if text := o.GMSACredentialSpec; text != nil {
		at := path.Child("gmsaCredentialSpec")
		switch {
		case *text == "":
			errs = append(errs, field.Invalid(at, *text, "gmsaCredentialSpec cannot be an empty string"))
		case len(*text) > longestCredential:
			errs = append(errs, field.Invalid(at, *text, "gmsaCredentialSpec size must be under 64 KiB"))
		}
	}
	if name := o.RunAsUserName; name != nil {
		for _, wrong := range windowsUser(*name) {
			errs = append(errs, field.Invalid(path.Child("runAsUserName"), *name, wrong))
		}
	}
	return errs
}

// windowsUser says what is wrong with USER or DOMAIN\USER.
func windowsUser(name string) []string {
	switch {
	case name == "":
		return []string{"runAsUserName cannot be an empty string"}
	case strings.ContainsFunc(name, unicode.IsControl):
		return []string{"runAsUserName cannot contain control characters"}
	case strings.Count(name, `\`) > 1:
		return []string{"runAsUserName cannot contain more than one backslash"}
	}
	var wrong []string
	domain, user, ok := strings.Cut(name, `\`)
	if !ok {
		user = name
	}
	if ok && len(domain) >= longestDomain {
		wrong = append(wrong, "runAsUserName's Domain length must be under 256 characters")
	}
	if ok && !netBIOS.MatchString(domain) && (len(domain) >= longestDomain || !dnsDomain.MatchString(domain)) {
		wrong = append(wrong, "runAsUserName's Domain doesn't match the NetBios nor the DNS format")
	}
	switch {
	case user == "":
		wrong = append(wrong, "runAsUserName's User cannot be empty")
	case len(user) > longestUser:
		wrong = append(wrong, "runAsUserName's User length must not be longer than 104 characters")
	}
	if user != "" && strings.Trim(user, ". ") == "" {
		wrong = append(wrong, "runAsUserName's User cannot contain only periods or spaces")
	}
	if strings.ContainsAny(user, notInUsers) {
		wrong = append(wrong, "runAsUserName's User cannot contain the following characters: "+notInUsers)
	}
	return wrong
}

// validateHostProcess wants containers that are processes of a Windows host to be all of a pod, and in the network of the host.
func validateHostProcess(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	var pod *bool
	if c := spec.SecurityContext; c != nil && c.WindowsOptions != nil {
		pod = c.WindowsOptions.HostProcess
	}
	some, all := false, true
	one := func(c *corev1.SecurityContext, at *field.Path) {
		own := pod
		if c != nil && c.WindowsOptions != nil && c.WindowsOptions.HostProcess != nil {
			own = c.WindowsOptions.HostProcess
			if pod != nil && *pod != *own {
				errs = append(errs, field.Invalid(at.Child("securityContext", "windowsOptions", "hostProcess"), *own,
					"pod hostProcess value must be identical if both are specified, was "+map[bool]string{true: "true", false: "false"}[*pod]))
			}
		}
		some, all = some || ptr.Deref(own, false), all && ptr.Deref(own, false)
	}
	for i := range spec.Containers {
		one(spec.Containers[i].SecurityContext, path.Child("containers").Index(i))
	}
	for i := range spec.InitContainers {
		one(spec.InitContainers[i].SecurityContext, path.Child("initContainers").Index(i))
	}
	for i := range spec.EphemeralContainers {
		one(spec.EphemeralContainers[i].SecurityContext, path.Child("ephemeralContainers").Index(i))
	}
	if !some {
		return errs
	}
	if !all && len(errs) == 0 {
		errs = append(errs, field.Invalid(path, "", "If pod contains any hostProcess containers then all containers must be HostProcess containers"))
	}
	if !spec.HostNetwork {
		errs = append(errs, field.Invalid(path.Child("hostNetwork"), spec.HostNetwork, "hostNetwork must be true if pod contains any hostProcess containers"))
	}
	return errs
}

// NotOnWindows is what is told of a field that only Linux has.
const NotOnWindows = "cannot be set for a windows pod"

// written is a field, and whether it has a value.
type written struct {
	name  string
	isSet bool
}

// refused returns an error for each field that has a value.
func refused(path *field.Path, fields []written) field.ErrorList {
	var errs field.ErrorList
	for _, f := range fields {
		if f.isSet {
			errs = append(errs, field.Forbidden(path.Child(f.name), NotOnWindows))
		}
	}
	return errs
}

// validateWindows refuses what Windows does not have.
func validateWindows(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	c := spec.SecurityContext
	if c == nil {
		c = &corev1.PodSecurityContext{}
	}
	at := path.Child("securityContext")
	errs := refused(at, []written{{"appArmorProfile", c.AppArmorProfile != nil}, {"seLinuxOptions", c.SELinuxOptions != nil}})
	errs = append(errs, refused(path, []written{{"hostUsers", spec.HostUsers != nil}, {"hostPID", spec.HostPID}, {"hostIPC", spec.HostIPC}})...)
	errs = append(errs, refused(at, []written{
		{"seccompProfile", c.SeccompProfile != nil}, {"fsGroup", c.FSGroup != nil}, {"fsGroupChangePolicy", c.FSGroupChangePolicy != nil},
		{"sysctls", len(c.Sysctls) > 0},
	})...)
	errs = append(errs, refused(path, []written{{"shareProcessNamespace", spec.ShareProcessNamespace != nil}})...)
	errs = append(errs, refused(at, []written{
		{"runAsUser", c.RunAsUser != nil}, {"runAsGroup", c.RunAsGroup != nil}, {"supplementalGroups", c.SupplementalGroups != nil},
		{"supplementalGroupsPolicy", c.SupplementalGroupsPolicy != nil}, {"seLinuxChangePolicy", c.SELinuxChangePolicy != nil},
	})...)
	eachContainer(spec, path, func(_ string, c *corev1.SecurityContext, at *field.Path) {
		if c == nil {
			return
		}
		errs = append(errs, refused(at.Child("securityContext"), []written{
			{"appArmorProfile", c.AppArmorProfile != nil}, {"seLinuxOptions", c.SELinuxOptions != nil}, {"seccompProfile", c.SeccompProfile != nil},
			{"capabilities", c.Capabilities != nil}, {"readOnlyRootFilesystem", c.ReadOnlyRootFilesystem != nil}, {"privileged", c.Privileged != nil},
			{"allowPrivilegeEscalation", c.AllowPrivilegeEscalation != nil}, {"procMount", c.ProcMount != nil}, {"runAsUser", c.RunAsUser != nil},
			{"runAsGroup", c.RunAsGroup != nil},
		})...)
	})
	return errs
}
