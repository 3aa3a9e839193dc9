package podsecuritypolicy

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// checks are what a policy demands of a pod, a function a subject.
var checks = []func(*policy, *corev1.Pod) field.ErrorList{
	(*policy).checkNamespaces, (*policy).checkGroups, (*policy).checkSELinux, (*policy).checkVolumes, (*policy).checkSysctls,
	(*policy).checkRuntimeClass, (*policy).checkContainers,
}

// check returns all that keeps the policy from admitting the pod.
func (p *policy) check(pod *corev1.Pod) (errs field.ErrorList) {
	for _, one := range checks {
		errs = append(errs, one(p, pod)...)
	}
	return errs
}

var (
	specPath = field.NewPath("spec")
	podPath  = specPath.Child("securityContext")
)

func (p *policy) checkNamespaces(pod *corev1.Pod) (errs field.ErrorList) {
	for _, n := range []struct {
		name, title   string
		used, allowed bool
	}{
		{"hostNetwork", "Host network", pod.Spec.HostNetwork, p.HostNetwork},
		{"hostPID", "Host PID", pod.Spec.HostPID, p.HostPID},
		{"hostIPC", "Host IPC", pod.Spec.HostIPC, p.HostIPC},
	} {
		if n.used && !n.allowed {
			errs = append(errs, field.Invalid(podPath.Child(n.name), true, n.title+" is not allowed to be used"))
		}
	}
	return errs
}

// checkGroups sees the groups that all containers have.
func (p *policy) checkGroups(pod *corev1.Pod) (errs field.ErrorList) {
	var supplemental, fsGroup []int64
	if c := pod.Spec.SecurityContext; c != nil {
		supplemental = c.SupplementalGroups
		if c.FSGroup != nil {
			fsGroup = []int64{*c.FSGroup}
		}
	}
	errs = append(errs, p.SupplementalGroups.checkGroups(supplemental, podPath.Child("supplementalGroups"), "unable to validate empty groups against required ranges")...)
	return append(errs, p.FSGroup.checkGroups(fsGroup, podPath.Child("fsGroup"), "unable to validate empty groups against required ranges")...)
}

// checkGroups demands groups where the rule is MustRunAs, and that those that there are lie in the ranges.
func (i *identity) checkGroups(groups []int64, path *field.Path, none string) (errs field.ErrorList) {
	if i.Rule != mustRunAs && i.Rule != mayRunAs {
		return nil
	}
	if len(groups) == 0 && i.Rule == mustRunAs {
		return field.ErrorList{field.Invalid(path, groups, none)}
	}
	for _, group := range groups {
		if !contains(i.Ranges, group) {
			errs = append(errs, field.Invalid(path, groups, fmt.Sprintf("group %d must be in the ranges: %v", group, i.Ranges)))
		}
	}
	return errs
}

func (p *policy) checkSELinux(pod *corev1.Pod) (errs field.ErrorList) {
	if p.SELinux.Rule != mustRunAs {
		return nil
	}
	var own *corev1.SELinuxOptions
	if c := pod.Spec.SecurityContext; c != nil {
		own = c.SELinuxOptions
	}
	errs = p.SELinux.check(own, podPath.Child("seLinuxOptions"))
	each(pod, func(c *corev1.Container, path *field.Path) {
		if c.SecurityContext != nil && c.SecurityContext.SELinuxOptions != nil {
			errs = append(errs, p.SELinux.check(c.SecurityContext.SELinuxOptions, path.Child("securityContext", "seLinuxOptions"))...)
		}
	})
	return errs
}

func (s seLinux) check(got *corev1.SELinuxOptions, path *field.Path) (errs field.ErrorList) {
	if got == nil {
		return field.ErrorList{field.Required(path, "")}
	}
	want := s.Options
	if want == nil {
		want = &corev1.SELinuxOptions{}
	}
	for _, part := range []struct{ name, got, want string }{
		{"level", got.Level, want.Level}, {"role", got.Role, want.Role}, {"type", got.Type, want.Type}, {"user", got.User, want.User},
	} {
		if part.got != part.want {
			errs = append(errs, field.Invalid(path.Child(part.name), part.got, "must be "+part.want))
		}
	}
	return errs
}

func (p *policy) checkSysctls(pod *corev1.Pod) (errs field.ErrorList) {
	if pod.Spec.SecurityContext == nil {
		return nil
	}
	for i, sysctl := range pod.Spec.SecurityContext.Sysctls {
		path := podPath.Child("sysctls").Index(i)
		name := strings.ReplaceAll(sysctl.Name, "/", ".")
		switch {
		case matches(p.ForbiddenSysctls, name):
			errs = append(errs, field.Forbidden(path, fmt.Sprintf("sysctl %q is not allowed", sysctl.Name)))
		case !slices.Contains(safeSysctls, name) && !matches(p.AllowedUnsafeSysctls, name):
			errs = append(errs, field.Forbidden(path, fmt.Sprintf("unsafe sysctl %q is not allowed", sysctl.Name)))
		}
	}
	return errs
}

