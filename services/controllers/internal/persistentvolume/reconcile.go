package persistentvolume

import (
	"context"
	"errors"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	storage "k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/kit/reconcile"
	"howdah.dev/services/controllers/internal/controller"
)

// lookAgain is how often a claim that waits is looked at, and its events told again, as in Kubernetes.
const lookAgain = 15 * time.Second

// The indexes. A class is "=name"; the claims that name none are under noClass.
const (
	pendingByClass = "pending claims by class"
	claimsByVolume = "claims by volume"
	volumesByClass = "volumes by class"
	volumesByClaim = "volumes by claim"
	noClass        = "none"
)

type binder struct {
	client  *object.Client
	events  record.EventRecorder
	claims  *recent[*corev1.PersistentVolumeClaim]
	volumes *recent[*corev1.PersistentVolume]
	classes *object.Informer[*storagev1.StorageClass]
	pods    *object.Informer[*corev1.Pod]
	ofClaim *reconcile.Controller
	ofVol   *reconcile.Controller
	clock   clock.PassiveClock
	metrics *Metrics
	// recycles says that another controller wipes volumes.
	recycles bool
}

// New returns the controller. metrics may be nil; recycles says that released volumes whose policy is Recycle are left to who wipes them.
func New(env *controller.Env, metrics *Metrics, recycles bool) controller.Unit {
	claims := object.InformerFor(env.Informers, object.PersistentVolumeClaim, object.Option{Indexers: cache.Indexers{
		pendingByClass: func(o any) ([]string, error) { return pendingClass(o.(*corev1.PersistentVolumeClaim)), nil },
		claimsByVolume: func(o any) ([]string, error) { return some(o.(*corev1.PersistentVolumeClaim).Spec.VolumeName), nil },
	}})
	volumes := object.InformerFor(env.Informers, object.PersistentVolume, object.Option{Indexers: cache.Indexers{
		volumesByClass: func(o any) ([]string, error) {
			return []string{storage.GetPersistentVolumeClass(o.(*corev1.PersistentVolume))}, nil
		},
		volumesByClaim: func(o any) ([]string, error) { return some(claimOf(o.(*corev1.PersistentVolume))), nil },
	}})
	c := &binder{
		client: env.Client, events: env.Recorder("persistentvolume-controller"), claims: newRecent(claims, env.Clock), volumes: newRecent(volumes, env.Clock),
		classes: object.InformerFor(env.Informers, object.StorageClass), pods: env.Pods(), clock: env.Clock, metrics: metrics, recycles: recycles,
	}
	// One claim at a time: two would choose the same volume, and one of them had to choose again.
	c.ofClaim = reconcile.New(reconcile.Config{Name: "persistentvolumeclaim", Kind: "PersistentVolumeClaim", Reconcile: c.claim, Metrics: env.Metrics, Clock: env.Clock})
	c.ofVol = reconcile.New(reconcile.Config{Name: "persistentvolume", Kind: "PersistentVolume", Reconcile: c.volume, Metrics: env.Metrics, Clock: env.Clock})
	controller.Handle(env, claims, c.claimChanged)
	controller.Handle(env, volumes, c.volumeChanged)
	controller.Handle(env, c.classes, c.classChanged)
	counts := controller.Leading(func(leads bool) {
		if leads {
			metrics.follow(&caches{claims, volumes})
		} else {
			metrics.follow(nil)
		}
	})
	return controller.Unit{Queues: []*reconcile.Controller{c.ofClaim, c.ofVol}, Loops: []func(context.Context) error{counts}}
}

// some returns a list of the key, where it is one.
func some(key string) []string {
	if key == "" {
		return nil
	}
	return []string{key}
}

// claimOf returns the key of the claim that a volume refers to, or "".
func claimOf(v *corev1.PersistentVolume) string {
	if v.Spec.ClaimRef == nil {
		return ""
	}
	return object.Key(v.Spec.ClaimRef.Namespace, v.Spec.ClaimRef.Name)
}

// pendingClass returns the class whose volumes a claim waits for.
func pendingClass(claim *corev1.PersistentVolumeClaim) []string {
	switch {
	case claim.Spec.VolumeName != "" || metav1.HasAnnotation(claim.ObjectMeta, storage.AnnBindCompleted):
		return nil
	case !storage.PersistentVolumeClaimHasClass(claim):
		return []string{noClass, "="}
	}
	return []string{"=" + storage.GetPersistentVolumeClaimClass(claim)}
}

func (c *binder) claimChanged(old, new *corev1.PersistentVolumeClaim) {
	claim := new
	if claim == nil {
		claim = old
		c.metrics.claimGone(object.KeyOf(old))
	} else {
		c.ofClaim.Enqueue(object.KeyOf(claim), c.claims.cache.Trace(claim))
	}
	if old != nil && new != nil && old.UID == new.UID && old.Spec.VolumeName == new.Spec.VolumeName {
		return
	}
	for _, v := range c.volumes.cache.ByIndex(volumesByClaim, object.KeyOf(claim)) {
		c.ofVol.Enqueue(v.Name, c.claims.cache.Trace(claim))
	}
}

