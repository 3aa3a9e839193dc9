package attachdetach

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/kit/object"
)

// kind is one of volumes that nobody has to bring to a node: that one is attached is a note in the status of the Node and nothing else, and what the
// note is for is that no other node gets it.
type kind struct {
	// plugin is what Kubernetes calls the kind, with which the names of its volumes begin.
	plugin string
	// inline and bound return the name of a volume of a pod's, and of a PersistentVolume; "" where it is of another kind.
	inline func(*corev1.VolumeSource) corev1.UniqueVolumeName
	bound  func(*corev1.PersistentVolumeSource) corev1.UniqueVolumeName
}

// kinds are those that are noted. Another one is a row here, with a file for what it is called.
func kinds() []kind { return []kind{iscsi} }

// announcement is what the annotation of a node says of them.
func announcement() string {
	var plugins []string
	for _, k := range kinds() {
		plugins = append(plugins, k.plugin)
	}
	return strings.Join(plugins, ",")
}

// isNote reports whether what the status of a node calls attached is so by being called it.
func isNote(name corev1.UniqueVolumeName) bool {
	return slices.ContainsFunc(kinds(), func(k kind) bool { return strings.HasPrefix(string(name), k.plugin+"/") })
}

// notes are the volumes that are attached to a node by being called so.
func notes(node *corev1.Node) []corev1.UniqueVolumeName {
	var names []corev1.UniqueVolumeName
	if node != nil {
		for _, a := range node.Status.VolumesAttached {
			if isNote(a.Name) {
				names = append(names, a.Name)
			}
		}
	}
	return names
}

// ofPod returns a volume that is in a pod's specification alone. It has no access modes, so any number of nodes may have it.
func ofPod(v *corev1.Volume) (Volume, bool) {
	for _, k := range kinds() {
		if name := k.inline(&v.VolumeSource); name != "" {
			return Volume{PV: v.Name, Name: name, Noted: true, Shared: true}, true
		}
	}
	return Volume{}, false
}

// ofCluster returns a PersistentVolume.
func ofCluster(pv *corev1.PersistentVolume) (Volume, bool) {
	if s := pv.Spec.CSI; s != nil {
		return Volume{PV: pv.Name, Driver: s.Driver, Handle: s.VolumeHandle, Name: object.AttachableName(s.Driver, s.VolumeHandle), Shared: Shared(pv)}, true
	}
	for _, k := range kinds() {
		if name := k.bound(&pv.Spec.PersistentVolumeSource); name != "" {
			return Volume{PV: pv.Name, Name: name, Noted: true, Shared: Shared(pv)}, true
		}
	}
	return Volume{}, false
}
