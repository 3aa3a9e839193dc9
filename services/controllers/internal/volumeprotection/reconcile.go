package volumeprotection

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/object"
	"howdah.dev/kit/reconcile"
	"howdah.dev/services/controllers/internal/controller"
)

var (
	claimKind = object.Kind[*corev1.PersistentVolumeClaim]{
		GVK: corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"), Resource: "persistentvolumeclaims", Namespaced: true,
		New: func() *corev1.PersistentVolumeClaim { return &corev1.PersistentVolumeClaim{} },
	}
	volumeKind = object.Kind[*corev1.PersistentVolume]{
		GVK: corev1.SchemeGroupVersion.WithKind("PersistentVolume"), Resource: "persistentvolumes",
		New: func() *corev1.PersistentVolume { return &corev1.PersistentVolume{} },
	}
)

// protection reconciles claims and volumes.
type protection struct {
	client  *object.Client
	claims  *object.Informer[*corev1.PersistentVolumeClaim]
	volumes *object.Informer[*corev1.PersistentVolume]
	ofClaim *reconcile.Controller
	ofVol   *reconcile.Controller
}

// New returns the controller.
func New(env *controller.Env) controller.Unit {
	c := &protection{
		client: env.Client, claims: object.InformerFor(env.Informers, claimKind), volumes: object.InformerFor(env.Informers, volumeKind),
	}
	c.ofClaim = reconcile.New(reconcile.Config{Name: "pvcprotection", Kind: "PersistentVolumeClaim", Reconcile: c.claim, Metrics: env.Metrics})
	c.ofVol = reconcile.New(reconcile.Config{Name: "pvprotection", Kind: "PersistentVolume", Reconcile: c.volume, Metrics: env.Metrics})
	controller.Handle(env, c.claims, func(_, new *corev1.PersistentVolumeClaim) {
		if new != nil && new.DeletionTimestamp != nil {
			c.ofClaim.Enqueue(object.KeyOf(new), c.claims.Trace(new))
		}
	})
	controller.Handle(env, c.volumes, func(_, new *corev1.PersistentVolume) {
		if new != nil && new.DeletionTimestamp != nil {
			c.ofVol.Enqueue(object.KeyOf(new), c.volumes.Trace(new))
		}
	})
	pods := env.Pods()
	controller.Handle(env, pods, func(old, new *corev1.Pod) {
		if old == nil || new != nil && old.Status.Phase == new.Status.Phase {
			return
		}
		for _, name := range claimsOf(old) {
			if claim, ok := c.claims.Get(old.Namespace, name); ok && claim.DeletionTimestamp != nil {
				c.ofClaim.Enqueue(object.KeyOf(claim), pods.Trace(old))
			}
		}
	})
	return controller.Unit{Queues: []*reconcile.Controller{c.ofClaim, c.ofVol}}
}

// claim lets a claim go. The pods are read as of now: one that was bound to a node a moment ago would lose its volume.
func (c *protection) claim(ctx context.Context, key string) (time.Duration, error) {
	claim, ok := c.claims.GetKey(key)
	if !ok || !ClaimFree(claim, nil) {
		return 0, nil
	}
	pods, _, err := object.For(c.client, object.Pod).List(ctx, claim.Namespace, metav1.ListOptions{})
	if err != nil || !ClaimFree(claim, pods) {
		return 0, err
	}
	claim = claim.DeepCopy()
	claim.Finalizers = without(claim.Finalizers, ClaimFinalizer)
	_, err = object.For(c.client, claimKind).Update(ctx, claim)
	return 0, settled(err)
}

func (c *protection) volume(ctx context.Context, key string) (time.Duration, error) {
	volume, ok := c.volumes.GetKey(key)
	if !ok || !VolumeFree(volume) {
		return 0, nil
	}
	volume = volume.DeepCopy()
	volume.Finalizers = without(volume.Finalizers, VolumeFinalizer)
	_, err := object.For(c.client, volumeKind).Update(ctx, volume)
	return 0, settled(err)
}

// settled leaves out what the next event sets right.
func settled(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}
