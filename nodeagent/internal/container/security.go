package container

import (
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Paths hidden and protected in containers that ask for the default /proc.
var (
	maskedPaths = []string{
		"/proc/asound", "/proc/acpi", "/proc/interrupts", "/proc/kcore", "/proc/keys", "/proc/latency_stats", "/proc/timer_list",
		"/proc/timer_stats", "/proc/sched_debug", "/proc/scsi", "/sys/firmware", "/sys/devices/virtual/powercap",
	}
	readonlyPaths = []string{"/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"}
)

// maskedHere are those of this machine.
var maskedHere = sync.OnceValue(func() []string { return masked("/sys") })

// masked adds to the paths hidden everywhere how hot the processors are, by which a container could tell what others compute.
func masked(sys string) []string {
	hot, _ := filepath.Glob(filepath.Join(sys, "devices/system/cpu/cpu[0-9]*/thermal_throttle")) // the pattern is good
	return append(slices.Clone(maskedPaths), hot...)
}

// namespaces of the pod, or of a container of it. target is the ID of the container whose processes it joins, where it
// is to see those and no others; a pod that shares all processes needs none.
func (b *Builder) namespaces(target string) *runtimeapi.NamespaceOption {
	mode := func(host bool, otherwise runtimeapi.NamespaceMode) runtimeapi.NamespaceMode {
		if host {
			return runtimeapi.NamespaceMode_NODE
		}
		return otherwise
	}
	pid := runtimeapi.NamespaceMode_CONTAINER
	if b.Pod.Spec.ShareProcessNamespace != nil && *b.Pod.Spec.ShareProcessNamespace {
		pid = runtimeapi.NamespaceMode_POD
	}
	options := &runtimeapi.NamespaceOption{
		Network:       mode(b.Pod.Spec.HostNetwork, runtimeapi.NamespaceMode_POD),
		Ipc:           mode(b.Pod.Spec.HostIPC, runtimeapi.NamespaceMode_POD),
		Pid:           mode(b.Pod.Spec.HostPID, pid),
		UsernsOptions: b.Users.namespace(),
	}
	if target != "" && options.Pid == runtimeapi.NamespaceMode_CONTAINER {
		options.Pid, options.TargetId = runtimeapi.NamespaceMode_TARGET, target
	}
	return options
}

// seccomp maps a profile; a pod that names none runs unconfined, as
// Kubernetes has it where the node does not say otherwise.
func (b *Builder) seccomp(profile *corev1.SeccompProfile) *runtimeapi.SecurityProfile {
	if profile == nil && b.Node.SeccompDefault {
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault}
	}
	if profile == nil {
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Unconfined}
	}
	switch profile.Type {
	case corev1.SeccompProfileTypeRuntimeDefault:
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault}
	case corev1.SeccompProfileTypeLocalhost:
		if profile.LocalhostProfile != nil {
			return &runtimeapi.SecurityProfile{
				ProfileType:  runtimeapi.SecurityProfile_Localhost,
				LocalhostRef: filepath.Join(b.Node.KubeletDir, "seccomp", *profile.LocalhostProfile),
			}
		}
	}
	return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Unconfined}
}

// ImageUser is the user that an image names: a number, or a name.
type ImageUser struct {
	UID  *int64
	Name string
}

// effective lays a container's security context over the pod's.
type effective struct {
	user, group *int64
	nonRoot     bool
	seccomp     *corev1.SeccompProfile
	own         corev1.SecurityContext
}

func effectiveSecurity(p *corev1.Pod, c *corev1.Container) effective {
	var e effective
	if s := p.Spec.SecurityContext; s != nil {
		e.user, e.group, e.seccomp = s.RunAsUser, s.RunAsGroup, s.SeccompProfile
		e.nonRoot = s.RunAsNonRoot != nil && *s.RunAsNonRoot
	}
	if s := c.SecurityContext; s != nil {
		e.own = *s
		if s.RunAsUser != nil {
			e.user = s.RunAsUser
		}
		if s.RunAsGroup != nil {
			e.group = s.RunAsGroup
		}
		if s.RunAsNonRoot != nil {
			e.nonRoot = *s.RunAsNonRoot
		}
		if s.SeccompProfile != nil {
			e.seccomp = s.SeccompProfile
		}
	}
	return e
}

// verifyNonRoot refuses a container that promised not to run as root and
// would, or might.
func verifyNonRoot(p *corev1.Pod, c *corev1.Container, e effective, image ImageUser) error {
	about := fmt.Sprintf("(pod: \"%s_%s(%s)\", container: %s)", p.Name, p.Namespace, p.UID, c.Name)
	switch {
	case !e.nonRoot:
		return nil
	case e.user != nil:
		if *e.user == 0 {
			return fmt.Errorf("container's runAsUser breaks non-root policy %s", about)
		}
		return nil
	case image.UID != nil && *image.UID == 0, image.UID == nil && image.Name == "":
		return fmt.Errorf("container has runAsNonRoot and image will run as root %s", about)
	case image.UID == nil:
		return fmt.Errorf("container has runAsNonRoot and image has non-numeric user (%s), cannot verify user is non-root %s", image.Name, about)
	}
	return nil
}

