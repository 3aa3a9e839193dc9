// Package csinode takes the CSI drivers that register on the node into use, and tells the API of them: the CSINode says which there are and
// what the node is called by each, the Node bears their topology as labels.
package csinode

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/util/version"

	"howdah.dev/kit/object"
)

// nodeIDAnnotation of a Node says what drivers call it, as JSON.
const nodeIDAnnotation = "csi.volume.kubernetes.io/nodeid"

// Driver is what a driver says of the node.
type Driver struct {
	NodeID string
	// MaxVolumes is how many volumes of the driver the node can have; 0 is any number.
	MaxVolumes int64
	Topology   map[string]string
}

// supported says why none of the versions of a driver can be used.
func supported(versions []string) error {
	for _, text := range versions {
		if v, err := version.ParseGeneric(strings.TrimPrefix(text, "v")); err == nil && v.Major() == 1 {
			return nil
		}
	}
	return fmt.Errorf("none of the CSI versions reported by this driver (%s) are supported", strings.Join(versions, ", "))
}

// describe returns a CSINode that has the drivers, and none of those that are gone. Others stay: their sockets may be about to come.
func describe(node *storagev1.CSINode, drivers map[string]Driver, gone map[string]bool) *storagev1.CSINode {
	node = node.DeepCopy()
	node.Spec.Drivers = slices.DeleteFunc(node.Spec.Drivers, func(d storagev1.CSINodeDriver) bool { return gone[d.Name] })
	for _, name := range slices.Sorted(maps.Keys(drivers)) {
		said := storagev1.CSINodeDriver{
			Name: name, NodeID: drivers[name].NodeID, TopologyKeys: slices.Sorted(maps.Keys(drivers[name].Topology)),
		}
		if most := drivers[name].MaxVolumes; most > 0 {
			count := int32(min(most, 1<<31-1))
			said.Allocatable = &storagev1.VolumeNodeResources{Count: &count}
		}
		at := slices.IndexFunc(node.Spec.Drivers, func(d storagev1.CSINodeDriver) bool { return d.Name == name })
		if at < 0 {
			node.Spec.Drivers = append(node.Spec.Drivers, said)
		} else {
			node.Spec.Drivers[at] = said
		}
	}
	return node
}

// label returns a Node with the topology of the drivers and their names for it. Two drivers, or a driver and somebody else, that disagree about
// the value of a label are an error.
func label(node *corev1.Node, drivers map[string]Driver, gone map[string]bool) (*corev1.Node, error) {
	node = node.DeepCopy()
	for _, name := range slices.Sorted(maps.Keys(drivers)) {
		for key, value := range drivers[name].Topology {
			if there, ok := node.Labels[key]; ok && there != value {
				return nil, fmt.Errorf("detected topology value collision: driver reported %q:%q but existing label is %q:%q", key, value, key, there)
			}
			if node.Labels == nil {
				node.Labels = map[string]string{}
			}
			node.Labels[key] = value
		}
	}
	if node.Annotations == nil {
		node.Annotations = map[string]string{}
	}
	node.Annotations[object.ManagedAttachAnnotation] = "true"
	ids := map[string]string{}
	if raw := node.Annotations[nodeIDAnnotation]; raw != "" {
		if err := json.Unmarshal([]byte(raw), &ids); err != nil {
			return nil, fmt.Errorf("annotation %s: %w", nodeIDAnnotation, err)
		}
	}
	for name := range gone {
		delete(ids, name)
	}
	for name, d := range drivers {
		ids[name] = d.NodeID
	}
	if len(ids) == 0 {
		delete(node.Annotations, nodeIDAnnotation)
		return node, nil
	}
	raw, err := json.Marshal(ids)
	if err != nil {
		return nil, err
	}
	node.Annotations[nodeIDAnnotation] = string(raw)
	return node, nil
}
