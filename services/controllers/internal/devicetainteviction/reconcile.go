package devicetainteviction

import (
	"context"
	"fmt"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/kit/reconcile"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/pod"
	"howdah.dev/services/internal/devicetaint"
)

// evictions reconciles pods with devices, and the status of rules.
type evictions struct {
	view
	client  *object.Client
	events  record.EventRecorder
	clock   clock.PassiveClock
	metrics *pod.Evictions
	memory  *memory
	ofPod   *reconcile.Controller
	ofRule  *reconcile.Controller
}

// New returns the controller.
func New(env *controller.Env, metrics *pod.Evictions) controller.Unit {
	c := build(env, metrics)
	return controller.Unit{Queues: []*reconcile.Controller{c.ofPod, c.ofRule}}
}

func build(env *controller.Env, metrics *pod.Evictions) *evictions {
	c := &evictions{
		view: view{
			pods:   env.Pods(),
			claims: object.InformerFor(env.Informers, object.ResourceClaim, object.Option{Indexers: cache.Indexers{byUser: usersOf, byPool: poolsOf}}),
			slices: object.InformerFor(env.Informers, object.ResourceSlice, object.Option{Indexers: cache.Indexers{byPool: poolOf}}),
			rules:  object.InformerFor(env.Informers, devicetaint.Kind),
		},
		client: env.Client, events: env.Recorder("device-taint-eviction-controller"), clock: env.Clock, metrics: metrics, memory: newMemory(),
	}
	c.ofPod = reconcile.New(reconcile.Config{Name: "devicetainteviction", Kind: "Pod", Workers: 8, Reconcile: c.pod, Metrics: env.Metrics, Clock: env.Clock})
	c.ofRule = reconcile.New(reconcile.Config{Name: "devicetaintrule", Kind: "DeviceTaintRule", Reconcile: c.rule, Metrics: env.Metrics, Clock: env.Clock})
	controller.Handle(env, c.rules, c.ruleChanged)
	controller.Handle(env, c.slices, c.sliceChanged)
	controller.Handle(env, c.claims, c.claimChanged)
	controller.Handle(env, c.pods, c.podChanged)
	return c
}

func (c *evictions) ruleChanged(old, new *devicetaint.Rule) {
	if old != nil && (new == nil || new.UID != old.UID) {
		c.memory.forget(old)
	}
	if old != nil && new != nil && old.UID == new.UID && apiequality.Semantic.DeepEqual(old.Spec, new.Spec) {
		return
	}
	if new != nil {
		c.ofRule.Enqueue(new.Name, c.rules.Trace(new))
	}
	for _, r := range []*devicetaint.Rule{old, new} {
		if r == nil || !evicts(r) {
			continue
		}
		claims, _ := c.selected(r)
		for _, claim := range claims {
			c.enqueueUsers(claim, c.rules.Trace(r))
		}
	}
}

// sliceChanged looks at the pods of a pool where there are taints, or were: a newer slice may also outdate others.
func (c *evictions) sliceChanged(old, new *resourcev1.ResourceSlice) {
	if old != nil && new != nil && apiequality.Semantic.DeepEqual(old.Spec, new.Spec) {
		return
	}
	for _, s := range []*resourcev1.ResourceSlice{old, new} {
		if s == nil {
			continue
		}
		key := pool(s.Spec.Driver, s.Spec.Pool.Name)
		if !tainted(s) && !slices.ContainsFunc(c.slices.ByIndex(byPool, key), tainted) {
			continue
		}
		for _, claim := range c.claims.ByIndex(byPool, key) {
			c.enqueueUsers(claim, c.slices.Trace(s))
		}
	}
}

func (c *evictions) claimChanged(old, new *resourcev1.ResourceClaim) {
	if old != nil && new != nil && apiequality.Semantic.DeepEqual(old.Status.ReservedFor, new.Status.ReservedFor) &&
		apiequality.Semantic.DeepEqual(old.Status.Allocation, new.Status.Allocation) {
		return
	}
	for _, claim := range []*resourcev1.ResourceClaim{old, new} {
		if claim != nil {
			c.enqueueUsers(claim, c.claims.Trace(claim))
		}
	}
}

