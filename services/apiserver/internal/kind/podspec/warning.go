package podspec

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Labels of nodes that have newer names.
var renamedLabels = map[string]string{
	"beta.kubernetes.io/arch":                  "kubernetes.io/arch",
	"beta.kubernetes.io/os":                    "kubernetes.io/os",
	"failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
	"failure-domain.beta.kubernetes.io/zone":   "topology.kubernetes.io/zone",
	"beta.kubernetes.io/instance-type":         "node.kubernetes.io/instance-type",
}

// Warnings is what to tell the client about a spec that is valid, yet hardly
// what was meant.
func Warnings(spec *corev1.PodSpec, _ *metav1.ObjectMeta, path *field.Path) []string {
	var out []string
	warn := func(at *field.Path, format string, args ...any) {
		out = append(out, fmt.Sprintf("%s: "+format, append([]any{at}, args...)...))
	}
	for _, key := range []string{
		"beta.kubernetes.io/arch", "beta.kubernetes.io/os", "failure-domain.beta.kubernetes.io/region",
		"failure-domain.beta.kubernetes.io/zone", "beta.kubernetes.io/instance-type",
	} {
		if _, ok := spec.NodeSelector[key]; ok {
			warn(path.Child("nodeSelector").Key(key), "deprecated since v1.14; use %q instead", renamedLabels[key])
		}
	}
	for i, a := range spec.HostAliases {
		if a.IP == "" {
			warn(path.Child("hostAliases").Index(i).Child("ip"), "empty")
		}
	}
	seen := map[string]int{}
	for i, s := range spec.ImagePullSecrets {
		at := path.Child("imagePullSecrets").Index(i).Child("name")
		if strings.TrimSpace(s.Name) == "" {
			warn(at, "invalid empty name %q", s.Name)
		} else if _, twice := seen[s.Name]; twice {
			warn(at, "duplicate name %q", s.Name)
		}
		seen[s.Name] = i
	}
	if n := spec.TerminationGracePeriodSeconds; n != nil && *n < 0 {
		warn(path.Child("terminationGracePeriodSeconds"), "must be >= 0; negative values are invalid and will be treated as 1")
	}
	for i := range spec.Volumes {
		v, at := &spec.Volumes[i], path.Child("volumes").Index(i)
		if v.GitRepo != nil {
			warn(at.Child("gitRepo"), "deprecated in v1.11, and disabled by default in v1.33+")
		}
		if v.EmptyDir != nil && v.EmptyDir.SizeLimit != nil && fractional(v.EmptyDir.SizeLimit.MilliValue()) {
			warn(at.Child("emptyDir", "sizeLimit"), "fractional byte value %q is invalid, must be an integer", v.EmptyDir.SizeLimit.String())
		}
	}
	for i := range spec.Containers {
		warnContainer(&spec.Containers[i], path.Child("containers").Index(i), warn)
	}
	for i := range spec.InitContainers {
		warnContainer(&spec.InitContainers[i], path.Child("initContainers").Index(i), warn)
	}
	return out
}

func fractional(milli int64) bool { return milli%1000 != 0 }

func warnContainer(c *corev1.Container, path *field.Path, warn func(*field.Path, string, ...any)) {
	for _, part := range []struct {
		name string
		list corev1.ResourceList
	}{{"limits", c.Resources.Limits}, {"requests", c.Resources.Requests}} {
		for _, name := range []corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
			if q, ok := part.list[name]; ok && fractional(q.MilliValue()) {
				warn(path.Child("resources", part.name).Key(string(name)), "fractional byte value %q is invalid, must be an integer", q.String())
			}
		}
	}
	last := map[string]int{}
	for i, v := range c.Env {
		if j, twice := last[v.Name]; twice && v.Name != "" {
			at := path.Child("env")
			warn(at.Index(i), "hides previous definition of %q, which may be dropped when using apply", c.Env[j].Name)
		}
		last[v.Name] = i
	}
	type use struct {
		protocol corev1.Protocol
		port     int32
	}
	ports := map[use]int{}
	for i, p := range c.Ports {
		u := use{p.Protocol, p.ContainerPort}
		if j, twice := ports[u]; twice {
			warn(path.Child("ports").Index(i), "duplicate port definition with %s", path.Child("ports").Index(j))
		} else {
			ports[u] = i
		}
	}
}
