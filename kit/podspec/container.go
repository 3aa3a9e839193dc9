package podspec

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/check"
)

func (s *scope) validateContainers(path *field.Path) field.ErrorList {
	if len(s.spec.Containers) == 0 {
		return field.ErrorList{field.Required(path, "")}
	}
	var errs field.ErrorList
	seen := map[string]bool{}
	for i := range s.spec.Containers {
		c, at := &s.spec.Containers[i], path.Index(i)
		errs = append(errs, s.validateContainer(c, at)...)
		errs = append(errs, duplicate(seen, c.Name, at.Child("name"))...)
		errs = append(errs, s.validateLifecycle(c.Lifecycle, at.Child("lifecycle"))...)
		errs = append(errs, s.validateProbes(c, at)...)
		errs = append(errs, validateRestart(c, at)...)
	}
	return append(errs, validateHostPorts(s.spec.Containers, path)...)
}

// restartedInit is what is told of a container that runs before the others, and would be restarted by a resize.
const restartedInit = "must not be set to 'RestartContainer' for non-sidecar initContainers"

func (s *scope) validateInitContainers(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	regular := map[string]bool{}
	for i := range s.spec.Containers {
		regular[s.spec.Containers[i].Name] = true
	}
	for i := range s.spec.InitContainers {
		c, at := &s.spec.InitContainers[i], path.Index(i)
		errs = append(errs, s.validateContainer(c, at)...)
		errs = append(errs, validateRestartPolicy(c, at)...)
		if c.RestartPolicy != nil {
			errs = append(errs, validateRestartRules(c, at)...)
		}
		if c.Name != "" || regular[""] { // init containers without a name are no duplicates of each other
			errs = append(errs, duplicate(regular, c.Name, at.Child("name"))...)
		}
		errs = append(errs, validateHostPorts(s.spec.InitContainers[i:i+1], path)...)
		if Sidecar(c) {
			errs = append(errs, s.validateLifecycle(c.Lifecycle, at.Child("lifecycle"))...)
			errs = append(errs, s.validateProbes(c, at)...)
			continue
		}
		for _, f := range []struct {
			name string
			set  bool
		}{
			{"lifecycle", c.Lifecycle != nil},
			{"livenessProbe", c.LivenessProbe != nil},
			{"readinessProbe", c.ReadinessProbe != nil},
			{"startupProbe", c.StartupProbe != nil},
		} {
			if f.set {
				errs = append(errs, field.Forbidden(at.Child(f.name), "may not be set for init containers without restartPolicy=Always"))
			}
		}
		for j, p := range c.ResizePolicy {
			if p.RestartPolicy == corev1.RestartContainer {
				errs = append(errs, field.Invalid(at.Child("resizePolicy").Index(j).Child("restartPolicy"), p.RestartPolicy, restartedInit))
			}
		}
	}
	return errs
}

func (s *scope) validateEphemeralContainers(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	others, seen := map[string]bool{}, map[string]bool{}
	for _, list := range [][]corev1.Container{s.spec.Containers, s.spec.InitContainers} {
		for i := range list {
			others[list[i].Name], seen[list[i].Name] = true, true
		}
	}
	for i := range s.spec.EphemeralContainers {
		e, at := &s.spec.EphemeralContainers[i], path.Index(i)
		c := corev1.Container(e.EphemeralContainerCommon)
		errs = append(errs, s.validateContainer(&c, at)...)
		errs = append(errs, untrimmedImage(c.Image, at.Child("image"))...)
		errs = append(errs, duplicate(seen, c.Name, at.Child("name"))...)
		if e.TargetContainerName != "" && !others[e.TargetContainerName] {
			errs = append(errs, field.NotFound(at.Child("targetContainerName"), e.TargetContainerName))
		}
		for j, m := range c.VolumeMounts {
			if m.SubPath != "" {
				errs = append(errs, field.Forbidden(at.Child("volumeMounts").Index(j).Child("subPath"), notEphemeral))
			}
			if m.SubPathExpr != "" {
				errs = append(errs, field.Forbidden(at.Child("volumeMounts").Index(j).Child("subPathExpr"), notEphemeral))
			}
		}
		for _, f := range []struct {
			name string
			set  bool
		}{
			{"ports", c.Ports != nil},
			{"resources", c.Resources.Limits != nil || c.Resources.Requests != nil || c.Resources.Claims != nil},
			{"resizePolicy", c.ResizePolicy != nil},
			{"restartPolicy", c.RestartPolicy != nil},
			{"restartPolicyRules", c.RestartPolicyRules != nil},
			{"livenessProbe", c.LivenessProbe != nil},
			{"readinessProbe", c.ReadinessProbe != nil},
			{"startupProbe", c.StartupProbe != nil},
			{"lifecycle", c.Lifecycle != nil},
		} {
			if f.set {
				errs = append(errs, field.Forbidden(at.Child(f.name), notEphemeral))
			}
		}
	}
	return errs
}

