// Package plugin holds the admission plugins, a file each, and the order in which they run.
package plugin

import (
	"k8s.io/utils/clock"

	"howdah.dev/services/apiserver/internal/admission"
)

// All returns every plugin in the order in which Kubernetes runs them.
func All(objects admission.Objects, clock clock.Clock) []admission.Plugin {
	return []admission.Plugin{
		&NamespaceLifecycle{Objects: objects},
		&ServiceAccount{Objects: objects, Clock: clock},
		&NodeRestriction{Objects: objects},
		&Priority{Objects: objects},
		&DefaultTolerationSeconds{},
	}
}

// podCreate reports whether the write creates a pod.
func podCreate(a *admission.Attributes) bool {
	return a.Operation == admission.Create && a.Subresource == "" && a.Is("", "pods")
}
