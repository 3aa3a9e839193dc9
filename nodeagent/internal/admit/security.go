package admit

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/node/util/sysctl"
)

// safe are the kernel parameters that every pod may set: they are the pod's own, and no other pod notices. The kernels that have what the agent's network
// needs have all of them.
var safe = []string{
	"kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range", "net.ipv4.ip_unprivileged_port_start",
	"net.ipv4.ip_local_reserved_ports", "net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout", "net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes",
	"net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem",
}

// Sysctls are the kernel parameters that pods of a node may set.
type Sysctls struct{ allowed []allowedSysctl }

// allowedSysctl is a parameter, or all that begin with its name.
type allowedSysctl struct {
	name      string
	prefix    bool
	namespace sysctl.Namespace
}

// NewSysctls returns the safe parameters and those of the patterns: names, or beginnings that end with an asterisk. The error is of those that are not
// known to be a pod's own.
func NewSysctls(unsafe []string) (Sysctls, error) {
	var s Sysctls
	var problems []error
	for _, pattern := range append(append([]string{}, safe...), unsafe...) {
		namespace, name, prefix := sysctl.GetNamespace(pattern)
		if namespace == sysctl.UnknownNamespace {
			problems = append(problems, fmt.Errorf("the sysctl %q is not known to be namespaced", pattern))
			continue
		}
		s.allowed = append(s.allowed, allowedSysctl{name, prefix, namespace})
	}
	return s, errors.Join(problems...)
}

// forbidden returns why a pod may not set a parameter, nil where it may.
func (s Sysctls) forbidden(p *corev1.Pod, name string) error {
	name = sysctl.NormalizeName(name)
	for _, a := range s.allowed {
		if a.name != name && !(a.prefix && strings.HasPrefix(name, a.name)) {
			continue
		}
		if a.namespace == sysctl.IPCNamespace && p.Spec.HostIPC || a.namespace == sysctl.NetNamespace && p.Spec.HostNetwork {
			return fmt.Errorf("%q not allowed with host %s enabled", name, a.namespace)
		}
		return nil
	}
	return fmt.Errorf("%q not allowlisted", name)
}

// sysctls refuses pods that set what they may not.
func sysctls(p *corev1.Pod, s Site) *refusal {
	if p.Spec.SecurityContext == nil {
		return nil
	}
	for _, wanted := range p.Spec.SecurityContext.Sysctls {
		if err := s.Sysctls.forbidden(p, wanted.Name); err != nil {
			return &refusal{"SysctlForbidden", fmt.Sprintf("forbidden sysctl: %v", err)}
		}
	}
	return nil
}

// groups refuses pods that want no groups of their image where the runtime cannot keep them out.
func groups(p *corev1.Pod, s Site) *refusal {
	context := p.Spec.SecurityContext
	if context == nil || context.SupplementalGroupsPolicy == nil || *context.SupplementalGroupsPolicy != corev1.SupplementalGroupsPolicyStrict {
		return nil
	}
	if f := s.Node.Status.Features; f != nil && f.SupplementalGroupsPolicy != nil && *f.SupplementalGroupsPolicy {
		return nil
	}
	return &refusal{"SupplementalGroupsPolicyNotSupported", "SupplementalGroupsPolicy=Strict is not supported in this node"}
}

// appArmor refuses pods whose profiles nobody would enforce.
func appArmor(p *corev1.Pod, s Site) *refusal {
	profiles := appArmorProfiles(p)
	if len(profiles) == 0 {
		return nil
	}
	if !s.AppArmor {
		return &refusal{"AppArmor", "Cannot enforce AppArmor: AppArmor is not enabled on the host"}
	}
	for _, profile := range profiles {
		if profile.Type == corev1.AppArmorProfileTypeLocalhost && (profile.LocalhostProfile == nil || strings.TrimSpace(*profile.LocalhostProfile) == "") {
			return &refusal{"AppArmor", fmt.Sprintf("Cannot enforce AppArmor: invalid empty AppArmor profile name: %q", profile)}
		}
	}
	return nil
}

// appArmorProfiles are those of the pod and its containers that confine something.
func appArmorProfiles(p *corev1.Pod) []*corev1.AppArmorProfile {
	var out []*corev1.AppArmorProfile
	add := func(profile *corev1.AppArmorProfile) {
		if profile != nil && profile.Type != corev1.AppArmorProfileTypeUnconfined {
			out = append(out, profile)
		}
	}
	if p.Spec.SecurityContext != nil {
		add(p.Spec.SecurityContext.AppArmorProfile)
	}
	for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			if context := list[i].SecurityContext; context != nil {
				add(context.AppArmorProfile)
			}
		}
	}
	return out
}

// shutdown refuses pods that would end before they have begun.
func shutdown(_ *corev1.Pod, s Site) *refusal {
	if !s.Down {
		return nil
	}
	return &refusal{"NodeShutdown", "Pod was rejected as the node is shutting down."}
}
