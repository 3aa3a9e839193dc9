// Package rotation knows which of a node's pods services send new requests to, so that a pod that is deleted is ended
// only when nobody does any more.
package rotation

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Members are the pods of one node in the EndpointSlices.
type Members struct {
	node string

	mu      sync.Mutex
	slices  map[types.NamespacedName]map[types.UID]bool
	changed chan struct{} // closed when a slice has changed
}

// New returns the members of a node, none yet.
func New(node string) *Members {
	return &Members{node: node, slices: map[types.NamespacedName]map[types.UID]bool{}, changed: make(chan struct{})}
}

// Update takes in a new or changed slice.
func (m *Members) Update(slice *discoveryv1.EndpointSlice) {
	pods := map[types.UID]bool{}
	for i := range slice.Endpoints {
		if e := &slice.Endpoints[i]; inRotation(e) && e.NodeName != nil && *e.NodeName == m.node {
			pods[e.TargetRef.UID] = true
		}
	}
	m.set(types.NamespacedName{Namespace: slice.Namespace, Name: slice.Name}, pods)
}

// Delete takes out a slice.
func (m *Members) Delete(slice *discoveryv1.EndpointSlice) {
	m.set(types.NamespacedName{Namespace: slice.Namespace, Name: slice.Name}, nil)
}

func (m *Members) set(name types.NamespacedName, pods map[types.UID]bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(pods) == 0 {
		delete(m.slices, name)
	} else {
		m.slices[name] = pods
	}
	close(m.changed)
	m.changed = make(chan struct{})
}

// inRotation: a slice that calls an endpoint terminating has heard of the deletion, also where a service wants
// addresses that are not ready.
func inRotation(e *discoveryv1.Endpoint) bool {
	return e.TargetRef != nil && e.TargetRef.Kind == "Pod" &&
		(e.Conditions.Ready == nil || *e.Conditions.Ready) && (e.Conditions.Terminating == nil || !*e.Conditions.Terminating)
}

// Has reports whether some service sends new requests to the pod.
func (m *Members) Has(pod *corev1.Pod) bool {
	in, _ := m.has(pod.UID)
	return in
}

func (m *Members) has(uid types.UID) (bool, <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, pods := range m.slices {
		if pods[uid] {
			return true, m.changed
		}
	}
	return false, m.changed
}

// Left waits until no service sends new requests to the pod; the error is ctx's.
func (m *Members) Left(ctx context.Context, pod *corev1.Pod) error {
	for {
		in, changed := m.has(pod.UID)
		if !in {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
