package plugin

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	kit "howdah.dev/kit/object"
	"howdah.dev/services/apiserver/internal/admission"
)

// restrictClaim lets a node tell how large a volume has become, and nothing else.
func restrictClaim(a *admission.Attributes, node string) error {
	if a.Subresource != "status" || a.Operation != admission.Update {
		return a.Forbidden(fmt.Errorf("may only update PVC status"))
	}
	claim, ok := a.Object.(*corev1.PersistentVolumeClaim)
	old, okOld := a.Old.(*corev1.PersistentVolumeClaim)
	if !ok || !okOld {
		return nil
	}
	claim, old = claim.DeepCopy(), old.DeepCopy()
	for _, c := range []*corev1.PersistentVolumeClaim{claim, old} {
		c.Status.Capacity, c.Status.Conditions = nil, nil
		c.Status.AllocatedResources, c.Status.AllocatedResourceStatuses = nil, nil
		c.ManagedFields, c.ResourceVersion = nil, ""
	}
	if !equality.Semantic.DeepEqual(claim, old) {
		return a.Forbidden(fmt.Errorf("node %q is not allowed to update fields other than status.quantity and status.conditions", node))
	}
	return nil
}

// restrictVolume lets a node take its finalizer off a volume that is deleted and a folder of its own, and change nothing else of volumes.
func restrictVolume(a *admission.Attributes, node string) error {
	volume, ok := a.Object.(*corev1.PersistentVolume)
	old, okOld := a.Old.(*corev1.PersistentVolume)
	if !ok || !okOld || a.Operation != admission.Update || a.Subresource != "" || old.Labels[kit.LocalPathNodeLabel] != node || old.DeletionTimestamp == nil {
		return a.Forbidden(fmt.Errorf("node %q may only let volumes go that are folders of its own", node))
	}
	volume, old = volume.DeepCopy(), old.DeepCopy()
	old.Finalizers = slices.DeleteFunc(old.Finalizers, func(f string) bool { return f == kit.LocalPathFinalizer })
	for _, v := range []*corev1.PersistentVolume{volume, old} {
		v.ManagedFields, v.ResourceVersion = nil, ""
		v.Status = corev1.PersistentVolumeStatus{} // no part of this write
	}
	if !equality.Semantic.DeepEqual(volume, old) {
		return a.Forbidden(fmt.Errorf("node %q is not allowed to change volumes but for the finalizer %s", node, kit.LocalPathFinalizer))
	}
	return nil
}

// restrictSlice lets a node publish the devices of its own.
func restrictSlice(a *admission.Attributes, node string) error {
	var obj any = a.Object
	verb := "create"
	switch a.Operation {
	case admission.Create:
	case admission.Delete:
		obj, verb = a.Old, "delete"
	default:
		return nil
	}
	slice, ok := obj.(*resourcev1.ResourceSlice)
	if ok && (slice.Spec.NodeName == nil || *slice.Spec.NodeName != node) {
		return a.Forbidden(fmt.Errorf("can only %s ResourceSlice with the same NodeName as the requesting node", verb))
	}
	return nil
}
