// Package endpoints keeps the Endpoints object of each service with a
// selector: the older form of EndpointSlices, which many clients still read.
package endpoints

import (
	"maps"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/services/controllers/internal/backend"
	"howdah.dev/services/controllers/internal/pod"
)

const (
	// capacity is the most addresses that an Endpoints object may hold.
	capacity     = 1000
	managedLabel = "endpoints.kubernetes.io/managed-by"
	manager      = "endpoint-controller"
	overCapacity = corev1.EndpointsOverCapacity
	truncated    = "truncated"
	// leaderAnnotation marks Endpoints that elect leaders and serve nothing.
	leaderAnnotation = "control-plane.alpha.kubernetes.io/leader"
)

// Decide returns the Endpoints that the service should have, or nil where
// the current ones are right. selected are the pods that its selector selects, trigger is what they are written for.
func Decide(s *corev1.Service, selected []*corev1.Pod, current *corev1.Endpoints, trigger time.Time) *corev1.Endpoints {
	subsets, cut := truncate(subsets(s, selected))
	labels := maps.Clone(s.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[managedLabel] = manager
	delete(labels, corev1.IsHeadlessService)
	if backend.Headless(s) {
		labels[corev1.IsHeadlessService] = ""
	}
	want := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: s.Name}}
	if current != nil {
		want = current.DeepCopy()
		same := (len(current.Subsets)+len(subsets) == 0 || apiequality.Semantic.DeepEqual(current.Subsets, subsets)) && maps.Equal(current.Labels, labels) &&
			(current.Annotations[overCapacity] == truncated) == cut
		if same {
			return nil
		}
	}
	want.Labels, want.Subsets = labels, subsets
	if want.Annotations == nil {
		want.Annotations = map[string]string{}
	}
	backend.Annotate(want.Annotations, trigger)
	delete(want.Annotations, overCapacity)
	if cut {
		want.Annotations[overCapacity] = truncated
	}
	return want
}

// subsets are the pods' addresses by the ports that they answer on.
func subsets(s *corev1.Service, pods []*corev1.Pod) []corev1.EndpointSubset {
	family := backend.Families(s)[0]
	groups := map[string]*corev1.EndpointSubset{}
	for _, p := range pods {
		ip := backend.Address(p, family)
		if ip == "" || !backend.Reachable(p) || p.DeletionTimestamp != nil && !s.Spec.PublishNotReadyAddresses {
			continue
		}
		ports := backend.Ports(s, p)
		if len(ports) == 0 && (len(s.Spec.Ports) > 0 || !backend.Headless(s)) {
			continue
		}
		address := corev1.EndpointAddress{IP: ip, Hostname: backend.Hostname(s, p), TargetRef: backend.Reference(p)}
		if p.Spec.NodeName != "" {
			address.NodeName = &p.Spec.NodeName
		}
		key := keyOf(ports)
		g := groups[key]
		if g == nil {
			g = &corev1.EndpointSubset{}
			for _, port := range ports {
				g.Ports = append(g.Ports, corev1.EndpointPort{Name: port.Name, Port: port.Number, Protocol: port.Protocol, AppProtocol: port.AppProtocol})
			}
			groups[key] = g
		}
		if s.Spec.PublishNotReadyAddresses || pod.Ready(p) {
			g.Addresses = append(g.Addresses, address)
		} else {
			g.NotReadyAddresses = append(g.NotReadyAddresses, address)
		}
	}
	all := make([]corev1.EndpointSubset, 0, len(groups))
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		all = append(all, *groups[key])
	}
	return backend.Repack(all)
}

// keyOf tells two pods' ports apart. It is asked of thousands of pods at every change of one.
func keyOf(ports []backend.Port) string {
	var key []byte
	for _, p := range ports {
		key = strconv.AppendQuote(key, p.Name)
		key = strconv.AppendInt(key, int64(p.Number), 10)
		key = append(key, p.Protocol...)
	}
	return string(key)
}

// truncate drops what is over capacity, addresses that are not ready first. The subsets give way by their sizes, so that none is lost to one before it;
// shares are rounded up, and it is the last ones that get what is left.
func truncate(all []corev1.EndpointSubset) ([]corev1.EndpointSubset, bool) {
	ready, waiting := 0, 0
	for _, s := range all {
		ready += len(s.Addresses)
		waiting += len(s.NotReadyAddresses)
	}
	if ready+waiting <= capacity {
		return all, false
	}
	roomReady := min(ready, capacity)
	roomWaiting := capacity - roomReady
	takeReady, takeWaiting := sharing(ready, roomReady), sharing(waiting, roomWaiting)
	var kept []corev1.EndpointSubset
	for _, s := range all {
		s.Addresses = takeReady(s.Addresses)
		s.NotReadyAddresses = takeWaiting(s.NotReadyAddresses)
		if len(s.Addresses)+len(s.NotReadyAddresses) > 0 {
			kept = append(kept, s)
		}
	}
	return kept, true
}

// sharing is a function that cuts lists, which hold total addresses together, one after the other so that room of them are left.
func sharing(total, room int) func([]corev1.EndpointAddress) []corev1.EndpointAddress {
	left := room
	return func(list []corev1.EndpointAddress) []corev1.EndpointAddress {
		if len(list) == 0 {
			return nil
		}
		share := min((len(list)*room+total-1)/total, left)
		left -= share
		return list[:share]
	}
}
