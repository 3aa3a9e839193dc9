package podspec

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/services/apiserver/internal/kind/check"
)

// validateHost checks how a pod shares its node's namespaces.
func validateHost(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if spec.HostNetwork {
		for i := range spec.Containers {
			for j, p := range spec.Containers[i].Ports {
				if p.HostPort != 0 && p.HostPort != p.ContainerPort {
					errs = append(errs, field.Invalid(path.Child("containers").Index(i).Child("ports").Index(j).Child("containerPort"),
						p.ContainerPort, "must match `hostPort` when `hostNetwork` is true"))
				}
			}
		}
	}
	share := spec.ShareProcessNamespace
	if spec.HostPID && share != nil && *share {
		errs = append(errs, field.Invalid(path.Child("shareProcessNamespace"), *share, "ShareProcessNamespace and HostPID cannot both be enabled"))
	}
	if spec.HostUsers == nil || *spec.HostUsers {
		return errs
	}
	for _, f := range []struct {
		name string
		set  bool
	}{{"hostNetwork", spec.HostNetwork}, {"hostPID", spec.HostPID}, {"hostIPC", spec.HostIPC}} {
		if f.set {
			errs = append(errs, field.Forbidden(path.Child(f.name), "when `hostUsers` is false"))
		}
	}
	return errs
}

func validateOS(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if spec.OS != nil {
		errs = append(errs, check.Choice(spec.OS.Name, path.Child("os", "name"), corev1.Linux, corev1.Windows)...)
	}
	if spec.OS == nil || spec.OS.Name != corev1.Linux {
		return errs
	}
	const text = "windows options cannot be set for a linux pod"
	if c := spec.SecurityContext; c != nil && c.WindowsOptions != nil {
		errs = append(errs, field.Forbidden(path.Child("securityContext", "windowsOptions"), text))
	}
	refuse := func(list []corev1.Container, at *field.Path) {
		for i := range list {
			if c := list[i].SecurityContext; c != nil && c.WindowsOptions != nil {
				errs = append(errs, field.Forbidden(at.Index(i).Child("securityContext", "windowsOptions"), text))
			}
		}
	}
	refuse(spec.Containers, path.Child("containers"))
	refuse(spec.InitContainers, path.Child("initContainers"))
	return errs
}
