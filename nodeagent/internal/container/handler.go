package container

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// features are what the runtime can do for pods of a handler, "" for its default one.
func (n Node) features(handler string) corev1.NodeRuntimeHandlerFeatures {
	for _, h := range n.Handlers {
		if h.Name == handler && h.Features != nil {
			return *h.Features
		}
	}
	return corev1.NodeRuntimeHandlerFeatures{}
}

// RecursiveReadOnly reports whether a handler can mount recursively read-only.
func (n Node) RecursiveReadOnly(handler string) bool {
	can := n.features(handler).RecursiveReadOnlyMounts
	return can != nil && *can
}

// Takes returns why a handler cannot run the pod, nil where it can.
func (n Node) Takes(p *corev1.Pod, handler string) error {
	if can := n.features(handler).UserNamespaces; OwnUsers(p) && (can == nil || !*can) {
		return fmt.Errorf("RuntimeClass handler %q does not support user namespaces", handler)
	}
	return nil
}
