package podsecuritypolicy

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Profiles have names in the annotations of policies: runtime/default, unconfined and localhost/FILE.
const (
	runtimeProfile = "runtime/default"
	dockerProfile  = "docker/default"
	noProfile      = "unconfined"
	localProfile   = "localhost/"
)

// seccompOf returns the profile of a name; nil of none.
func seccompOf(name string) *corev1.SeccompProfile {
	local, isLocal := strings.CutPrefix(name, localProfile)
	switch {
	case name == runtimeProfile, name == dockerProfile:
		return &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	case name == noProfile:
		return &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeUnconfined}
	case isLocal:
		return &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeLocalhost, LocalhostProfile: &local}
	}
	return nil
}

// appArmorOf returns the profile of a name; nil of none.
func appArmorOf(name string) *corev1.AppArmorProfile {
	local, isLocal := strings.CutPrefix(name, localProfile)
	switch {
	case name == runtimeProfile:
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault}
	case name == noProfile:
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
	case isLocal:
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeLocalhost, LocalhostProfile: &local}
	}
	return nil
}

// seccompName is a profile's name in annotations; empty of none.
func seccompName(p *corev1.SeccompProfile) string {
	if p == nil {
		return ""
	}
	return profileName(string(p.Type), p.LocalhostProfile)
}

// appArmorName is a profile's name in annotations; empty of none.
func appArmorName(p *corev1.AppArmorProfile) string {
	if p == nil {
		return ""
	}
	return profileName(string(p.Type), p.LocalhostProfile)
}

func profileName(kind string, local *string) string {
	switch {
	case kind == string(corev1.SeccompProfileTypeRuntimeDefault):
		return runtimeProfile
	case kind == string(corev1.SeccompProfileTypeLocalhost) && local != nil:
		return localProfile + *local
	default:
		return noProfile
	}
}