func (b *Builder) security(c *corev1.Container, image ImageUser, target string) (*runtimeapi.LinuxContainerSecurityContext, error) {
	e := effectiveSecurity(b.Pod, c)
	if err := verifyNonRoot(b.Pod, c, e, image); err != nil {
		return nil, err
	}
	out := &runtimeapi.LinuxContainerSecurityContext{
		NamespaceOptions: b.namespaces(target),
		Privileged:       e.own.Privileged != nil && *e.own.Privileged,
		ReadonlyRootfs:   e.own.ReadOnlyRootFilesystem != nil && *e.own.ReadOnlyRootFilesystem,
		NoNewPrivs:       e.own.AllowPrivilegeEscalation != nil && !*e.own.AllowPrivilegeEscalation,
		Seccomp:          b.seccomp(e.seccomp),
		Apparmor:         appArmor(b.Pod, e.own),
	}
	switch {
	case e.user != nil:
		out.RunAsUser = &runtimeapi.Int64Value{Value: *e.user}
	case image.UID != nil:
		out.RunAsUser = &runtimeapi.Int64Value{Value: *image.UID}
	default:
		out.RunAsUsername = image.Name
	}
	if e.group != nil {
		out.RunAsGroup = &runtimeapi.Int64Value{Value: *e.group}
	}
	if caps := e.own.Capabilities; caps != nil {
		out.Capabilities = &runtimeapi.Capability{AddCapabilities: capabilities(caps.Add), DropCapabilities: capabilities(caps.Drop)}
	}
	if e.own.ProcMount == nil || *e.own.ProcMount == corev1.DefaultProcMount {
		if !out.Privileged {
			out.MaskedPaths, out.ReadonlyPaths = maskedHere(), readonlyPaths
		}
	}
	out.SupplementalGroups, out.SupplementalGroupsPolicy = supplementalGroups(b.Pod), groupsPolicy(b.Pod)
	if o := selinux(b.Pod, e.own); o != nil {
		out.SelinuxOptions = o
	}
	return out, nil
}

// appArmor maps a profile; nil leaves the choice to the runtime.
func appArmor(p *corev1.Pod, own corev1.SecurityContext) *runtimeapi.SecurityProfile {
	profile := own.AppArmorProfile
	if profile == nil && p.Spec.SecurityContext != nil {
		profile = p.Spec.SecurityContext.AppArmorProfile
	}
	if profile == nil {
		return nil
	}
	switch profile.Type {
	case corev1.AppArmorProfileTypeUnconfined:
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Unconfined}
	case corev1.AppArmorProfileTypeLocalhost:
		if profile.LocalhostProfile != nil {
			return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Localhost, LocalhostRef: *profile.LocalhostProfile}
		}
	}
	return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault}
}

func capabilities(list []corev1.Capability) []string {
	var out []string
	for _, c := range list {
		out = append(out, strings.TrimPrefix(string(c), "CAP_"))
	}
	return out
}

func supplementalGroups(p *corev1.Pod) []int64 {
	s := p.Spec.SecurityContext
	if s == nil {
		return nil
	}
	groups := slices.Clone(s.SupplementalGroups)
	if s.FSGroup != nil && !slices.Contains(groups, *s.FSGroup) {
		groups = append(groups, *s.FSGroup)
	}
	return groups
}

func groupsPolicy(p *corev1.Pod) runtimeapi.SupplementalGroupsPolicy {
	if s := p.Spec.SecurityContext; s != nil && s.SupplementalGroupsPolicy != nil && *s.SupplementalGroupsPolicy == corev1.SupplementalGroupsPolicyStrict {
		return runtimeapi.SupplementalGroupsPolicy_Strict
	}
	return runtimeapi.SupplementalGroupsPolicy_Merge
}

func selinux(p *corev1.Pod, own corev1.SecurityContext) *runtimeapi.SELinuxOption {
	o := own.SELinuxOptions
	if o == nil && p.Spec.SecurityContext != nil {
		o = p.Spec.SecurityContext.SELinuxOptions
	}
	if o == nil {
		return nil
	}
	return &runtimeapi.SELinuxOption{User: o.User, Role: o.Role, Type: o.Type, Level: o.Level}
}

// sandboxSecurity is the context of the pod's pause process.
func (b *Builder) sandboxSecurity() *runtimeapi.LinuxSandboxSecurityContext {
	out := &runtimeapi.LinuxSandboxSecurityContext{
		NamespaceOptions:   b.namespaces(""),
		Privileged:         anyPrivileged(b.Pod),
		Seccomp:            &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault},
		SupplementalGroups: supplementalGroups(b.Pod),
	}
	if s := b.Pod.Spec.SecurityContext; s != nil {
		if s.RunAsUser != nil {
			out.RunAsUser = &runtimeapi.Int64Value{Value: *s.RunAsUser}
		}
		if s.RunAsGroup != nil && s.RunAsUser != nil { // the runtime refuses a group without a user
			out.RunAsGroup = &runtimeapi.Int64Value{Value: *s.RunAsGroup}
		}
		if s.SeccompProfile != nil {
			out.Seccomp = b.seccomp(s.SeccompProfile)
		}
	}
	return out
}

func anyPrivileged(p *corev1.Pod) bool {
	for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			if s := list[i].SecurityContext; s != nil && s.Privileged != nil && *s.Privileged {
				return true
			}
		}
	}
	for i := range p.Spec.EphemeralContainers {
		if s := p.Spec.EphemeralContainers[i].SecurityContext; s != nil && s.Privileged != nil && *s.Privileged {
			return true
		}
	}
	return false
}

// ParseImageUser reads the user of an image: "", "1000", "1000:1000", "name".
func ParseImageUser(uid *runtimeapi.Int64Value, username string) ImageUser {
	if uid != nil {
		value := uid.GetValue()
		return ImageUser{UID: &value}
	}
	name, _, _ := strings.Cut(username, ":")
	if number, err := strconv.ParseInt(name, 10, 64); err == nil {
		return ImageUser{UID: &number}
	}
	if name == "" {
		zero := int64(0)
		return ImageUser{UID: &zero}
	}
	return ImageUser{Name: name}
}
