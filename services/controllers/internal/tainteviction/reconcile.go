package tainteviction

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/kit/reconcile"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/pod"
)

// taintEviction reconciles pods on tainted nodes.
type taintEviction struct {
	client *object.Client
	nodes  *object.Informer[*corev1.Node]
	pods   *object.Informer[*corev1.Pod]
	events record.EventRecorder
	clock  clock.PassiveClock
	queue  *reconcile.Controller

	metrics *pod.Evictions

	mu  sync.Mutex
	due map[types.UID]bool // pods whose tolerance ends
}

// New returns the controller. metrics may be nil.
func New(env *controller.Env, metrics *pod.Evictions) controller.Unit {
	c := &taintEviction{
		client: env.Client, pods: env.Pods(), nodes: object.InformerFor(env.Informers, object.Node),
		events: env.Recorder("taint-eviction-controller"), clock: env.Clock, due: map[types.UID]bool{},
		metrics: metrics,
	}
	c.queue = reconcile.New(reconcile.Config{
		Name: "tainteviction", Kind: "Pod", Workers: 8, Reconcile: c.reconcile, Metrics: env.Metrics,
	})
	controller.Handle(env, c.nodes, func(old, new *corev1.Node) {
		if new == nil || len(executes(new)) == 0 && (old == nil || len(executes(old)) == 0) {
			return
		}
		if old != nil && apiequality.Semantic.DeepEqual(executes(old), executes(new)) {
			return
		}
		for _, p := range c.pods.ByIndex(controller.ByNode, new.Name) {
			c.queue.Enqueue(object.KeyOf(p), c.nodes.Trace(new))
		}
	})
	controller.Handle(env, c.pods, func(old, new *corev1.Pod) {
		if new == nil {
			c.note(old, false)
			return
		}
		if new.Spec.NodeName == "" {
			return
		}
		same := old != nil && old.Spec.NodeName == new.Spec.NodeName && len(old.Spec.Tolerations) == len(new.Spec.Tolerations)
		if n, ok := c.nodes.Get("", new.Spec.NodeName); ok && !same && len(executes(n)) > 0 {
			c.queue.Enqueue(object.KeyOf(new), c.pods.Trace(new))
		}
	})
	return controller.Unit{Queues: []*reconcile.Controller{c.queue}}
}

// executes are the taints that end pods.
func executes(n *corev1.Node) []corev1.Taint {
	var taints []corev1.Taint
	for _, t := range n.Spec.Taints {
		if t.Effect == corev1.TaintEffectNoExecute {
			taints = append(taints, t)
		}
	}
	return taints
}

func (c *taintEviction) reconcile(ctx context.Context, key string) (time.Duration, error) {
	p, ok := c.pods.GetKey(key)
	if !ok || p.DeletionTimestamp != nil && pod.Disrupted(p) { // one that goes for another reason is told that it would have had to, as in Kubernetes
		return 0, nil
	}
	n, ok := c.nodes.Get("", p.Spec.NodeName)
	if !ok {
		return 0, nil // the pod garbage collector ends pods of nodes that are gone
	}
	plan := Decide(p, n.Spec.Taints, c.clock.Now())
	if !plan.Evict {
		c.note(p, plan.After > 0)
		return plan.After, nil
	}
	c.mu.Lock()
	delete(c.due, p.UID)
	c.mu.Unlock()
	return 0, c.evict(ctx, p, plan.Due)
}

// note remembers whether a pod's tolerance ends, and tells where that is no longer so.
func (c *taintEviction) note(p *corev1.Pod, due bool) {
	c.mu.Lock()
	was := c.due[p.UID]
	if due {
		c.due[p.UID] = true
	} else {
		delete(c.due, p.UID)
	}
	c.mu.Unlock()
	if was && !due {
		c.events.Eventf(p, corev1.EventTypeNormal, "TaintManagerEviction", "Cancelling deletion of Pod %s/%s", p.Namespace, p.Name)
	}
}

// evict says why in the pod's conditions, and deletes it, which it was due for.
func (c *taintEviction) evict(ctx context.Context, p *corev1.Pod, due time.Time) error {
	evicted, err := pod.Evict(ctx, c.client, p, "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint", c.clock.Now(), func() {
		c.events.Eventf(p, corev1.EventTypeNormal, "TaintManagerEviction", "Marking for deletion Pod %s/%s", p.Namespace, p.Name)
	})
	if evicted {
		c.metrics.Deleted(due, c.clock.Now())
	}
	return err
}