func (c *evictions) podChanged(old, new *corev1.Pod) {
	if old != nil && (new == nil || new.UID != old.UID) {
		c.memory.note(old.UID, stays)
	}
	if new == nil || old != nil && old.UID == new.UID && old.Spec.NodeName == new.Spec.NodeName {
		return
	}
	if new.Spec.NodeName != "" && len(c.claims.ByIndex(byUser, string(new.UID))) > 0 {
		c.ofPod.Enqueue(object.KeyOf(new), c.pods.Trace(new))
	}
}

func (c *evictions) enqueueUsers(claim *resourcev1.ResourceClaim, by trace.SpanContext) {
	for _, p := range c.users(claim) {
		c.ofPod.Enqueue(object.KeyOf(p), by)
	}
}

func (c *evictions) pod(ctx context.Context, key string) (time.Duration, error) {
	p, ok := c.pods.GetKey(key)
	if !ok || !pod.Active(p) || c.memory.over(p) {
		return 0, nil
	}
	plan := Decide(p, c.claims.ByIndex(byUser, string(p.UID)), c.taints(nil), c.clock.Now())
	for _, r := range plan.Rules { // not at once: more pods may come, and their ends
		c.ofRule.EnqueueAfter(r.Name, period)
	}
	switch {
	case !plan.Goes:
		if c.memory.note(p.UID, stays) == tolerates {
			c.events.Event(p, corev1.EventTypeNormal, "DeviceTaintManagerEviction", "Cancelling deletion")
		}
		return 0, nil
	case !plan.Evict:
		c.memory.note(p.UID, tolerates)
		return plan.After, nil
	}
	evicted, err := pod.Evict(ctx, c.client, p, "DeletionByDeviceTaintManager", "Device Taint manager: deleting due to NoExecute taint", c.clock.Now(), func() {
		c.events.Event(p, corev1.EventTypeNormal, "DeviceTaintManagerEviction", "Marking for deletion")
	})
	if err != nil || !evicted {
		return 0, err
	}
	c.memory.note(p.UID, ended)
	c.memory.count(plan.Rules)
	c.metrics.Deleted(plan.Due, c.clock.Now())
	return 0, nil
}

// rule tells in a rule's status what becomes of it. While pods are to go it looks again; what one without effect would do is told once.
func (c *evictions) rule(ctx context.Context, key string) (time.Duration, error) {
	r, ok := c.rules.GetKey(key)
	if !ok {
		return 0, nil
	}
	now := c.clock.Now()
	if Told(r) {
		return 0, nil
	}
	if wait := Wait(r, now); wait > 0 {
		return wait, nil
	}
	numbers := c.numbers(r, now)
	if said := Say(r, numbers, now); said != nil {
		if _, err := object.For(c.client, devicetaint.Kind).UpdateStatus(ctx, said); err != nil && !apierrors.IsNotFound(err) {
			return 0, fmt.Errorf("update status: %w", err)
		}
	}
	if numbers.Pods > 0 && evicts(r) {
		return period, nil
	}
	return 0, nil
}

// numbers counts what a rule is about, as far as its status tells of it.
func (c *evictions) numbers(r *devicetaint.Rule, now time.Time) Numbers {
	n := Numbers{Evicted: c.memory.counted(r)}
	if r.Spec.Taint.Effect == resourcev1beta2.DeviceTaintEffectNoSchedule {
		return n
	}
	claims, allocated := c.selected(r)
	taints, seen, namespaces := c.taints(r), sets.New[types.UID](), sets.New[string]()
	for _, claim := range claims {
		for _, p := range c.users(claim) {
			if seen.Has(p.UID) || c.memory.over(p) {
				continue
			}
			plan := Decide(p, c.claims.ByIndex(byUser, string(p.UID)), taints, now)
			if slices.ContainsFunc(plan.Rules, func(by *devicetaint.Rule) bool { return by.UID == r.UID }) {
				seen.Insert(p.UID)
				namespaces.Insert(p.Namespace)
			}
		}
	}
	n.Pods, n.Namespaces = seen.Len(), namespaces.Len()
	if r.Spec.Taint.Effect == resourcev1beta2.DeviceTaintEffectNone {
		n.Published, n.Allocated = c.published(r), allocated
	}
	return n
}