func (c *binder) volumeChanged(old, new *corev1.PersistentVolume) {
	v := new
	if v == nil {
		v = old
		c.metrics.deleted(old.Name, nil, c.clock.Now())
	} else {
		c.ofVol.Enqueue(v.Name, c.volumes.cache.Trace(v))
	}
	cause := c.volumes.cache.Trace(v)
	if old != nil && new != nil && old.Status.Phase == new.Status.Phase && equality.Semantic.DeepEqual(old.Spec, new.Spec) &&
		equality.Semantic.DeepEqual(old.Labels, new.Labels) && (old.DeletionTimestamp == nil) == (new.DeletionTimestamp == nil) {
		return
	}
	for _, claim := range c.claims.cache.ByIndex(claimsByVolume, v.Name) {
		c.ofClaim.Enqueue(object.KeyOf(claim), cause)
	}
	switch {
	case v.Spec.ClaimRef != nil:
		if claim, ok := c.claims.cache.GetKey(claimOf(v)); ok {
			c.ofClaim.Enqueue(object.KeyOf(claim), cause)
		}
	case new != nil && new.Status.Phase == corev1.VolumeAvailable:
		c.wake("="+storage.GetPersistentVolumeClass(new), cause)
	}
}

func (c *binder) classChanged(old, new *storagev1.StorageClass) {
	if new == nil || old != nil && old.Provisioner == new.Provisioner && equality.Semantic.DeepEqual(old.Annotations, new.Annotations) {
		return
	}
	c.wake("="+new.Name, c.classes.Trace(new))
	if DefaultClass([]*storagev1.StorageClass{new}) != nil {
		c.wake(noClass, c.classes.Trace(new))
	}
}

// wake looks again at the claims that wait for a volume of a class.
func (c *binder) wake(class string, cause trace.SpanContext) {
	for _, claim := range c.claims.cache.ByIndex(pendingByClass, class) {
		c.ofClaim.Enqueue(object.KeyOf(claim), cause)
	}
}

// claim brings a claim closer to its volume.
func (c *binder) claim(ctx context.Context, key string) (time.Duration, error) {
	claim, ok := c.claims.get(key)
	if !ok {
		return 0, nil
	}
	plan := DecideClaim(c.situation(claim))
	if plan.Look {
		var err error
		if plan, err = c.claimNow(ctx, claim); err != nil {
			return 0, gone(err)
		}
	}
	if plan.Bind != nil {
		err := c.bind(ctx, plan.Bind, claim)
		c.metrics.provisioned(key, err, c.clock.Now())
		return 0, gone(err)
	}
	if plan.Provisioner != "" {
		c.metrics.provisions(key, plan.Provisioner, c.clock.Now())
	}
	if plan.Claim != nil {
		written, err := object.For(c.client, object.PersistentVolumeClaim).Update(ctx, plan.Claim)
		if assigned := plan.Claim.Spec.StorageClassName != nil && claim.Spec.StorageClassName == nil; assigned {
			c.metrics.assigned(err)
		}
		if err != nil {
			c.metrics.provisioned(key, err, c.clock.Now())
			return 0, gone(err)
		}
		c.claims.wrote(written)
		claim = written
	}
	if plan.Phase != "" {
		if err := c.tellClaim(ctx, claim, plan.Phase, nil); err != nil {
			return 0, gone(err)
		}
	}
	if plan.Claim == nil { // else the claim comes back as it was written, and is told so then
		c.tell(claim, plan.Event)
	}
	if plan.Again {
		return lookAgain, nil
	}
	return 0, nil
}

// situation gathers what a claim has to do with.
func (c *binder) situation(claim *corev1.PersistentVolumeClaim) Situation {
	s := Situation{Claim: claim}
	if name := claim.Spec.VolumeName; name != "" {
		s.Volume, _ = c.volumes.get(name)
		return s
	}
	if metav1.HasAnnotation(claim.ObjectMeta, storage.AnnBindCompleted) {
		return s
	}
	key, class := object.KeyOf(claim), storage.GetPersistentVolumeClaimClass(claim)
	if class != "" {
		s.Class, _ = c.classes.Get("", class)
	} else {
		s.Default = DefaultClass(c.classes.List(""))
	}
	reserved := c.volumes.cache.ByIndex(volumesByClaim, key)
	s.Candidates = c.volumes.all(append(slices.Clone(reserved), slices.DeleteFunc(c.volumes.cache.ByIndex(volumesByClass, class), func(v *corev1.PersistentVolume) bool {
		return v.Spec.ClaimRef != nil
	})...))
	if waitsForConsumer(s.Class) {
		for _, p := range c.pods.ByIndex(controller.ByClaim, key) {
			s.Waiting = append(s.Waiting, p.Name)
		}
		slices.Sort(s.Waiting)
	}
	return s
}

