package podspec

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/check"
)

// validateHost checks how a pod shares its node's namespaces.
func validateHost(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if spec.HostNetwork {
		for i := range spec.Containers {
			for j, p := range spec.Containers[i].Ports {
				if p.HostPort != 0 && p.HostPort != p.ContainerPort {
					errs = append(errs, field.Invalid(path.Child("containers").Index(i).Child("ports").Index(j).Child("hostPort"),
						p.HostPort, "must match `containerPort` when `hostNetwork` is true"))
				}
			}
		}
	}
	return errs
}

func validateShared(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	if share := spec.ShareProcessNamespace; spec.HostPID && share != nil && *share {
		return field.ErrorList{field.Invalid(path, *share, "ShareProcessNamespace and HostPID cannot both be enabled")}
	}
	return nil
}

// validateHostUsers refuses what a pod with users of its own cannot have. Two of the names are not spelled as the fields are.
func validateHostUsers(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	if spec.HostUsers == nil || *spec.HostUsers {
		return nil
	}
	var errs field.ErrorList
	for _, f := range []struct {
		name string
		set  bool
	}{{"hostNetwork", spec.HostNetwork}, {"HostPID", spec.HostPID}, {"HostIPC", spec.HostIPC}} {
		if f.set {
			errs = append(errs, field.Forbidden(path.Child(f.name), "when `hostUsers` is false"))
		}
	}
	for _, part := range []struct {
		name string
		list []corev1.Container
	}{{"initContainers", spec.InitContainers}, {"containers", spec.Containers}} {
		for i := range part.list {
			if len(part.list[i].VolumeDevices) > 0 {
				errs = append(errs, field.Forbidden(path.Child(part.name).Index(i).Child("volumeDevices"), "when `hostUsers` is false"))
			}
		}
	}
	return errs
}

// validateOS checks the system that a pod is for, and refuses what belongs to the other.
func validateOS(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	switch {
	case spec.OS == nil:
		return nil
	case spec.OS.Name == "":
		return field.ErrorList{field.Required(path.Child("os", "name"), "")}
	case spec.OS.Name == corev1.Linux:
		return validateLinux(spec, path)
	case spec.OS.Name == corev1.Windows:
		return validateWindows(spec, path)
	}
	return check.OneOf(spec.OS.Name, path.Child("os"), corev1.Linux, corev1.Windows)
}

func validateLinux(spec *corev1.PodSpec, path *field.Path) field.ErrorList {
	const text = "windows options cannot be set for a linux pod"
	var errs field.ErrorList
	if c := spec.SecurityContext; c != nil && c.WindowsOptions != nil {
		errs = append(errs, field.Forbidden(path.Child("securityContext", "windowsOptions"), text))
	}
	eachContainer(spec, path, func(_ string, c *corev1.SecurityContext, at *field.Path) {
		if c != nil && c.WindowsOptions != nil {
			errs = append(errs, field.Forbidden(at.Child("securityContext", "windowsOptions"), text))
		}
	})
	return errs
}

// eachContainer calls f with the name, the security context and the path of every container, those of initialization first.
func eachContainer(spec *corev1.PodSpec, path *field.Path, f func(name string, c *corev1.SecurityContext, at *field.Path)) {
	for i := range spec.InitContainers {
		f(spec.InitContainers[i].Name, spec.InitContainers[i].SecurityContext, path.Child("initContainers").Index(i))
	}
	for i := range spec.Containers {
		f(spec.Containers[i].Name, spec.Containers[i].SecurityContext, path.Child("containers").Index(i))
	}
	for i := range spec.EphemeralContainers {
		f(spec.EphemeralContainers[i].Name, spec.EphemeralContainers[i].SecurityContext, path.Child("ephemeralContainers").Index(i))
	}
}
