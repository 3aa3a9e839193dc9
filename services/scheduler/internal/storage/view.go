// Package storage is the scheduler's picture of claims and persistent volumes: what the API shows of them, what the scheduler has decided and
// not written yet, and which volumes a pod would take on a node. Deciding is pure, over a View.
package storage

import (
	"iter"
	"slices"

	"github.com/google/btree"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/component-helpers/storage/volume"
)

// View is the storage of the cluster at one moment. It never changes; the zero View is a cluster without any.
type View struct {
	claims      table[*corev1.PersistentVolumeClaim] // by namespace/name
	volumes     table[*Volume]                       // by name
	byClass     table[*Volume]                       // by class, then name
	classes     table[*storagev1.StorageClass]       // by name
	nodes       table[*storagev1.CSINode]            // by name
	drivers     table[*storagev1.CSIDriver]          // by name
	capacities  table[*storagev1.CSIStorageCapacity] // by class, then namespace/name
	attachments table[*storagev1.VolumeAttachment]   // by node, then name
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
	return v.claims.get(namespace + "/" + name)
}

// Volume returns a persistent volume, nil where there is none.
func (v View) Volume(name string) *Volume { return v.volumes.get(name) }

// Class returns a storage class, nil where there is none.
func (v View) Class(name string) *storagev1.StorageClass { return v.classes.get(name) }

// CSINode returns what the CSI drivers say of a node, nil where they say nothing.
func (v View) CSINode(name string) *storagev1.CSINode { return v.nodes.get(name) }

// Attachments are the volumes that are attached to a node, or on their way there.
func (v View) Attachments(node string) iter.Seq[*storagev1.VolumeAttachment] {
	return v.attachments.under(node)
}

// With returns the view as it is once a choice is written.
func (v View) With(c *Choice) View {
	v = v.clone()
	for _, b := range c.Bindings {
		v.setVolume(b.Volume)
	}
	for _, p := range c.Provisions {
		v.claims.set(key(p.Claim.Namespace, p.Claim.Name), p.Claim)
	}
	return v
}

func (v View) clone() View {
	return View{
		claims: v.claims.clone(), volumes: v.volumes.clone(), byClass: v.byClass.clone(), classes: v.classes.clone(),
		nodes: v.nodes.clone(), drivers: v.drivers.clone(), capacities: v.capacities.clone(), attachments: v.attachments.clone(),
	}
}

func (v *View) setVolume(pv *corev1.PersistentVolume) {
	v.deleteVolume(pv.Name)
	made := newVolume(pv)
	v.volumes.set(pv.Name, made)
	v.byClass.set(part(volume.GetPersistentVolumeClass(pv), pv.Name), made)
}

func (v *View) deleteVolume(name string) {
	if old := v.volumes.get(name); old != nil {
		v.byClass.delete(part(volume.GetPersistentVolumeClass(old.PersistentVolume), name))
		v.volumes.delete(name)
	}
}

func key(namespace, name string) string { return namespace + "/" + name }

// part is the key of a row among those that are asked for together.
func part(group, name string) string { return group + "\x00" + name }

// table is rows in the order of their keys. To clone it costs nothing until one of the two is written to.
type table[T any] struct{ rows *btree.BTreeG[row[T]] }

type row[T any] struct {
	key   string
	value T
}

// degree is that of the trees: rows are small, and read more often than written.
const degree = 32

func (t *table[T]) get(key string) (value T) {
	if t.rows == nil {
		return value
	}
	r, _ := t.rows.Get(row[T]{key: key})
	return r.value
}

func (t *table[T]) set(key string, value T) {
	if t.rows == nil {
		t.rows = btree.NewG(degree, func(a, b row[T]) bool { return a.key < b.key })
	}
	t.rows.ReplaceOrInsert(row[T]{key, value})
}

func (t *table[T]) delete(key string) {
	if t.rows != nil {
		t.rows.Delete(row[T]{key: key})
	}
}

// under returns the values of the keys that part made of a group.
func (t *table[T]) under(group string) iter.Seq[T] {
	return func(yield func(T) bool) {
		if t.rows == nil {
			return
		}
		t.rows.AscendRange(row[T]{key: part(group, "")}, row[T]{key: group + "\x01"}, func(r row[T]) bool { return yield(r.value) })
	}
}

func (t *table[T]) clone() table[T] {
	if t.rows == nil {
		return table[T]{}
	}
	return table[T]{t.rows.Clone()}
}