// claimNow decides about a claim that has been bound from what the API has now.
func (c *binder) claimNow(ctx context.Context, cached *corev1.PersistentVolumeClaim) (ClaimPlan, error) {
	claim, err := object.For(c.client, object.PersistentVolumeClaim).Get(ctx, cached.Namespace, cached.Name)
	if err != nil {
		return ClaimPlan{}, err
	}
	if claim.UID != cached.UID || claim.ResourceVersion != cached.ResourceVersion {
		return ClaimPlan{}, apierrors.NewConflict(object.PersistentVolumeClaim.GroupResource(), claim.Name, errBehind)
	}
	s := Situation{Claim: claim, Current: true}
	if name := claim.Spec.VolumeName; name != "" {
		s.Volume, err = object.For(c.client, object.PersistentVolume).Get(ctx, "", name)
		if apierrors.IsNotFound(err) {
			s.Volume = nil
		} else if err != nil {
			return ClaimPlan{}, err
		}
	}
	return DecideClaim(s), nil
}

// bind writes what is missing of a binding: the volume's side before the claim's, what is wanted before what is told.
func (c *binder) bind(ctx context.Context, v *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim) error {
	if changed, ok := claimed(v, claim); ok {
		written, err := object.For(c.client, object.PersistentVolume).Update(ctx, changed)
		if err != nil {
			return err
		}
		c.volumes.wrote(written)
		v = written
	}
	if err := c.tellVolume(ctx, v, corev1.VolumeBound, ""); err != nil {
		return err
	}
	if changed, ok := holding(claim, v); ok {
		written, err := object.For(c.client, object.PersistentVolumeClaim).Update(ctx, changed)
		if err != nil {
			return err
		}
		c.claims.wrote(written)
		claim = written
	}
	return c.tellClaim(ctx, claim, corev1.ClaimBound, v)
}

func (c *binder) tellVolume(ctx context.Context, v *corev1.PersistentVolume, phase corev1.PersistentVolumePhase, message string) error {
	changed, ok := inPhase(v, phase, message)
	if !ok {
		return nil
	}
	written, err := object.For(c.client, object.PersistentVolume).UpdateStatus(ctx, changed)
	if err == nil {
		c.volumes.wrote(written)
	}
	return err
}

func (c *binder) tellClaim(ctx context.Context, claim *corev1.PersistentVolumeClaim, phase corev1.PersistentVolumeClaimPhase, v *corev1.PersistentVolume) error {
	changed, ok := told(claim, phase, v)
	if !ok {
		return nil
	}
	written, err := object.For(c.client, object.PersistentVolumeClaim).UpdateStatus(ctx, changed)
	if err == nil {
		c.claims.wrote(written)
	}
	return err
}

// volume brings a volume's phase in line with its claim, and sees to it when that is gone.
func (c *binder) volume(ctx context.Context, name string) (time.Duration, error) {
	v, ok := c.volumes.get(name)
	if !ok {
		return 0, nil
	}
	var claim *corev1.PersistentVolumeClaim
	if key := claimOf(v); key != "" {
		claim, _ = c.claims.get(key)
	}
	plan := DecideVolume(v, claim, false, c.recycles)
	if plan.Look {
		var err error
		claim, err = object.For(c.client, object.PersistentVolumeClaim).Get(ctx, v.Spec.ClaimRef.Namespace, v.Spec.ClaimRef.Name)
		if apierrors.IsNotFound(err) {
			claim = nil
		} else if err != nil {
			return 0, err
		}
		plan = DecideVolume(v, claim, true, c.recycles)
	}
	if plan.Delete {
		c.metrics.deletes(name, c.provisioner(v), c.clock.Now())
		if _, there := c.volumes.cache.Get("", name); !there { // it went meanwhile, and its handler has run
			c.metrics.volumeGone(name)
		}
		if plan.Phase == corev1.VolumeFailed {
			c.metrics.deleted(name, errors.New(plan.Message), c.clock.Now())
		}
	}
	if plan.Release {
		written, err := object.For(c.client, object.PersistentVolume).Update(ctx, Released(v))
		if err != nil {
			return 0, gone(err)
		}
		c.volumes.wrote(written)
		return 0, gone(c.tellVolume(ctx, written, corev1.VolumeAvailable, ""))
	}
	if plan.Phase != "" {
		if err := c.tellVolume(ctx, v, plan.Phase, plan.Message); err != nil {
			return 0, gone(err)
		}
	}
	c.tell(v, plan.Event)
	if claim != nil {
		c.tell(claim, plan.ClaimEvent)
		if plan.Claim {
			c.ofClaim.Enqueue(object.KeyOf(claim), trace.SpanContextFromContext(ctx))
		}
	}
	return 0, nil
}

// provisioner is who makes the volumes of a volume's class. What a volume itself says of that could be anything.
func (c *binder) provisioner(v *corev1.PersistentVolume) string {
	class, ok := c.classes.Get("", storage.GetPersistentVolumeClass(v))
	if !ok {
		return "N/A"
	}
	return class.Provisioner
}

func (c *binder) tell(about object.Object, e *Event) {
	if e != nil {
		c.events.Event(about, e.Type, e.Reason, e.Message)
	}
}

// gone leaves out that an object has ended meanwhile. A conflict is tried again: whoever else wrote, the cache will have it.
func gone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
