package volumerecycler

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"

	"howdah.dev/kit/object"
	"howdah.dev/kit/reconcile"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/persistentvolume"
	"howdah.dev/services/controllers/internal/pod"
)

// byUID is the index of volumes by their uid.
const byUID = "volumes by uid"

// lookAgain is how often a volume is looked at that is still in use.
const lookAgain = 15 * time.Second

type recycling struct {
	client  *object.Client
	events  record.EventRecorder
	volumes *object.Informer[*corev1.PersistentVolume]
	pods    *object.Informer[*corev1.Pod]
	image   string
}

// New returns the controller; image has a shell, rm and ls.
func New(env *controller.Env, image string) (controller.Unit, error) {
	if image == "" {
		return controller.Unit{}, errors.New("volumerecycler: the image of the pods that wipe volumes is needed (--pv-recycler-image)")
	}
	c := build(env, image)
	queue := reconcile.New(reconcile.Config{Name: "volumerecycler", Kind: "PersistentVolume", Reconcile: c.reconcile, Metrics: env.Metrics, Clock: env.Clock})
	controller.Handle(env, c.volumes, func(old, new *corev1.PersistentVolume) {
		switch {
		case new == nil && old.Spec.PersistentVolumeReclaimPolicy == corev1.PersistentVolumeReclaimRecycle:
			queue.Enqueue(old.Name, c.volumes.Trace(old))
		case new != nil && (wanted(new) || wanted(old)):
			queue.Enqueue(new.Name, c.volumes.Trace(new))
		}
	})
	controller.Handle(env, c.pods, func(old, new *corev1.Pod) {
		pod := new
		if pod == nil {
			pod = old
		}
		if volumeUID(pod) == "" {
			return
		}
		name := strings.TrimPrefix(pod.Name, prefix) // of a volume that is gone
		for _, v := range c.volumes.ByIndex(byUID, string(volumeUID(pod))) {
			name = v.Name
		}
		queue.Enqueue(name, c.pods.Trace(pod))
	})
	return controller.Unit{Queues: []*reconcile.Controller{queue}}, nil
}

func build(env *controller.Env, image string) *recycling {
	return &recycling{
		client: env.Client, events: env.Recorder("persistentvolume-controller"), image: image, pods: env.Pods(),
		volumes: object.InformerFor(env.Informers, object.PersistentVolume, object.Option{Indexers: cache.Indexers{
			byUID: func(o any) ([]string, error) { return []string{string(o.(*corev1.PersistentVolume).UID)}, nil },
		}}),
	}
}

// reconcile brings a volume closer to being free.
func (c *recycling) reconcile(ctx context.Context, name string) (time.Duration, error) {
	volume, ok := c.volumes.GetKey(name)
	if !ok {
		volume = nil
	}
	pod, ok := c.pods.Get(namespace, podName(name))
	if !ok || volumeUID(pod) == "" {
		pod = nil
	}
	plan := Decide(volume, pod, nil, c.image)
	if plan.Create != nil {
		var err error
		if plan, err = c.planNow(ctx, volume); err != nil {
			return 0, err
		}
	}
	switch {
	case plan.Create != nil:
		_, err := object.For(c.client, object.Pod).Create(ctx, plan.Create)
		return 0, c.told(volume, err)
	case plan.Delete:
		err := object.For(c.client, object.Pod).Delete(ctx, pod.Namespace, pod.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}})
		return 0, gone(err)
	case plan.Free:
		if _, err := object.For(c.client, object.PersistentVolume).Update(ctx, persistentvolume.Released(volume)); err != nil {
			return 0, gone(err)
		}
		c.events.Event(volume, corev1.EventTypeNormal, "VolumeRecycled", "Volume recycled")
	case plan.Failed != "":
		failed := volume.DeepCopy()
		failed.Status.Phase, failed.Status.Message = corev1.VolumeFailed, plan.Failed
		if _, err := object.For(c.client, object.PersistentVolume).UpdateStatus(ctx, failed); err != nil {
			return 0, gone(err)
		}
		c.events.Event(volume, corev1.EventTypeWarning, "VolumeFailedRecycle", plan.Failed)
	case len(plan.Busy) > 0:
		c.events.Event(volume, corev1.EventTypeNormal, "VolumeFailedRecycle", "Volume is used by pods: "+strings.Join(plan.Busy, ","))
		return lookAgain, nil
	}
	return 0, nil
}

// planNow decides about a volume without a pod from what the API has now: what is wiped is lost, and the cache may not show yet that another claim has
// the volume. One that has changed is heard of.
func (c *recycling) planNow(ctx context.Context, cached *corev1.PersistentVolume) (Plan, error) {
	volume, err := object.For(c.client, object.PersistentVolume).Get(ctx, "", cached.Name)
	if apierrors.IsNotFound(err) || err == nil && (volume.UID != cached.UID || volume.ResourceVersion != cached.ResourceVersion) {
		return Plan{}, nil
	}
	if err != nil {
		return Plan{}, err
	}
	users, err := c.users(ctx, volume.Spec.ClaimRef)
	if err != nil {
		return Plan{}, err
	}
	return Decide(volume, nil, users, c.image), nil
}

// users are the pods that have not ended and mount the claim that a volume had, as "namespace/name". Where there is a claim of the name it is another
// one, and so is the volume that they mount.
func (c *recycling) users(ctx context.Context, had *corev1.ObjectReference) ([]string, error) {
	claim, err := object.For(c.client, object.PersistentVolumeClaim).Get(ctx, had.Namespace, had.Name)
	if err == nil && claim.UID != had.UID {
		return nil, nil
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	pods, _, err := object.For(c.client, object.Pod).List(ctx, had.Namespace, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var names []string
	for _, p := range pods {
		if !pod.Terminal(p) && slices.Contains(pod.Claims(p), had.Name) {
			names = append(names, object.KeyOf(p))
		}
	}
	slices.Sort(names)
	return names, nil
}

// told says at the volume that its pod cannot be made, which is tried again.
func (c *recycling) told(v *corev1.PersistentVolume, err error) error {
	if err == nil || apierrors.IsAlreadyExists(err) { // the cache will have it
		return nil
	}
	c.events.Event(v, corev1.EventTypeWarning, "VolumeFailedRecycle", "Recycle failed: "+err.Error())
	return err
}

// gone leaves out that an object has ended meanwhile, or is another by now: it is heard of.
func gone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
