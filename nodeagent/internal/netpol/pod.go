package netpol

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// pod is what policies ask of a pod.
type pod struct {
	uid       types.UID
	namespace string
	name      string
	revision  int64
	labels    labels.Set
	// addresses that are the pod's own: none with the node's network, or once it has ended.
	addresses []netip.Addr
	ports     []namedPort // sorted
}

type namedPort struct {
	name     string
	protocol uint8
	port     uint16
}

func (p *pod) key() types.NamespacedName {
	return types.NamespacedName{Namespace: p.namespace, Name: p.name}
}

// same says whether policies find no difference between two states of a pod.
func (p *pod) same(o *pod) bool {
	return p.uid == o.uid && labels.Equals(p.labels, o.labels) && slices.Equal(p.addresses, o.addresses) && slices.Equal(p.ports, o.ports)
}

// named are the ports of that name and protocol; containers of a pod may have the like.
func named(ports []namedPort, name string, protocol uint8) []Range {
	var out []Range
	for _, p := range ports {
		if p.name == name && p.protocol == protocol {
			out = append(out, Range{protocol, p.port, p.port})
		}
	}
	return out
}

func podOf(o *corev1.Pod) *pod {
	p := &pod{uid: o.UID, namespace: o.Namespace, name: o.Name, revision: revision(o), labels: o.Labels, ports: portsOf(o)}
	if o.Spec.HostNetwork || o.Status.Phase == corev1.PodSucceeded || o.Status.Phase == corev1.PodFailed {
		return p
	}
	for _, ip := range o.Status.PodIPs {
		if a, err := netip.ParseAddr(ip.IP); err == nil {
			p.addresses = append(p.addresses, a.Unmap())
		}
	}
	return p
}

// portsOf lists the named ports of containers that run as long as the pod does.
func portsOf(o *corev1.Pod) []namedPort {
	var out []namedPort
	add := func(c *corev1.Container) {
		for _, p := range c.Ports {
			if p.Name != "" {
				out = append(out, namedPort{p.Name, protocolNumber(p.Protocol), uint16(p.ContainerPort)})
			}
		}
	}
	for i := range o.Spec.Containers {
		add(&o.Spec.Containers[i])
	}
	for i := range o.Spec.InitContainers {
		if c := &o.Spec.InitContainers[i]; c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			add(c)
		}
	}
	slices.SortFunc(out, func(a, b namedPort) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.protocol, b.protocol), cmp.Compare(a.port, b.port))
	})
	return slices.Compact(out)
}

// revision orders the states of an object; 0 for what the API did not give.
func revision(o metav1.Object) int64 {
	n, _ := strconv.ParseInt(o.GetResourceVersion(), 10, 64)
	return n
}

// SlimPod takes out of a pod what Update does not ask of it, for the caches of those who follow all pods of a cluster.
func SlimPod(o *corev1.Pod) {
	slim := func(containers []corev1.Container) []corev1.Container {
		var out []corev1.Container
		for i := range containers {
			if c := &containers[i]; slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.Name != "" }) {
				out = append(out, corev1.Container{Ports: c.Ports, RestartPolicy: c.RestartPolicy})
			}
		}
		return out
	}
	o.ManagedFields, o.Annotations, o.OwnerReferences = nil, nil, nil
	o.Spec = corev1.PodSpec{
		NodeName: o.Spec.NodeName, HostNetwork: o.Spec.HostNetwork,
		Containers: slim(o.Spec.Containers), InitContainers: slim(o.Spec.InitContainers),
	}
	o.Status = corev1.PodStatus{Phase: o.Status.Phase, PodIPs: o.Status.PodIPs}
}

// describe writes ports as a part of a group's key.
func describe(ports []namedPort) string {
	var out strings.Builder
	for _, p := range ports {
		fmt.Fprintf(&out, "%s/%d=%d,", p.name, p.protocol, p.port)
	}
	return out.String()
}
