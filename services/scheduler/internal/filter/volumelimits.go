package filter

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/component-helpers/storage/volume"

	"howdah.dev/services/scheduler/internal/cluster"
	"howdah.dev/services/scheduler/internal/storage"
)

// NodeVolumeLimits refuses nodes that would have more volumes of a CSI driver than the driver can attach there, as its CSINode says. Volumes of
// the plugins that were in Kubernetes' tree are not counted as those of the drivers that took over from them.
var NodeVolumeLimits = Filter{
	Name: "NodeVolumeLimits",
	Prepare: func(pod *corev1.Pod, snapshot cluster.Snapshot) Check {
		wanted := attachable(pod, snapshot.Storage)
		if len(wanted) == 0 {
			return nil
		}
		return check{
			passes: func(n *cluster.Node) bool { return attaches(n, wanted, snapshot.Storage) },
			reason: "node(s) exceed max volume count",
			byPods: true,
		}
	},
}

// attachment is a volume of a CSI driver. That of a claim without a volume is known by the claim.
type attachment struct{ driver, handle, claim string }

// attachable returns what a pod has attached to its node.
func attachable(pod *corev1.Pod, view storage.View) []attachment {
	var found []attachment
	for _, u := range storage.Uses(pod) {
		claim := view.Claim(pod.Namespace, u.Claim)
		if claim == nil {
			continue
		}
		if pv := view.Volume(claim.Spec.VolumeName); pv != nil {
			if csi := pv.Spec.CSI; csi != nil && csi.Driver != "" && csi.VolumeHandle != "" {
				found = append(found, attachment{driver: csi.Driver, handle: csi.VolumeHandle})
			}
			continue
		}
		if class := view.Class(volume.GetPersistentVolumeClaimClass(claim)); class != nil && class.Provisioner != "" {
			found = append(found, attachment{driver: class.Provisioner, claim: claim.Namespace + "/" + claim.Name})
		}
	}
	return found
}

// attaches reports whether a node can have more volumes. One that it has already is none more.
func attaches(n *cluster.Node, wanted []attachment, view storage.View) bool {
	limits := limitsOf(view.CSINode(n.Name), wanted)
	if len(limits) == 0 {
		return true
	}
	there := map[attachment]bool{}
	for _, pod := range n.Claiming {
		for _, a := range attachable(pod, view) {
			there[a] = true
		}
	}
	for a := range view.Attachments(n.Name) {
		if name := a.Spec.Source.PersistentVolumeName; name != nil {
			if pv := view.Volume(*name); pv != nil && pv.Spec.CSI != nil {
				there[attachment{driver: a.Spec.Attacher, handle: pv.Spec.CSI.VolumeHandle}] = true
			}
		}
	}
	more := map[string]bool{}
	for _, a := range wanted {
		if !there[a] {
			there[a], more[a.driver] = true, true
		}
	}
	counts := map[string]int32{}
	for a := range there {
		counts[a.driver]++
	}
	for driver := range more {
		if limit, ok := limits[driver]; ok && counts[driver] > limit {
			return false
		}
	}
	return true
}

// limitsOf returns how many volumes the drivers of what is wanted can attach to a node, where they say so.
func limitsOf(n *storagev1.CSINode, wanted []attachment) map[string]int32 {
	if n == nil {
		return nil
	}
	var limits map[string]int32
	for _, d := range n.Spec.Drivers {
		if d.Allocatable == nil || d.Allocatable.Count == nil {
			continue
		}
		for _, a := range wanted {
			if a.driver == d.Name {
				if limits == nil {
					limits = map[string]int32{}
				}
				limits[d.Name] = *d.Allocatable.Count
			}
		}
	}
	return limits
}
