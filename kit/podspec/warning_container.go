package podspec

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func fractional(q resource.Quantity) bool { return q.MilliValue()%1000 != 0 }

const fraction = "fractional byte value %q is invalid, must be an integer"

func (w *warner) container(c *corev1.Container, path *field.Path) {
	for _, name := range []corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
		if q, ok := c.Resources.Limits[name]; ok && fractional(q) {
			w.say(path.Child("resources", "limits").Key(string(name)), fraction, q.String())
		}
		if q, ok := c.Resources.Requests[name]; ok && fractional(q) {
			w.say(path.Child("resources", "requests").Key(string(name)), fraction, q.String())
		}
	}
	seen := make(map[string]struct{}, len(c.Env))
	for i := range c.Env {
		v := &c.Env[i]
		if _, again := seen[v.Name]; again {
			// A value that extends the one before needs it.
			if self := "$(" + v.Name + ")"; v.Value == self || !strings.Contains(v.Value, self) {
				w.say(path.Child("env").Index(i), "hides previous definition of %q, which may be dropped when using apply", v.Name)
			}
		}
		seen[v.Name] = struct{}{}
	}
}

// placedPort is a port, and where it is.
type placedPort struct {
	corev1.ContainerPort
	at *field.Path
}

// ports tells of ports that get into each other's way.
func (w *warner) ports(spec *corev1.PodSpec, path *field.Path) {
	var all []placedPort
	for _, part := range []struct {
		name string
		list []corev1.Container
	}{{"initContainers", spec.InitContainers}, {"containers", spec.Containers}} {
		for i := range part.list {
			for j, p := range part.list[i].Ports {
				all = append(all, placedPort{p, path.Child(part.name).Index(i).Child("ports").Index(j)})
			}
		}
	}
	for i, p := range all {
		if p.HostIP != "" && p.HostPort == 0 {
			w.say(p.at, "hostIP set without hostPort: {Name:%s HostPort:%d ContainerPort:%d Protocol:%s HostIP:%s}",
				p.Name, p.HostPort, p.ContainerPort.ContainerPort, p.Protocol, p.HostIP)
		}
		for _, o := range all[:i] {
			if what := clash(p.ContainerPort, o.ContainerPort); what != "" {
				w.say(p.at, "%s port definition with %s", what, o.at)
			}
		}
	}
	for i, p := range all {
		for _, o := range all[:i] {
			if p.Name != "" && p.Name == o.Name {
				w.say(p.at, "duplicate port name %q with %s, services and probes that select ports by name will use %s", p.Name, o.at, o.at)
				break
			}
		}
	}
}

// clash says how two ports of one number do not go together; empty if they do.
func clash(p, o corev1.ContainerPort) string {
	if p.ContainerPort != o.ContainerPort || p.Protocol != o.Protocol {
		return ""
	}
	switch {
	case p.HostPort == o.HostPort && p.HostIP == o.HostIP:
		return "duplicate"
	case p.HostPort == 0 || o.HostPort == 0:
		return "overlapping"
	case p.HostPort == o.HostPort && (p.HostIP == "" || o.HostIP == ""):
		return "dangerously ambiguous"
	}
	return ""
}
