package nodelifecycle

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/trace"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/kit/reconcile"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/pod"
)

// Config is how patient the controller is.
type Config struct {
	Period  time.Duration // between looks at the clock
	Grace   time.Duration // of silence, before a node is Unknown
	Startup time.Duration // of silence, for a node that has not spoken yet
	Rates   Rates
}

// nodeLifecycle reconciles nodes.
type nodeLifecycle struct {
	cfg    Config
	client *object.Client
	nodes  *object.Informer[*corev1.Node]
	leases *object.Informer[*coordinationv1.Lease]
	pods   *object.Informer[*corev1.Pod]
	events record.EventRecorder
	clock  clock.WithTicker
	queue  *reconcile.Controller

	metrics *Metrics

	mu        sync.Mutex
	zones     *zones
	known     map[string]*health // by node
	deaf      bool               // the API did not answer when it was last asked
	listening time.Time          // since when it has answered
}

// health is what this process has heard of a node.
type health struct {
	heard time.Time              // by our clock: the node's may be wrong
	ready corev1.ConditionStatus // when last reconciled
}

// New returns the controller. metrics may be nil.
func New(env *controller.Env, cfg Config, metrics *Metrics) controller.Unit {
	c := &nodeLifecycle{
		cfg: cfg, metrics: metrics, client: env.Client, pods: env.Pods(),
		nodes:  object.InformerFor(env.Informers, object.Node),
		leases: object.InformerFor(env.Informers, object.Lease),
		events: env.Recorder("node-controller"), clock: env.Clock,
		zones: newZones(cfg.Rates), known: map[string]*health{},
	}
	c.queue = reconcile.New(reconcile.Config{
		Name: "nodelifecycle", Kind: "Node", Workers: 8, Reconcile: c.reconcile, Metrics: env.Metrics,
	})
	controller.Handle(env, c.nodes, c.nodeChanged)
	controller.Handle(env, c.leases, func(old, new *coordinationv1.Lease) {
		if new == nil || new.Namespace != corev1.NamespaceNodeLease {
			return
		}
		if old == nil || !apiequality.Semantic.DeepEqual(old.Spec.RenewTime, new.Spec.RenewTime) {
			c.heardFrom(new.Name)
		}
	})
	return controller.Unit{
		Queues: []*reconcile.Controller{c.queue},
		Loops:  []func(context.Context) error{c.monitor},
	}
}

func (c *nodeLifecycle) heardFrom(node string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h := c.known[node]; h != nil {
		h.heard = c.clock.Now()
	}
}

func (c *nodeLifecycle) nodeChanged(old, new *corev1.Node) {
	if new == nil {
		c.mu.Lock()
		delete(c.known, old.Name)
		c.mu.Unlock()
		c.events.Eventf(reference(old), corev1.EventTypeNormal, "RemovingNode", "Node %s event: Removing Node %s from Controller", old.Name, old.Name)
		return
	}
	c.mu.Lock()
	if c.known[new.Name] == nil {
		// A node that this leader sees first has its whole grace before it.
		c.known[new.Name] = &health{heard: c.clock.Now(), ready: readiness(new)}
	} else if old != nil && !slices.Equal(heartbeats(old), heartbeats(new)) {
		c.known[new.Name].heard = c.clock.Now()
	}
	c.mu.Unlock()
	if old == nil {
		if c.clock.Since(new.CreationTimestamp.Time) < c.cfg.Startup {
			c.events.Eventf(reference(new), corev1.EventTypeNormal, "RegisteredNode", "Node %s event: Registered Node %s in Controller", new.Name, new.Name)
		}
		c.queue.Enqueue(new.Name, c.nodes.Trace(new))
		return
	}
	if readiness(old) != readiness(new) || !sameTaints(old.Spec.Taints, new.Spec.Taints) || old.Spec.Unschedulable != new.Spec.Unschedulable ||
		!slices.Equal(statuses(old), statuses(new)) || len(DecideLabels(new)) > 0 {
		c.queue.Enqueue(new.Name, c.nodes.Trace(new))
	}
}

