package objects

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/services/apiserver/internal/codec"
	"howdah.dev/services/apiserver/internal/registry"
)

// initialized returns the items that do not wait for initializers. A page of a list may so have fewer than its limit, or none.
func (s *Server) initialized(items []*codec.Item) []*codec.Item {
	if !slices.ContainsFunc(items, s.Initializers.Hides) {
		return items // which may be shared
	}
	kept := make([]*codec.Item, 0, len(items))
	for _, item := range items {
		if !s.Initializers.Hides(item) {
			kept = append(kept, item)
		}
	}
	return kept
}

// uninitializedPod reports whether an object is a pod that waits for initializers: nothing acts on it yet, so that it may be changed as if it were
// new.
func (s *Server) uninitializedPod(obj registry.Object) bool {
	if s.Initializers == nil {
		return false
	}
	_, pod := obj.(*corev1.Pod)
	return pod && s.Initializers.Waits(obj)
}

// fails reports whether an update tells of an initializer that has failed.
func (s *Server) fails(obj registry.Object) bool {
	return s.Initializers != nil && s.Initializers.Fails(obj)
}
