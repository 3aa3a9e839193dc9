package storage

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/storage/volume"

	"howdah.dev/services/scheduler/internal/table"
)

var errNoTerm = errors.New("no matching NodeSelectorTerms")

// Progress reports whether all claims of a choice that was written are bound. An error says that they will not be: the pod needs another choice.
// node is the chosen one as it is now, nil where it is gone.
func (v View) Progress(c *Choice, node *corev1.Node) (done bool, err error) {
	if node == nil {
		return false, fmt.Errorf("failed to get node %q: node %q not found", c.Node, c.Node)
	}
	done = true
	for _, b := range c.Bindings {
		pv := v.Volume(b.Volume.Name)
		claim := v.Claim(b.Claim.Namespace, b.Claim.Name)
		switch {
		case pv == nil:
			return false, fmt.Errorf("failed to check binding: persistentvolumes %q not found", b.Volume.Name)
		case claim == nil || claim.UID != b.Claim.UID:
			return false, fmt.Errorf("failed to check binding: persistentvolumeclaims %q not found", table.Key(b.Claim.Namespace, b.Claim.Name))
		case !pv.Reachable(node):
			return false, outside(pv, node)
		case pv.Spec.ClaimRef == nil || pv.Spec.ClaimRef.UID != b.Claim.UID:
			return false, fmt.Errorf("ClaimRef got reset for pv %q", pv.Name)
		}
		done = done && Bound(claim)
	}
	for _, p := range c.Provisions {
		claim := v.Claim(p.Claim.Namespace, p.Claim.Name)
		switch {
		case claim == nil || claim.UID != p.Claim.UID:
			return false, fmt.Errorf("failed to check provisioning pvc: persistentvolumeclaims %q not found", table.Key(p.Claim.Namespace, p.Claim.Name))
		case claim.Annotations == nil:
			return false, fmt.Errorf("selectedNode annotation reset for PVC %q", claim.Name)
		case claim.Annotations[volume.AnnSelectedNode] != c.Node:
			return false, fmt.Errorf("provisioning failed for PVC %q", claim.Name)
		}
		if claim.Spec.VolumeName != "" {
			pv := v.Volume(claim.Spec.VolumeName)
			if pv == nil { // it is known later than the claim, or gone, and then the claim will tell
				done = false
				continue
			}
			if !pv.Reachable(node) {
				return false, outside(pv, node)
			}
		}
		done = done && Bound(claim)
	}
	return done, nil
}

func outside(pv *Volume, node *corev1.Node) error {
	return fmt.Errorf("pv %q node affinity doesn't match node %q: %w", pv.Name, node.Name, errNoTerm)
}
