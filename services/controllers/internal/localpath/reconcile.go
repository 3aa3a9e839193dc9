package localpath

import (
	"context"
	"log/slog"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	storage "k8s.io/component-helpers/storage/volume"

	"howdah.dev/kit/object"
	"howdah.dev/kit/reconcile"
	"howdah.dev/services/controllers/internal/controller"
)

const (
	// byNode is the index of our volumes by the name of their node.
	byNode = "local-path volumes by node"
	// retry is how long after a refusal a claim is looked at again.
	retry = 15 * time.Second
)

type provisioner struct {
	client  *object.Client
	events  record.EventRecorder
	claims  *object.Informer[*corev1.PersistentVolumeClaim]
	volumes *object.Informer[*corev1.PersistentVolume]
	classes *object.Informer[*storagev1.StorageClass]
	nodes   *object.Informer[*corev1.Node]
}

// New returns the controller.
func New(env *controller.Env) controller.Unit {
	c := &provisioner{
		client: env.Client, events: env.Recorder(object.LocalPathProvisioner),
		claims: object.InformerFor(env.Informers, object.PersistentVolumeClaim),
		volumes: object.InformerFor(env.Informers, object.PersistentVolume, object.Option{Indexers: cache.Indexers{byNode: func(o any) ([]string, error) {
			if v := o.(*corev1.PersistentVolume); Made(v) {
				return []string{v.Labels[object.LocalPathNodeLabel]}, nil
			}
			return nil, nil
		}}}),
		classes: object.InformerFor(env.Informers, object.StorageClass),
		nodes:   object.InformerFor(env.Informers, object.Node),
	}
	ofClaim := reconcile.New(reconcile.Config{Name: "localpathclaim", Kind: "PersistentVolumeClaim", Workers: 4, Reconcile: c.claim, Metrics: env.Metrics, Clock: env.Clock})
	ofVol := reconcile.New(reconcile.Config{Name: "localpathvolume", Kind: "PersistentVolume", Reconcile: c.volume, Metrics: env.Metrics, Clock: env.Clock})
	controller.Handle(env, c.claims, func(_, new *corev1.PersistentVolumeClaim) {
		if new != nil && (Asked(new) || new.Spec.VolumeName != "") {
			ofClaim.Enqueue(object.KeyOf(new), c.claims.Trace(new))
		}
	})
	controller.Handle(env, c.volumes, func(_, new *corev1.PersistentVolume) {
		if new != nil && (Unneeded(new) || Held(new)) {
			ofVol.Enqueue(new.Name, c.volumes.Trace(new))
		}
		// Claim and volume are heard of in any order: a claim that wants to grow may have waited for its volume.
		if claim := c.claimOf(new); claim != nil && Grows(claim, new) {
			ofClaim.Enqueue(object.KeyOf(claim), c.volumes.Trace(new))
		}
	})
	controller.Handle(env, c.nodes, func(old, new *corev1.Node) {
		if new != nil {
			return
		}
		for _, v := range c.volumes.ByIndex(byNode, old.Name) {
			ofVol.Enqueue(v.Name, c.nodes.Trace(old))
		}
	})
	return controller.Unit{Queues: []*reconcile.Controller{ofClaim, ofVol}}
}

// claimOf returns the claim that a volume is for, or nil while it is not known.
func (c *provisioner) claimOf(v *corev1.PersistentVolume) *corev1.PersistentVolumeClaim {
	if v == nil || v.Spec.ClaimRef == nil {
		return nil
	}
	claim, ok := c.claims.Get(v.Spec.ClaimRef.Namespace, v.Spec.ClaimRef.Name)
	if !ok {
		return nil
	}
	return claim
}