// reference is how events name nodes: by their uid, where a node itself uses its name, as kubelets do.
func reference(n *corev1.Node) *corev1.ObjectReference {
	return &corev1.ObjectReference{Kind: "Node", APIVersion: "v1", Name: n.Name, UID: n.UID}
}

// heartbeats are the times at which the node itself wrote its conditions.
// What we write when it is silent leaves them alone.
func heartbeats(n *corev1.Node) []metav1.Time {
	var times []metav1.Time
	for _, c := range n.Status.Conditions {
		times = append(times, c.LastHeartbeatTime)
	}
	return times
}

func statuses(n *corev1.Node) []string {
	var all []string
	for _, c := range n.Status.Conditions {
		all = append(all, string(c.Type)+string(c.Status))
	}
	return all
}

// monitor looks at the clock every period: silence has no event.
func (c *nodeLifecycle) monitor(ctx context.Context) error {
	ticker := c.clock.NewTicker(c.cfg.Period)
	defer ticker.Stop()
	defer c.metrics.forget()
	for {
		nodes := c.nodes.List("")
		if len(nodes) > 0 {
			c.listen(ctx, nodes[0].Name)
		}
		// Nodes that fall silent together are counted before the first of them is emptied: their conditions say so only afterwards.
		silent := c.silentOf(nodes)
		c.mu.Lock()
		counts, gone := c.zones.observe(nodes, silent)
		c.mu.Unlock()
		c.metrics.observed(counts, gone)
		for _, n := range nodes {
			if readiness(n) != corev1.ConditionTrue || silent[n.Name] {
				c.queue.Enqueue(n.Name, trace.SpanContext{})
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C():
		}
	}
}

// listen asks the API for a node, to learn whether nodes could be heard at all. When it was away they were all silent, and that says nothing of
// them: they have their whole grace from when it answers again.
func (c *nodeLifecycle) listen(ctx context.Context, node string) {
	ctx, cancel := context.WithTimeout(ctx, c.cfg.Period)
	defer cancel()
	_, err := object.For(c.client, object.Node).Get(ctx, "", node)
	deaf := err != nil && !apierrors.IsNotFound(err)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case deaf && !c.deaf:
		slog.Warn("the API does not answer: nodes do not count as silent", "err", err)
	case c.deaf && !deaf:
		slog.Info("the API answers again: nodes have their whole grace to be heard", "grace", c.cfg.Grace)
		c.listening = c.clock.Now()
	}
	c.deaf = deaf
}

// silentOf returns the names of the nodes that are silent.
func (c *nodeLifecycle) silentOf(nodes []*corev1.Node) map[string]bool {
	silent := map[string]bool{}
	for _, n := range nodes {
		if c.silent(n) {
			silent[n.Name] = true
		}
	}
	return silent
}

// silent says whether the node has not been heard for longer than it may, while it could be.
func (c *nodeLifecycle) silent(n *corev1.Node) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.known[n.Name]
	if h == nil || c.deaf {
		return false
	}
	now, since := c.clock.Now(), h.heard
	if c.listening.After(since) {
		since = c.listening
	}
	if condition(n, corev1.NodeReady) == nil {
		return now.Sub(n.CreationTimestamp.Time) > c.cfg.Startup && now.Sub(since) > c.cfg.Startup
	}
	return now.Sub(since) > c.cfg.Grace
}

// reconcile brings one node's conditions, taints and pods in step:
//  1. a silent node's conditions become Unknown;
//  2. the taints follow the conditions, NoExecute ones as the zone's rate permits;
//  3. the pods of a node that is Unknown are not ready;
//  4. the former labels say what the stable ones say.
func (c *nodeLifecycle) reconcile(ctx context.Context, name string) (time.Duration, error) {
	n, ok := c.nodes.Get("", name)
	if !ok {
		return 0, nil
	}
	start := time.Now()
	defer func() { c.metrics.updated(time.Since(start)) }()
	if c.silent(n) {
		if conditions, changed := Silenced(n, c.clock.Now()); changed {
			updated := n.DeepCopy()
			updated.Status.Conditions = conditions
			stored, err := object.For(c.client, object.Node).UpdateStatus(ctx, updated)
			if err != nil {
				return 0, fmt.Errorf("mark node unknown: %w", err)
			}
			n = stored
		}
	}
	after, err := c.taint(ctx, n)
	if err != nil {
		return 0, err
	}
	if err := c.unready(ctx, n); err != nil {
		return after, err
	}
	return after, c.label(ctx, n)
}

