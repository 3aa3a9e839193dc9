package storage

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"
)

// Why a node does not do for the claims of a pod, in Kubernetes' words.
const (
	outOfReach = "node(s) didn't match PersistentVolume's node affinity"
	noneFits   = "node(s) didn't find available persistent volumes to bind"
	noSpace    = "node(s) did not have enough free storage"
	volumeGone = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
)

// Wants is what the claims of a pod ask of a node.
type Wants struct {
	bound   []*Volume // nil for one that is gone
	waiting []want    // the smallest first
}

// want is a claim that is bound only once its pod has a node.
type want struct {
	claim *corev1.PersistentVolumeClaim
	// node is the one that the claim is being provisioned for already.
	node string
	// own are the volumes that are kept for this claim: where there is one, no other will do.
	own []*Volume
	// free are the volumes that could be bound to it, the smallest first.
	free []*Volume
	// provisioned says that its class can make a volume: where topologies allow it and, if it is counted, where there is room.
	provisioned bool
	topologies  []corev1.TopologySelectorTerm
	counted     bool
	room        []labels.Selector
}

// WantsOf works out what a pod wants that Refusal refuses nothing of.
func WantsOf(pod *corev1.Pod, v View) Wants {
	var w Wants
	var seen []string
	for _, u := range Uses(pod) {
		claim := v.Claim(pod.Namespace, u.Claim)
		if claim == nil || slices.Contains(seen, u.Claim) {
			continue
		}
		seen = append(seen, u.Claim)
		if Bound(claim) {
			w.bound = append(w.bound, v.Volume(claim.Spec.VolumeName))
		} else if v.waits(claim) {
			w.waiting = append(w.waiting, v.want(claim))
		}
	}
	slices.SortStableFunc(w.waiting, func(a, b want) int { return size(a.claim).Cmp(*size(b.claim)) })
	return w
}

func size(claim *corev1.PersistentVolumeClaim) *resource.Quantity {
	q := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	return &q
}

// want works out what does not depend on the node.
func (v View) want(claim *corev1.PersistentVolumeClaim) want {
	class := v.Class(volume.GetPersistentVolumeClaimClass(claim))
	w := want{claim: claim, node: claim.Annotations[volume.AnnSelectedNode]}
	w.provisioned = class.Provisioner != "" && class.Provisioner != volume.NotSupportedProvisioner
	w.topologies = class.AllowedTopologies
	if w.provisioned {
		w.counted, w.room = v.room(claim, class)
	}
	if w.node != "" {
		return w
	}
	selector := labels.Everything()
	if claim.Spec.Selector != nil {
		var err error
		if selector, err = metav1.LabelSelectorAsSelector(claim.Spec.Selector); err != nil {
			selector = labels.Nothing() // validation lets none in
		}
	}
	for pv := range v.byClass.Under(class.Name) {
		switch {
		case pv.Spec.ClaimRef != nil && !volume.IsVolumeBoundToClaim(pv.PersistentVolume, claim), !suits(claim, pv):
		case pv.Spec.ClaimRef != nil:
			w.own = append(w.own, pv)
		case pv.Status.Phase == corev1.VolumeAvailable && selector.Matches(labels.Set(pv.Labels)) && volume.CheckAccessModes(claim, pv.PersistentVolume):
			w.free = append(w.free, pv)
		}
	}
	slices.SortStableFunc(w.free, func(a, b *Volume) int {
		x, y := a.Spec.Capacity[corev1.ResourceStorage], b.Spec.Capacity[corev1.ResourceStorage]
		return cmp.Or(x.Cmp(y), strings.Compare(a.Name, b.Name))
	})
	return w
}

// suits reports whether a volume could serve a claim, were it free.
func suits(claim *corev1.PersistentVolumeClaim, pv *Volume) bool {
	capacity := pv.Spec.Capacity[corev1.ResourceStorage]
	return capacity.Cmp(*size(claim)) >= 0 && !volume.CheckVolumeModeMismatches(&claim.Spec, &pv.Spec) && pv.DeletionTimestamp == nil &&
		ptr.Deref(claim.Spec.VolumeAttributesClassName, "") == ptr.Deref(pv.Spec.VolumeAttributesClassName, "")
}

// room returns the parts of the cluster where a class has room for a claim, and whether its driver counts that at all.
func (v View) room(claim *corev1.PersistentVolumeClaim, class *storagev1.StorageClass) (counted bool, room []labels.Selector) {
	wanted, sized := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	driver := v.drivers.Get(class.Provisioner)
	if !sized || driver == nil || driver.Spec.StorageCapacity == nil || !*driver.Spec.StorageCapacity {
		return false, nil
	}
	for c := range v.capacities.Under(class.Name) {
		if limit := Limit(c); c.NodeTopology == nil || limit == nil || limit.Cmp(wanted) < 0 {
			continue
		}
		if selector, err := metav1.LabelSelectorAsSelector(c.NodeTopology); err == nil {
			room = append(room, selector)
		}
	}
	return true, room
}

