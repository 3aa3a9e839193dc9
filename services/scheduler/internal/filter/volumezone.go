package filter

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/services/scheduler/internal/cluster"
	"howdah.dev/services/scheduler/internal/storage"
)

// VolumeZone refuses nodes in zones and regions other than those that the labels of the pod's volumes name. A node that is in none takes every
// volume.
var VolumeZone = Filter{
	Name: "VolumeZone",
	Of:   OnPlace,
	Ahead: func(pod *corev1.Pod, snapshot cluster.Snapshot) string {
		for _, name := range boundTo(pod, snapshot.Storage) {
			if snapshot.Storage.Volume(name) == nil {
				return fmt.Sprintf("persistentvolume %q not found", name)
			}
		}
		return ""
	},
	Prepare: func(pod *corev1.Pod, snapshot cluster.Snapshot) Check {
		var places []place
		for _, name := range boundTo(pod, snapshot.Storage) {
			if pv := snapshot.Storage.Volume(name); pv != nil {
				places = append(places, placesOf(pv.PersistentVolume)...)
			}
		}
		if len(places) == 0 {
			return nil
		}
		return check{passes: func(n *cluster.Node) bool { return inPlace(n, places) }, reason: "node(s) had no available volume zone"}
	},
}

// boundTo returns the volumes that the pod's claims name. Those of its ephemeral volumes do not count here.
func boundTo(pod *corev1.Pod, view storage.View) []string {
	var names []string
	for _, u := range storage.Uses(pod) {
		if claim := view.Claim(pod.Namespace, u.Claim); !u.Own && claim != nil && claim.Spec.VolumeName != "" {
			names = append(names, claim.Spec.VolumeName)
		}
	}
	return names
}

// zoneLabels are the labels of places, with the newer name of each.
var zoneLabels = []struct{ key, newer string }{
	{corev1.LabelFailureDomainBetaZone, corev1.LabelTopologyZone},
	{corev1.LabelFailureDomainBetaRegion, corev1.LabelTopologyRegion},
	{corev1.LabelTopologyZone, corev1.LabelTopologyZone},
	{corev1.LabelTopologyRegion, corev1.LabelTopologyRegion},
}

// place is where a volume is: in any of the values of a label.
type place struct {
	key, newer string
	values     []string
}

func placesOf(pv *corev1.PersistentVolume) []place {
	var places []place
	for _, l := range zoneLabels {
		value, ok := pv.Labels[l.key]
		if !ok {
			continue
		}
		if values := strings.Split(value, "__"); !slices.Contains(values, "") { // else it is no list of places
			places = append(places, place{l.key, l.newer, values})
		}
	}
	return places
}

func inPlace(n *cluster.Node, places []place) bool {
	somewhere := false
	for _, l := range zoneLabels {
		_, ok := n.Object.Labels[l.key]
		somewhere = somewhere || ok
	}
	if !somewhere {
		return true
	}
	return !slices.ContainsFunc(places, func(p place) bool {
		value, ok := n.Object.Labels[p.key]
		if !ok {
			value, ok = n.Object.Labels[p.newer]
		}
		return !ok || !slices.Contains(p.values, value)
	})
}