// safeSysctls are those that Kubernetes documents as safe; their effect stays in the pod.
var safeSysctls = []string{
	"kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range", "net.ipv4.ip_unprivileged_port_start",
}

func (p *policy) checkRuntimeClass(pod *corev1.Pod) field.ErrorList {
	if p.RuntimeClass == nil {
		return nil
	}
	path := specPath.Child("runtimeClassName")
	switch name := pod.Spec.RuntimeClassName; {
	case name == nil && len(p.RuntimeClass.Allowed) > 0 && !has(p.RuntimeClass.Allowed, "*"):
		return field.ErrorList{field.Required(path, "")}
	case name != nil && !has(p.RuntimeClass.Allowed, *name):
		return field.ErrorList{field.NotSupported(path, *name, p.RuntimeClass.Allowed)}
	}
	return nil
}

func (p *policy) checkVolumes(pod *corev1.Pod) (errs field.ErrorList) {
	for i := range pod.Spec.Volumes {
		v, path := &pod.Spec.Volumes[i], specPath.Child("volumes").Index(i)
		if kind := volumeKind(v); !has(p.Volumes, kind) && !(p.onlyTokens(v) && has(p.Volumes, "secret")) {
			errs = append(errs, field.Invalid(path, kind, kind+" volumes are not allowed to be used"))
			continue
		}
		switch {
		case v.HostPath != nil:
			errs = append(errs, p.checkHostPath(pod, v, path)...)
		case v.FlexVolume != nil && len(p.AllowedFlexVolumes) > 0 && !named(p.AllowedFlexVolumes, v.FlexVolume.Driver, ""):
			errs = append(errs, field.Invalid(path.Child("driver"), v.FlexVolume.Driver, "Flexvolume driver is not allowed to be used"))
		case v.CSI != nil && len(p.AllowedCSIDrivers) > 0 && !named(p.AllowedCSIDrivers, "", v.CSI.Driver):
			errs = append(errs, field.Invalid(path.Child("csi", "driver"), v.CSI.Driver, "Inline CSI driver is not allowed to be used"))
		}
	}
	return errs
}

func named(drivers []driver, flex, csi string) bool {
	return slices.Contains(drivers, driver{Driver: flex, Name: csi})
}

// volumeKind is the name of the field that says what a volume is, as hostPath.
func volumeKind(v *corev1.Volume) string {
	source := reflect.ValueOf(v.VolumeSource)
	for i := range source.NumField() {
		if !source.Field(i).IsNil() {
			name, _, _ := strings.Cut(source.Type().Field(i).Tag.Get("json"), ",")
			return name
		}
	}
	return "emptyDir" // what a volume without a source is
}

// onlyTokens reports whether a volume is what every pod gets for its service account, which was a secret once.
func (*policy) onlyTokens(v *corev1.Volume) bool {
	return v.Projected != nil && strings.HasPrefix(v.Name, "kube-api-access-") && !slices.ContainsFunc(v.Projected.Sources, func(s corev1.VolumeProjection) bool {
		return s.Secret != nil
	})
}

func (p *policy) checkHostPath(pod *corev1.Pod, v *corev1.Volume, path *field.Path) (errs field.ErrorList) {
	if len(p.AllowedHostPaths) == 0 {
		return nil
	}
	allowed, writable := false, false
	for _, prefix := range p.AllowedHostPaths {
		if prefix.under(v.HostPath.Path) {
			allowed, writable = true, writable || !prefix.ReadOnly
		}
	}
	if !allowed {
		return field.ErrorList{field.Invalid(path.Child("hostPath", "pathPrefix"), v.HostPath.Path, "is not allowed to be used")}
	}
	if writable {
		return nil
	}
	each(pod, func(c *corev1.Container, path *field.Path) {
		for i, mount := range c.VolumeMounts {
			if mount.Name == v.Name && !mount.ReadOnly {
				errs = append(errs, field.Invalid(path.Child("volumeMounts").Index(i).Child("readOnly"), false, "must be read-only"))
			}
		}
	})
	return errs
}

// each calls f for the containers of all three sorts; what it changes is lost.
func each(pod *corev1.Pod, f func(*corev1.Container, *field.Path)) {
	for i := range pod.Spec.InitContainers {
		f(&pod.Spec.InitContainers[i], specPath.Child("initContainers").Index(i))
	}
	for i := range pod.Spec.Containers {
		f(&pod.Spec.Containers[i], specPath.Child("containers").Index(i))
	}
	for i := range pod.Spec.EphemeralContainers {
		c := corev1.Container(pod.Spec.EphemeralContainers[i].EphemeralContainerCommon)
		f(&c, specPath.Child("ephemeralContainers").Index(i))
	}
}
