// Package volumeexpand tells who waits for a bigger volume that somebody else makes it bigger: the resizer of the volume's driver. No kind of
// volume is resized by the control plane itself.
package volumeexpand

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"

	"howdah.dev/kit/object"
	"howdah.dev/kit/reconcile"
	"howdah.dev/services/controllers/internal/controller"
)

// Waits reports whether a claim asks for more than it has.
func Waits(claim *corev1.PersistentVolumeClaim) bool {
	wanted, has := claim.Spec.Resources.Requests[corev1.ResourceStorage], claim.Status.Capacity[corev1.ResourceStorage]
	return claim.Status.Phase == corev1.ClaimBound && claim.Spec.VolumeName != "" && wanted.Cmp(has) > 0
}

type expand struct {
	events  record.EventRecorder
	claims  *object.Informer[*corev1.PersistentVolumeClaim]
	volumes *object.Informer[*corev1.PersistentVolume]
}

// New returns the controller.
func New(env *controller.Env) controller.Unit {
	c := &expand{
		events: env.Recorder("volume_expand"), claims: object.InformerFor(env.Informers, object.PersistentVolumeClaim),
		volumes: object.InformerFor(env.Informers, object.PersistentVolume),
	}
	queue := reconcile.New(reconcile.Config{Name: "volumeexpand", Kind: "PersistentVolumeClaim", Reconcile: c.reconcile, Metrics: env.Metrics, Clock: env.Clock})
	controller.Handle(env, c.claims, func(old, new *corev1.PersistentVolumeClaim) {
		if new != nil && Waits(new) && (old == nil || !Waits(old) || bigger(new, old)) {
			queue.Enqueue(object.KeyOf(new), c.claims.Trace(new))
		}
	})
	// The volume may be heard of after its claim.
	controller.Handle(env, c.volumes, func(old, new *corev1.PersistentVolume) {
		if new != nil && new.Spec.ClaimRef != nil && (old == nil || old.Spec.ClaimRef == nil || old.Spec.ClaimRef.UID != new.Spec.ClaimRef.UID) {
			queue.Enqueue(object.Key(new.Spec.ClaimRef.Namespace, new.Spec.ClaimRef.Name), c.volumes.Trace(new))
		}
	})
	return controller.Unit{Queues: []*reconcile.Controller{queue}}
}

func bigger(a, b *corev1.PersistentVolumeClaim) bool {
	x, y := a.Spec.Resources.Requests[corev1.ResourceStorage], b.Spec.Resources.Requests[corev1.ResourceStorage]
	return x.Cmp(y) > 0
}

func (c *expand) reconcile(_ context.Context, key string) (time.Duration, error) {
	claim, ok := c.claims.GetKey(key)
	if !ok || !Waits(claim) {
		return 0, nil
	}
	v, ok := c.volumes.Get("", claim.Spec.VolumeName)
	if !ok || v.Spec.ClaimRef == nil || v.Spec.ClaimRef.UID != claim.UID {
		return 0, nil
	}
	c.events.Event(claim, corev1.EventTypeNormal, "ExternalExpanding", "waiting for an external controller to expand this PVC")
	return 0, nil
}
