package device

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"howdah.dev/kit/podspec"
)

// Extended resources that a DeviceClass names (KEP-5004): a pod asks for a number of them, and gets devices of the class where the node does not
// advertise the resource itself.

// AsksForExtended reports whether a pod asks for resources that a DeviceClass may name.
func AsksForExtended(pod *corev1.Pod) bool {
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			for name, amount := range containers[i].Resources.Requests {
				if strings.Contains(string(name), "/") && !amount.IsZero() && podspec.MayBeDevices(name) {
					return true
				}
			}
		}
	}
	return false
}

// MayUse reports whether a pod may want devices: it has claims, or asks for resources that a DeviceClass may name.
func MayUse(pod *corev1.Pod) bool {
	return UsesClaims(pod) || pod.Status.ExtendedResourceClaimStatus != nil || AsksForExtended(pod)
}

// Uses reports whether a pod wants devices as the classes are now, or had some chosen for it.
func (v View) Uses(pod *corev1.Pod) bool {
	return UsesClaims(pod) || pod.Status.ExtendedResourceClaimStatus != nil || len(v.backed(pod)) > 0 || v.Special(pod) != nil
}

// meanings returns the classes that are meant by extended resources: each by its own name, and of those that give one name the newest, then the first.
func (v View) meanings() map[corev1.ResourceName]string {
	chosen := map[corev1.ResourceName]*resourcev1.DeviceClass{}
	names := map[corev1.ResourceName]string{}
	for c := range v.classes.All() {
		names[corev1.ResourceName(resourcev1.ResourceDeviceClassPrefix+c.Name)] = c.Name
		if c.Spec.ExtendedResourceName == nil {
			continue
		}
		resource := corev1.ResourceName(*c.Spec.ExtendedResourceName)
		if known := chosen[resource]; known == nil || c.CreationTimestamp.After(known.CreationTimestamp.Time) { // they come by name
			chosen[resource], names[resource] = c, c.Name
		}
	}
	return names
}

// Backed returns the class whose devices are meant by an extended resource, "" where it is none's.
func (v View) Backed(name corev1.ResourceName) string {
	if v.named == nil {
		return ""
	}
	return v.named()[name]
}

// backed are the resources a pod asks for that name devices, in order.
func (v View) backed(pod *corev1.Pod) []corev1.ResourceName {
	if v.named == nil || len(v.named()) == 0 {
		return nil
	}
	found := map[corev1.ResourceName]bool{}
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			for name, amount := range containers[i].Resources.Requests {
				if !amount.IsZero() && v.Backed(name) != "" {
					found[name] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// Advertises reports whether a node has an extended resource of its own, as device plugins give it; it then has no other.
func Advertises(n *corev1.Node, name corev1.ResourceName) bool {
	amount, ok := n.Status.Allocatable[name]
	return ok && amount.Sign() > 0
}

// order is what is asked of drivers for the extended resources of a pod, and which request is for which container.
type order struct {
	requests []resourcev1.DeviceRequest
	mappings []corev1.ContainerExtendedResourceRequest
}

// orderOf orders devices for those of a pod's extended resources that class names the class of.
func orderOf(pod *corev1.Pod, class map[corev1.ResourceName]string) order {
	var o order
	for _, name := range slices.Sorted(maps.Keys(class)) {
		of := orderOfOne(pod, name, class[name])
		o.requests, o.mappings = append(o.requests, of.requests...), append(o.mappings, of.mappings...)
	}
	slices.SortFunc(o.requests, func(a, b resourcev1.DeviceRequest) int { return cmp.Compare(a.Name, b.Name) })
	return o
}

// orderOfOne orders devices for one resource. Containers that last, sidecars among them, have devices of their own. An init container that passes has
// those of the containers after it that last, and what it still lacks is asked for once, as much as the one that lacks most: they run one after the other.
func orderOfOne(pod *corev1.Pod, name corev1.ResourceName, class string) order {
	containers := slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers)
	passes := func(i int) bool {
		return i < len(pod.Spec.InitContainers) && !podspec.Sidecar(&containers[i])
	}
	wanted := func(i int) int64 {
		amount := containers[i].Resources.Requests[name]
		return amount.Value()
	}
	request := func(i int, count int64) resourcev1.DeviceRequest {
		at, _ := slices.BinarySearch(slices.Sorted(maps.Keys(containers[i].Resources.Requests)), name)
		return resourcev1.DeviceRequest{Name: fmt.Sprintf("container-%d-request-%d", i, at), Exactly: &resourcev1.ExactDeviceRequest{
			DeviceClassName: class, AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: count,
		}}
	}

	var o order
	use := func(i int, request string) {
		o.mappings = append(o.mappings, corev1.ContainerExtendedResourceRequest{ContainerName: containers[i].Name, ResourceName: string(name), RequestName: request})
	}
	lasting := make([]*resourcev1.DeviceRequest, len(containers))
	for i := range containers {
		if n := wanted(i); n > 0 && !passes(i) {
			r := request(i, n)
			lasting[i] = &r
			o.requests = append(o.requests, r)
			use(i, r.Name)
		}
	}
	var most resourcev1.DeviceRequest
	var lack []int // of the mappings, those to the request of those that pass
	for i := range containers {
		n := wanted(i)
		if n <= 0 || !passes(i) {
			continue
		}
		for _, later := range lasting[i:] {
			if later != nil && n > 0 {
				use(i, later.Name)
				n -= later.Exactly.Count
			}
		}
		if n <= 0 {
			continue
		}
		if most.Exactly == nil || n > most.Exactly.Count {
			most = request(i, n)
		}
		lack = append(lack, len(o.mappings))
		use(i, "")
	}
	for _, m := range lack {
		o.mappings[m].RequestName = most.Name
	}
	if most.Exactly != nil {
		o.requests = append(o.requests, most)
	}
	return o
}

// orders makes the orders of a pod, which differ by what nodes advertise themselves.
type orders struct {
	pod    *corev1.Pod
	view   View
	backed []corev1.ResourceName
	known  map[string]order // by the resources that are not a node's own
}

func ordersOf(pod *corev1.Pod, v View) orders {
	return orders{pod, v, v.backed(pod), map[string]order{}}
}

// on returns the order for a node.
func (o orders) on(n *corev1.Node) order {
	if len(o.backed) == 0 {
		return order{}
	}
	var key strings.Builder
	class := map[corev1.ResourceName]string{}
	for _, name := range o.backed {
		if !Advertises(n, name) {
			class[name] = o.view.Backed(name)
			key.WriteString(string(name) + " ")
		}
	}
	made, ok := o.known[key.String()]
	if !ok {
		made = orderOf(o.pod, class)
		o.known[key.String()] = made
	}
	return made
}

// status is what a pod's status is to say of its order, nil where there is none.
func (o order) status(claim string) *corev1.PodExtendedResourceClaimStatus {
	if len(o.requests) == 0 {
		return nil
	}
	return &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: claim, RequestMappings: o.mappings}
}

// tooMuch says why an order cannot be one claim, "" where it can.
func (o order) tooMuch() string {
	count := int64(0)
	for _, r := range o.requests {
		count += r.Exactly.Count
	}
	return cmp.Or(
		over("requests", int64(len(o.requests)), resourcev1.DeviceRequestsMaxSize),
		over("devices", count, resourcev1.AllocationResultsMaxSize),
	)
}

func over(what string, have int64, most int64) string {
	if have <= most {
		return ""
	}
	return fmt.Sprintf("extended resources need a claim of %d %s, of which it can have %d", have, what, most)
}