const notEphemeral = "cannot be set for an Ephemeral Container"

// validateContainer checks what containers of all three sorts have.
func (s *scope) validateContainer(c *corev1.Container, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if c.Name == "" {
		errs = append(errs, field.Required(path.Child("name"), ""))
	} else {
		errs = append(errs, check.Label(c.Name, path.Child("name"))...)
	}
	if c.Image == "" {
		errs = append(errs, field.Required(path.Child("image"), ""))
	}
	errs = append(errs, check.ListedChoice(c.TerminationMessagePolicy, path.Child("terminationMessagePolicy"),
		corev1.TerminationMessageReadFile, corev1.TerminationMessageFallbackToLogsOnError)...)
	errs = append(errs, validatePorts(c.Ports, path.Child("ports"))...)
	errs = append(errs, s.validateEnv(c.Env, path.Child("env"))...)
	errs = append(errs, validateEnvFrom(c.EnvFrom, path.Child("envFrom"))...)
	errs = append(errs, s.validateMounts(c, path.Child("volumeMounts"))...)
	errs = append(errs, s.validateDevices(c, path.Child("volumeDevices"))...)
	errs = append(errs, check.Choice(c.ImagePullPolicy, path.Child("imagePullPolicy"),
		corev1.PullAlways, corev1.PullIfNotPresent, corev1.PullNever)...)
	errs = append(errs, validateRequirements(&c.Resources, claimNames(s.spec), path.Child("resources"))...)
	errs = append(errs, validateResizePolicy(c.ResizePolicy, s.spec.RestartPolicy, path.Child("resizePolicy"))...)
	errs = append(errs, s.validateSecurity(c.SecurityContext, path.Child("securityContext"))...)
	return errs
}

func duplicate(seen map[string]bool, name string, path *field.Path) field.ErrorList {
	if seen[name] {
		return field.ErrorList{field.Duplicate(path, name)}
	}
	seen[name] = true
	return nil
}

func untrimmedImages(containers []corev1.Container, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := range containers {
		errs = append(errs, untrimmedImage(containers[i].Image, path.Index(i).Child("image"))...)
	}
	return errs
}

func untrimmedImage(image string, path *field.Path) field.ErrorList {
	if image == strings.TrimSpace(image) {
		return nil
	}
	return field.ErrorList{field.Invalid(path, image, "must not have leading or trailing whitespace")}
}

func validateResizePolicy(list []corev1.ContainerResizePolicy, restart corev1.RestartPolicy, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := map[corev1.ResourceName]bool{}
	// Kubernetes names the list, and where a name comes twice the item.
	for i, p := range list {
		if seen[p.ResourceName] {
			errs = append(errs, field.Duplicate(path.Index(i), p.ResourceName))
		}
		seen[p.ResourceName] = true
		errs = append(errs, check.Choice(p.ResourceName, path, corev1.ResourceCPU, corev1.ResourceMemory)...)
		errs = append(errs, check.Choice(p.RestartPolicy, path, corev1.NotRequired, corev1.RestartContainer)...)
		if restart == corev1.RestartPolicyNever && p.RestartPolicy != corev1.NotRequired {
			errs = append(errs, field.Invalid(path, p.RestartPolicy, "must be 'NotRequired' when pod `restartPolicy` is 'Never'"))
		}
	}
	return errs
}

// validatePorts checks a container's ports.
func validatePorts(ports []corev1.ContainerPort, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	names := map[string]bool{}
	for i, p := range ports {
		at := path.Index(i)
		if p.Name != "" {
			if bad := portName(p.Name); len(bad) > 0 {
				errs = append(errs, check.Each(bad, p.Name, at.Child("name"))...)
			} else {
				errs = append(errs, duplicate(names, p.Name, at.Child("name"))...)
			}
		}
		if p.ContainerPort == 0 {
			errs = append(errs, field.Required(at.Child("containerPort"), ""))
		} else {
			errs = append(errs, check.Port(p.ContainerPort, at.Child("containerPort"))...)
		}
		if p.HostPort != 0 {
			errs = append(errs, check.Port(p.HostPort, at.Child("hostPort"))...)
		}
		errs = append(errs, check.Choice(p.Protocol, at.Child("protocol"), corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP)...)
	}
	return errs
}

// validateHostPorts refuses that containers which run at once want one host port.
func validateHostPorts(containers []corev1.Container, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	for i := range containers {
		for j, p := range containers[i].Ports {
			if p.HostPort == 0 {
				continue
			}
			key := fmt.Sprintf("%s/%s/%d", p.Protocol, p.HostIP, p.HostPort)
			errs = append(errs, duplicate(seen, key, path.Index(i).Child("ports").Index(j).Child("hostPort"))...)
		}
	}
	return errs
}