// claim makes the volume that a claim waits for, or lets the claim have the size that it asks for.
func (c *provisioner) claim(ctx context.Context, key string) (time.Duration, error) {
	claim, ok := c.claims.GetKey(key)
	if !ok {
		return 0, nil
	}
	if !Asked(claim) {
		return 0, c.grow(ctx, claim)
	}
	name := storage.GetPersistentVolumeClaimClass(claim)
	class, ok := c.classes.Get("", name)
	if !ok || class.Provisioner != object.LocalPathProvisioner {
		return retry, nil
	}
	// A class that binds at once selects no node: what is wrong with it is told.
	node := &corev1.Node{}
	if selected := claim.Annotations[storage.AnnSelectedNode]; selected != "" {
		var err error
		node, err = object.For(c.client, object.Node).Get(ctx, "", selected)
		if apierrors.IsNotFound(err) {
			return 0, c.reschedule(ctx, claim, selected)
		}
		if err != nil {
			return 0, err
		}
	} else if _, err := settings(class); err == nil {
		return 0, nil
	}
	v, err := Volume(claim, class, node)
	if err != nil {
		c.events.Eventf(claim, corev1.EventTypeWarning, "ProvisioningFailed", "failed to provision volume with StorageClass %q: %v", name, err)
		return retry, nil
	}
	c.events.Eventf(claim, corev1.EventTypeNormal, "Provisioning", "External provisioner is provisioning volume for claim %q", key)
	_, err = object.For(c.client, object.PersistentVolume).Create(ctx, v)
	if apierrors.IsAlreadyExists(err) {
		return 0, nil
	}
	if err != nil {
		c.events.Eventf(claim, corev1.EventTypeWarning, "ProvisioningFailed", "failed to provision volume with StorageClass %q: %v", name, err)
		return 0, err
	}
	c.events.Eventf(claim, corev1.EventTypeNormal, "ProvisioningSucceeded", "Successfully provisioned volume %s", v.Name)
	return 0, nil
}

// reschedule asks the scheduler for another node: the one that it selected is gone.
func (c *provisioner) reschedule(ctx context.Context, claim *corev1.PersistentVolumeClaim, node string) error {
	c.events.Eventf(claim, corev1.EventTypeWarning, "ProvisioningFailed", "failed to get target node: nodes %q not found", node)
	claim = claim.DeepCopy()
	delete(claim.Annotations, storage.AnnSelectedNode)
	_, err := object.For(c.client, object.PersistentVolumeClaim).Update(ctx, claim)
	return settled(err)
}

// grow lets a claim have what it asks for.
func (c *provisioner) grow(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	v, ok := c.volumes.Get("", claim.Spec.VolumeName)
	if !ok || !Grows(claim, v) {
		return nil
	}
	wanted := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if has := v.Spec.Capacity[corev1.ResourceStorage]; has.Cmp(wanted) < 0 {
		v = v.DeepCopy()
		v.Spec.Capacity[corev1.ResourceStorage] = wanted
		if _, err := object.For(c.client, object.PersistentVolume).Update(ctx, v); err != nil {
			return err
		}
	}
	claim = claim.DeepCopy()
	claim.Status.Capacity[corev1.ResourceStorage] = wanted
	_, err := object.For(c.client, object.PersistentVolumeClaim).UpdateStatus(ctx, claim)
	return settled(err)
}

// volume deletes a volume that nobody needs, and lets one go whose node is gone: its folder went with it.
func (c *provisioner) volume(ctx context.Context, name string) (time.Duration, error) {
	v, ok := c.volumes.GetKey(name)
	switch {
	case !ok:
		return 0, nil
	case Unneeded(v):
		err := object.For(c.client, object.PersistentVolume).Delete(ctx, "", name, metav1.DeleteOptions{
			Preconditions: object.AsSeen(v),
		})
		return 0, settled(err)
	case !Held(v):
		return 0, nil
	}
	node := v.Labels[object.LocalPathNodeLabel]
	_, err := object.For(c.client, object.Node).Get(ctx, "", node)
	if !apierrors.IsNotFound(err) {
		return 0, err
	}
	slog.InfoContext(ctx, "a volume is let go, since its node is gone", "name", name, "node", node)
	v = v.DeepCopy()
	v.Finalizers = slices.DeleteFunc(v.Finalizers, func(f string) bool { return f == object.LocalPathFinalizer })
	_, err = object.For(c.client, object.PersistentVolume).Update(ctx, v)
	return 0, settled(err)
}

// settled leaves out what the next event sets right.
func settled(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}
