// Package storage is the scheduler's picture of claims and persistent volumes: what the API shows of them, what the scheduler has decided and
// not written yet, and which volumes a pod would take on a node. Deciding is pure, over a View.
package storage

import (
	"iter"
	"slices"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/component-helpers/storage/volume"

	"howdah.dev/services/scheduler/internal/table"
)

// View is the storage of the cluster at one moment. It never changes; the zero View is a cluster without any.
type View struct {
	claims      table.Table[*corev1.PersistentVolumeClaim] // by namespace/name
	volumes     table.Table[*Volume]                       // by name
	byClass     table.Table[*Volume]                       // by class, then name
	classes     table.Table[*storagev1.StorageClass]       // by name
	nodes       table.Table[*storagev1.CSINode]            // by name
	drivers     table.Table[*storagev1.CSIDriver]          // by name
	capacities  table.Table[*storagev1.CSIStorageCapacity] // by class, then namespace/name
	attachments table.Table[*storagev1.VolumeAttachment]   // by node, then name
}

// Volume is a persistent volume whose node affinity is ready to match.
type Volume struct {
	*corev1.PersistentVolume
	selector *nodeaffinity.LazyErrorNodeSelector // nil: every node reaches it
	// pins has a label and its values for each term of the selector, of which a node must have one; nil where a term names none. Most volumes
	// are on one node, and there are as many of them as nodes.
	pins []corev1.NodeSelectorRequirement
}

func newVolume(pv *corev1.PersistentVolume) *Volume {
	v := &Volume{PersistentVolume: pv}
	if a := pv.Spec.NodeAffinity; a != nil && a.Required != nil {
		v.selector = nodeaffinity.NewLazyErrorNodeSelector(a.Required)
		v.pins = pins(a.Required.NodeSelectorTerms)
	}
	return v
}

func pins(terms []corev1.NodeSelectorTerm) []corev1.NodeSelectorRequirement {
	var found []corev1.NodeSelectorRequirement
	for _, t := range terms {
		i := slices.IndexFunc(t.MatchExpressions, func(r corev1.NodeSelectorRequirement) bool { return r.Operator == corev1.NodeSelectorOpIn })
		if i < 0 {
			return nil
		}
		found = append(found, t.MatchExpressions[i])
	}
	return found
}

// Reachable reports whether the volume's node affinity selects a node.
func (v *Volume) Reachable(from *corev1.Node) bool {
	if v.selector == nil {
		return true
	}
	if v.pins != nil && !slices.ContainsFunc(v.pins, func(pin corev1.NodeSelectorRequirement) bool {
		value, ok := from.Labels[pin.Key]
		return ok && slices.Contains(pin.Values, value)
	}) {
		return false
	}
	ok, err := v.selector.Match(from)
	return ok && err == nil
}

// Claim returns a claim, nil where there is none.
func (v View) Claim(namespace, name string) *corev1.PersistentVolumeClaim {
	return v.claims.Get(table.Key(namespace, name))
}

// Volume returns a persistent volume, nil where there is none.
func (v View) Volume(name string) *Volume { return v.volumes.Get(name) }

// Class returns a storage class, nil where there is none.
func (v View) Class(name string) *storagev1.StorageClass { return v.classes.Get(name) }

// CSINode returns what the CSI drivers say of a node, nil where they say nothing.
func (v View) CSINode(name string) *storagev1.CSINode { return v.nodes.Get(name) }

// Attachments are the volumes that are attached to a node, or on their way there.
func (v View) Attachments(node string) iter.Seq[*storagev1.VolumeAttachment] {
	return v.attachments.Under(node)
}

// With returns the view as it is once a choice is written.
func (v View) With(c *Choice) View {
	v = v.clone()
	for _, b := range c.Bindings {
		v.setVolume(b.Volume)
	}
	for _, p := range c.Provisions {
		v.claims.Set(table.Key(p.Claim.Namespace, p.Claim.Name), p.Claim)
	}
	return v
}

func (v View) clone() View {
	return View{
		claims: v.claims.Clone(), volumes: v.volumes.Clone(), byClass: v.byClass.Clone(), classes: v.classes.Clone(),
		nodes: v.nodes.Clone(), drivers: v.drivers.Clone(), capacities: v.capacities.Clone(), attachments: v.attachments.Clone(),
	}
}

func (v *View) setVolume(pv *corev1.PersistentVolume) {
	v.deleteVolume(pv.Name)
	made := newVolume(pv)
	v.volumes.Set(pv.Name, made)
	v.byClass.Set(table.Part(volume.GetPersistentVolumeClass(pv), pv.Name), made)
}

func (v *View) deleteVolume(name string) {
	if old := v.volumes.Get(name); old != nil {
		v.byClass.Delete(table.Part(volume.GetPersistentVolumeClass(old.PersistentVolume), name))
		v.volumes.Delete(name)
	}
}