// Limit is the size of the largest volume that a capacity has room for, nil where that is not known.
func Limit(c *storagev1.CSIStorageCapacity) *resource.Quantity {
	if c.MaximumVolumeSize != nil {
		return c.MaximumVolumeSize
	}
	return c.Capacity
}

// Nothing reports whether no node matters more than another.
func (w Wants) Nothing() bool { return len(w.bound) == 0 && len(w.waiting) == 0 }

// Undecided reports whether there are claims that are bound only once the pod has a node.
func (w Wants) Undecided() bool { return len(w.waiting) > 0 }

// On says why a node does not do; nothing where it does.
func (w Wants) On(node *corev1.Node) []string {
	var reasons []string
	gone := false
	for _, pv := range w.bound {
		if gone = pv == nil; gone {
			break
		}
		if !pv.Reachable(node) {
			reasons = append(reasons, outOfReach)
			break
		}
	}
	if _, _, why := w.pick(node); why != "" {
		reasons = append(reasons, why)
	}
	if gone {
		reasons = append(reasons, volumeGone)
	}
	return reasons
}

// pick returns the volume for each waiting claim, nil for one that is to be provisioned, or why there is none. A volume is picked once.
func (w Wants) pick(node *corev1.Node) (picked []*Volume, provisions int, why string) {
	for i := range w.waiting {
		if on := w.waiting[i].node; on != "" && on != node.Name {
			return nil, 0, noneFits
		}
	}
	for i := range w.waiting {
		pv := w.waiting[i].match(node, picked)
		if pv == nil {
			provisions++
		}
		picked = append(picked, pv)
	}
	for i := range w.waiting {
		if picked[i] != nil {
			continue
		}
		if why := w.waiting[i].provision(node); why != "" {
			return nil, 0, why
		}
	}
	return picked, provisions, ""
}

// match finds the volume of a claim for a node among those that are not taken.
func (w *want) match(node *corev1.Node, taken []*Volume) *Volume {
	if len(w.own) > 0 {
		if pv := w.own[0]; pv.Reachable(node) {
			return pv
		}
		return nil
	}
	for _, pv := range w.free {
		if pv.Reachable(node) && !slices.Contains(taken, pv) {
			return pv
		}
	}
	return nil
}

// provision says why no volume can be made for a claim on a node, "" where one can.
func (w *want) provision(node *corev1.Node) string {
	if !w.provisioned || !allowed(w.topologies, node.Labels) {
		return noneFits
	}
	if w.counted && !slices.ContainsFunc(w.room, func(s labels.Selector) bool { return s.Matches(labels.Set(node.Labels)) }) {
		return noSpace
	}
	return ""
}

// allowed reports whether one of the terms, if there are any, selects a node; one without expressions selects none.
func allowed(terms []corev1.TopologySelectorTerm, node labels.Set) bool {
	return len(terms) == 0 || slices.ContainsFunc(terms, func(t corev1.TopologySelectorTerm) bool {
		return len(t.MatchLabelExpressions) > 0 && !slices.ContainsFunc(t.MatchLabelExpressions, func(e corev1.TopologySelectorLabelRequirement) bool {
			return !node.Has(e.Key) || !slices.Contains(e.Values, node[e.Key])
		})
	})
}

// Choice is what binds the claims of a pod that goes to a node.
type Choice struct {
	Node       string
	Bindings   []Binding
	Provisions []Provision
}

// Binding is a volume for a claim.
type Binding struct {
	Claim *corev1.PersistentVolumeClaim
	// Volume is as it is to be, and From as it was when it was chosen: the same where nothing is to be written.
	Volume, From *corev1.PersistentVolume
}

// Provision is a claim for which a volume is to be made.
type Provision struct {
	// Claim is as it is to be, and From as it was: the same where nothing is to be written.
	Claim, From *corev1.PersistentVolumeClaim
}

// Choose returns what binds the waiting claims on a node that does.
func (w Wants) Choose(node *corev1.Node) (*Choice, error) {
	picked, _, _ := w.pick(node)
	c := &Choice{Node: node.Name}
	for i, pv := range picked {
		claim := w.waiting[i].claim
		if pv == nil {
			p := Provision{Claim: claim, From: claim}
			if w.waiting[i].node != node.Name {
				p.Claim = claim.DeepCopy()
				metav1.SetMetaDataAnnotation(&p.Claim.ObjectMeta, volume.AnnSelectedNode, node.Name)
			}
			c.Provisions = append(c.Provisions, p)
			continue
		}
		bound, changed, err := volume.GetBindVolumeToClaim(pv.PersistentVolume, claim)
		if err != nil {
			return nil, err
		}
		if !changed {
			bound = pv.PersistentVolume
		}
		c.Bindings = append(c.Bindings, Binding{Claim: claim, Volume: bound, From: pv.PersistentVolume})
	}
	return c, nil
}