// taint writes the node's taints where they differ. While no node anywhere is ready, none is emptied, not even one that was about to be.
func (c *nodeLifecycle) taint(ctx context.Context, n *corev1.Node) (time.Duration, error) {
	now := c.clock.Now()
	plan := DecideTaints(n, now)
	var (
		after  time.Duration
		evicts bool
	)
	c.mu.Lock()
	if c.zones.halted {
		plan.Want = slices.DeleteFunc(plan.Want, evictingTaint)
	}
	if plan.Evict != nil {
		evicts, after = c.zones.allow(zoneOf(n), now)
	}
	c.mu.Unlock()
	if evicts {
		plan.Want = append(plan.Want, *plan.Evict)
	}
	if sameTaints(n.Spec.Taints, plan.Want) {
		return after, nil
	}
	taints := plan.Want
	if taints == nil {
		taints = []corev1.Taint{}
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": n.UID, "resourceVersion": n.ResourceVersion},
		"spec":     map[string]any{"taints": taints},
	})
	if err != nil {
		return 0, err
	}
	switch _, err := object.For(c.client, object.Node).Patch(ctx, "", n.Name, types.MergePatchType, patch, ""); {
	case apierrors.IsNotFound(err):
	case err != nil:
		return 0, fmt.Errorf("set taints: %w", err)
	case evicts:
		c.metrics.evicted(zoneOf(n))
	}
	return after, nil
}

// unready takes the pods of a node out of service while it is Unknown, for nobody else will. The agent of one that is not ready goes on
// reporting, and its pods may well go on serving.
func (c *nodeLifecycle) unready(ctx context.Context, n *corev1.Node) error {
	now := readiness(n)
	c.mu.Lock()
	h := c.known[n.Name]
	was := now
	if h != nil {
		was = h.ready
	}
	c.mu.Unlock()
	if now == corev1.ConditionUnknown && condition(n, corev1.NodeReady) != nil {
		if was == corev1.ConditionTrue {
			c.events.Eventf(reference(n), corev1.EventTypeNormal, "NodeNotReady", "Node %s status is now: NodeNotReady", n.Name)
		}
		if err := c.markPods(ctx, n); err != nil {
			return err
		}
	}
	c.remember(n.Name, now)
	return nil
}

func (c *nodeLifecycle) remember(node string, ready corev1.ConditionStatus) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if h := c.known[node]; h != nil {
		h.ready = ready
	}
}

// markPods writes Ready=False to the node's ready pods, in one call.
func (c *nodeLifecycle) markPods(ctx context.Context, n *corev1.Node) error {
	var items []object.Item
	for _, p := range c.pods.ByIndex(controller.ByNode, n.Name) {
		if !pod.Ready(p) {
			continue
		}
		p = p.DeepCopy()
		ready := pod.Condition(p, corev1.PodReady)
		ready.Status, ready.LastTransitionTime = corev1.ConditionFalse, metav1.NewTime(c.clock.Now())
		items = append(items, object.For(c.client, object.Pod).UpdateItem(p, "status"))
		c.events.Event(p, corev1.EventTypeWarning, "NodeNotReady", "Node is not ready")
	}
	if len(items) == 0 {
		return nil
	}
	results, err := c.client.Batch(ctx, items, false)
	if err != nil {
		return fmt.Errorf("mark pods not ready: %w", err)
	}
	for _, r := range results {
		if r.Err != nil && !apierrors.IsNotFound(r.Err) {
			return fmt.Errorf("mark pods not ready: %w", r.Err)
		}
	}
	return nil
}
