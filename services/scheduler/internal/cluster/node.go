package cluster

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/services/scheduler/internal/storage"
)

// Node is a node and what stands on it. It is immutable: With and Without
// return changed copies.
type Node struct {
	// Object is the API's node; nil where pods name a node that is not there.
	Object *corev1.Node
	Name   string
	// Allocatable is what pods may take; Requested what they take; Scored
	// the same with defaults for unset requests.
	Allocatable, Requested, Scored Resources
	Pods                           []*corev1.Pod
	// Repelling are those of the pods that have required anti-affinity.
	Repelling []*corev1.Pod
	// Wishing are those of the pods that have something to say of who comes near.
	Wishing []Wishing
	// Claiming are those that use claims.
	Claiming []*corev1.Pod
	// Images are the sizes in bytes of the images on the node, by name.
	Images map[string]int64
}

func newNode(name string) *Node { return &Node{Name: name} }

// EmptyNode is the API's node as it would be without pods.
func EmptyNode(object *corev1.Node) *Node { return newNode(object.Name).withObject(object) }

// withObject returns the node with the API's newest object.
func (n *Node) withObject(object *corev1.Node) *Node {
	c := *n
	c.Object = object
	c.Allocatable, c.Images = Resources{}, nil
	if object == nil {
		return &c
	}
	c.Allocatable = resourcesOf(object.Status.Allocatable)
	c.Images = make(map[string]int64, len(object.Status.Images))
	for _, image := range object.Status.Images {
		for _, name := range image.Names {
			c.Images[name] = image.SizeBytes
		}
	}
	return &c
}

// With returns the node with one pod more, which demands demand.
func (n *Node) With(pod *corev1.Pod, demand Demand) *Node {
	c := *n
	c.Pods = append(slices.Clip(n.Pods), pod)
	if repels(pod) {
		c.Repelling = append(slices.Clip(n.Repelling), pod)
	}
	if storage.UsesClaims(pod) {
		c.Claiming = append(slices.Clip(n.Claiming), pod)
	}
	if demand.Wishes != nil {
		c.Wishing = append(slices.Clip(n.Wishing), Wishing{pod, demand.Wishes})
	}
	c.Requested = n.Requested.plus(demand.Requests, 1)
	c.Scored = n.Scored.plus(demand.Scored, 1)
	return &c
}

// Without returns the node without the pod of that UID, which was added with
// demand; the same node where it has none.
func (n *Node) Without(uid types.UID, demand Demand) *Node {
	c := *n
	var found bool
	if c.Pods, found = without(n.Pods, uid); !found {
		return n
	}
	c.Repelling, _ = without(n.Repelling, uid)
	c.Claiming, _ = without(n.Claiming, uid)
	if i := slices.IndexFunc(n.Wishing, func(w Wishing) bool { return w.Pod.UID == uid }); i >= 0 {
		c.Wishing = slices.Concat(n.Wishing[:i], n.Wishing[i+1:])
	}
	c.Requested = n.Requested.plus(demand.Requests, -1)
	c.Scored = n.Scored.plus(demand.Scored, -1)
	return &c
}

// without returns a copy of pods that lacks the one with that UID.
func without(pods []*corev1.Pod, uid types.UID) ([]*corev1.Pod, bool) {
	i := slices.IndexFunc(pods, func(p *corev1.Pod) bool { return p.UID == uid })
	if i < 0 {
		return pods, false
	}
	return slices.Concat(pods[:i], pods[i+1:]), true
}

func repels(pod *corev1.Pod) bool {
	a := pod.Spec.Affinity
	return a != nil && a.PodAntiAffinity != nil && len(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0
}

// HostPort is a port of the node that a pod's container takes.
type HostPort struct {
	IP       string // "0.0.0.0" is every address
	Protocol corev1.Protocol
	Port     int32
}

// HostPorts returns the host ports that a pod asks for.
func HostPorts(pod *corev1.Pod) []HostPort {
	var ports []HostPort
	add := func(containers []corev1.Container) {
		for _, c := range containers {
			for _, p := range c.Ports {
				if p.HostPort <= 0 {
					continue
				}
				port := HostPort{p.HostIP, p.Protocol, p.HostPort}
				if port.IP == "" {
					port.IP = "0.0.0.0"
				}
				if port.Protocol == "" {
					port.Protocol = corev1.ProtocolTCP
				}
				ports = append(ports, port)
			}
		}
	}
	add(pod.Spec.Containers)
	for _, c := range pod.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			add([]corev1.Container{c})
		}
	}
	return ports
}

// Conflicts reports whether two host ports cannot be on one node.
func (p HostPort) Conflicts(o HostPort) bool {
	return p.Port == o.Port && p.Protocol == o.Protocol && (p.IP == o.IP || p.IP == "0.0.0.0" || o.IP == "0.0.0.0")
}

func milliQuantity(v int64) *resource.Quantity {
	return resource.NewMilliQuantity(v, resource.DecimalSI)
}
func quantity(v int64) *resource.Quantity { return resource.NewQuantity(v, resource.BinarySI) }
