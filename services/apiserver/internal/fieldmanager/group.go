package fieldmanager

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A write through a version of one group forgets what was owned through versions of another, as Kubernetes does: of the kinds served
// today that is Event alone.

// foreign reports whether one of the entries is of a version of another group than the manager's.
func (m *Manager) foreign(entries []metav1.ManagedFieldsEntry) bool {
	return slices.ContainsFunc(entries, m.isForeign)
}

// own returns the entries that are not foreign.
func (m *Manager) own(entries []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	return slices.DeleteFunc(slices.Clone(entries), m.isForeign)
}

func (m *Manager) isForeign(entry metav1.ManagedFieldsEntry) bool {
	group, _, grouped := strings.Cut(entry.APIVersion, "/")
	if !grouped {
		group = ""
	}
	return m.gvk.Version != "" && group != m.gvk.Group
}
