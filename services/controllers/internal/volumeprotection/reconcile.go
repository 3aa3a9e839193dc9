package volumeprotection

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/object"
	"howdah.dev/kit/reconcile"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/pod"
)

var classKind = object.Kind[*storagev1.VolumeAttributesClass]{
	GVK: storagev1.SchemeGroupVersion.WithKind("VolumeAttributesClass"), Resource: "volumeattributesclasses",
	New: func() *storagev1.VolumeAttributesClass { return &storagev1.VolumeAttributesClass{} },
}

// protection reconciles claims, volumes and the classes of their attributes.
type protection struct {
	client  *object.Client
	claims  *object.Informer[*corev1.PersistentVolumeClaim]
	volumes *object.Informer[*corev1.PersistentVolume]
	classes *object.Informer[*storagev1.VolumeAttributesClass]
	ofClaim *reconcile.Controller
	ofVol   *reconcile.Controller
	ofClass *reconcile.Controller
}

// New returns the controller.
func New(env *controller.Env) controller.Unit {
	c := &protection{
		client: env.Client, claims: object.InformerFor(env.Informers, object.PersistentVolumeClaim), volumes: object.InformerFor(env.Informers, object.PersistentVolume),
		classes: object.InformerFor(env.Informers, classKind),
	}
	c.ofClaim = reconcile.New(reconcile.Config{Name: "pvcprotection", Kind: "PersistentVolumeClaim", Reconcile: c.claim, Metrics: env.Metrics})
	c.ofVol = reconcile.New(reconcile.Config{Name: "pvprotection", Kind: "PersistentVolume", Reconcile: c.volume, Metrics: env.Metrics})
	c.ofClass = reconcile.New(reconcile.Config{Name: "vacprotection", Kind: "VolumeAttributesClass", Reconcile: c.class, Metrics: env.Metrics})
	controller.Handle(env, c.classes, func(_, new *storagev1.VolumeAttributesClass) {
		if new != nil && new.DeletionTimestamp != nil {
			c.ofClass.Enqueue(object.KeyOf(new), c.classes.Trace(new))
		}
	})
	controller.Handle(env, c.claims, func(old, new *corev1.PersistentVolumeClaim) {
		if old != nil {
			c.released(classesOfClaim(old), c.claims.Trace(old))
		}
		if new != nil && new.DeletionTimestamp != nil {
			c.ofClaim.Enqueue(object.KeyOf(new), c.claims.Trace(new))
		}
	})
	controller.Handle(env, c.volumes, func(old, new *corev1.PersistentVolume) {
		if old != nil {
			c.released(classesOfVolume(old), c.volumes.Trace(old))
		}
		if new != nil && new.DeletionTimestamp != nil {
			c.ofVol.Enqueue(object.KeyOf(new), c.volumes.Trace(new))
		}
	})
	pods := env.Pods()
	controller.Handle(env, pods, func(old, new *corev1.Pod) {
		if old == nil || new != nil && old.Status.Phase == new.Status.Phase {
			return
		}
		for _, name := range pod.Claims(old) {
			if claim, ok := c.claims.Get(old.Namespace, name); ok && claim.DeletionTimestamp != nil {
				c.ofClaim.Enqueue(object.KeyOf(claim), pods.Trace(old))
			}
		}
	})
	return controller.Unit{Queues: []*reconcile.Controller{c.ofClaim, c.ofVol, c.ofClass}}
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
	_, err = object.For(c.client, object.PersistentVolumeClaim).Update(ctx, claim)
	return 0, settled(err)
}

func (c *protection) volume(ctx context.Context, key string) (time.Duration, error) {
	volume, ok := c.volumes.GetKey(key)
	if !ok || !VolumeFree(volume) {
		return 0, nil
	}
	volume = volume.DeepCopy()
	volume.Finalizers = without(volume.Finalizers, VolumeFinalizer)
	_, err := object.For(c.client, object.PersistentVolume).Update(ctx, volume)
	return 0, settled(err)
}

// released looks again at classes that something had a moment ago.
func (c *protection) released(names []string, cause trace.SpanContext) {
	for _, name := range names {
		if class, ok := c.classes.Get("", name); ok && class.DeletionTimestamp != nil {
			c.ofClass.Enqueue(object.KeyOf(class), cause)
		}
	}
}

// class lets a class go. Claims and volumes are read as of now: one that was made a moment ago would lose its class.
func (c *protection) class(ctx context.Context, key string) (time.Duration, error) {
	class, ok := c.classes.GetKey(key)
	if !ok || !ClassFree(class, nil, nil) {
		return 0, nil
	}
	claims, _, err := object.For(c.client, object.PersistentVolumeClaim).List(ctx, "", metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	volumes, _, err := object.For(c.client, object.PersistentVolume).List(ctx, "", metav1.ListOptions{})
	if err != nil || !ClassFree(class, claims, volumes) {
		return 0, err
	}
	class = class.DeepCopy()
	class.Finalizers = without(class.Finalizers, ClassFinalizer)
	_, err = object.For(c.client, classKind).Update(ctx, class)
	return 0, settled(err)
}

// settled leaves out what the next event sets right.
func settled(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}
