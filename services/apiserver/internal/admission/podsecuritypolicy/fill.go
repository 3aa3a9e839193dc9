package podsecuritypolicy

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// Annotations of policies and pods.
const (
	usedPolicy      = "kubernetes.io/psp"
	seccompAllowed  = "seccomp.security.alpha.kubernetes.io/allowedProfileNames"
	seccompDefault  = "seccomp.security.alpha.kubernetes.io/defaultProfileName"
	appArmorAllowed = "apparmor.security.beta.kubernetes.io/allowedProfileNames"
	appArmorDefault = "apparmor.security.beta.kubernetes.io/defaultProfileName"
)

// fill gives the pod what the policy demands and the pod leaves open.
func (p *policy) fill(pod *corev1.Pod) {
	named := pod.Spec.SecurityContext != nil
	if !named {
		pod.Spec.SecurityContext = &corev1.PodSecurityContext{}
	}
	c := pod.Spec.SecurityContext
	if id := p.SupplementalGroups.first(); id != nil && c.SupplementalGroups == nil {
		c.SupplementalGroups = []int64{*id}
	}
	if c.FSGroup == nil {
		c.FSGroup = p.FSGroup.first()
	}
	if p.SELinux.Rule == mustRunAs && c.SELinuxOptions == nil {
		c.SELinuxOptions = p.SELinux.Options.DeepCopy()
	}
	if c.SeccompProfile == nil {
		c.SeccompProfile = seccompOf(p.annotations[seccompDefault])
	}
	if r := p.RuntimeClass; r != nil && pod.Spec.RuntimeClassName == nil && r.Default != nil {
		name := *r.Default
		pod.Spec.RuntimeClassName = &name
	}
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			p.fillContainer(pod, &containers[i])
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		container := corev1.Container(pod.Spec.EphemeralContainers[i].EphemeralContainerCommon)
		p.fillContainer(pod, &container)
		pod.Spec.EphemeralContainers[i].EphemeralContainerCommon = corev1.EphemeralContainerCommon(container)
	}
	if !named && equality.Semantic.DeepEqual(c, &corev1.PodSecurityContext{}) {
		pod.Spec.SecurityContext = nil // a policy that demands nothing changes nothing
	}
}

func (p *policy) fillContainer(pod *corev1.Pod, container *corev1.Container) {
	var c corev1.SecurityContext
	if container.SecurityContext != nil {
		c = *container.SecurityContext.DeepCopy()
	}
	p.fillUser(pod.Spec.SecurityContext, &c)
	if profile := p.annotations[appArmorDefault]; profile != "" && c.AppArmorProfile == nil && pod.Spec.SecurityContext.AppArmorProfile == nil {
		c.AppArmorProfile = appArmorOf(profile)
	}
	p.fillCapabilities(&c)
	yes, no := true, false
	if p.ReadOnlyRootFilesystem && c.ReadOnlyRootFilesystem == nil {
		c.ReadOnlyRootFilesystem = &yes
	}
	switch {
	case c.AllowPrivilegeEscalation != nil:
	case p.DefaultAllowPrivilegeEscalation != nil:
		value := *p.DefaultAllowPrivilegeEscalation
		c.AllowPrivilegeEscalation = &value
	case p.AllowPrivilegeEscalation != nil && !*p.AllowPrivilegeEscalation:
		c.AllowPrivilegeEscalation = &no
	}
	if container.SecurityContext != nil || c != (corev1.SecurityContext{}) {
		container.SecurityContext = &c
	}
}

func (p *policy) fillUser(pod *corev1.PodSecurityContext, c *corev1.SecurityContext) {
	if c.RunAsUser == nil && pod.RunAsUser == nil {
		c.RunAsUser = p.RunAsUser.first()
	}
	if c.RunAsGroup == nil && pod.RunAsGroup == nil {
		c.RunAsGroup = p.RunAsGroup.first()
	}
	named := c.RunAsUser != nil || pod.RunAsUser != nil
	if p.RunAsUser.Rule == mustRunAsNonRoot && !named && c.RunAsNonRoot == nil && pod.RunAsNonRoot == nil {
		yes := true
		c.RunAsNonRoot = &yes
	}
}

func (p *policy) fillCapabilities(c *corev1.SecurityContext) {
	if len(p.DefaultAddCapabilities) == 0 && len(p.RequiredDropCapabilities) == 0 {
		return
	}
	if c.Capabilities == nil {
		c.Capabilities = &corev1.Capabilities{}
	}
	for _, one := range p.DefaultAddCapabilities {
		if !slices.Contains(c.Capabilities.Drop, one) && !slices.Contains(c.Capabilities.Add, one) {
			c.Capabilities.Add = append(c.Capabilities.Add, one)
		}
	}
	for _, one := range p.RequiredDropCapabilities {
		if !slices.Contains(c.Capabilities.Drop, one) && !slices.Contains(c.Capabilities.Add, one) {
			c.Capabilities.Drop = append(c.Capabilities.Drop, one)
		}
	}
}
