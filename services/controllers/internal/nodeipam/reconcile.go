package nodeipam

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"

	"howdah.dev/kit/object"
	"howdah.dev/kit/reconcile"
	"howdah.dev/services/controllers/internal/controller"
)

// retryExhausted is how long a node without a range waits for one to be freed,
// should no event tell of it.
const retryExhausted = 30 * time.Second

// nodeIPAM reconciles nodes.
type nodeIPAM struct {
	client *object.Client
	nodes  *object.Informer[*corev1.Node]
	events record.EventRecorder
	queue  *reconcile.Controller

	mu       sync.Mutex
	families []*ranges
	loaded   bool
	needy    map[string]bool // nodes that found no range
}

// New returns the controller for the cluster's ranges: one, or one of each
// IP family. masks are the prefix lengths of a node's ranges. metrics may be nil.
func New(env *controller.Env, cluster []netip.Prefix, masks []int, metrics *Metrics) (controller.Unit, error) {
	c, err := build(env, cluster, masks, metrics)
	if err != nil {
		return controller.Unit{}, err
	}
	c.queue = reconcile.New(reconcile.Config{
		Name: "nodeipam", Kind: "Node", Reconcile: c.reconcile, Metrics: env.Metrics,
	})
	controller.Handle(env, c.nodes, c.nodeChanged)
	return controller.Unit{Queues: []*reconcile.Controller{c.queue}}, nil
}

func build(env *controller.Env, cluster []netip.Prefix, masks []int, metrics *Metrics) (*nodeIPAM, error) {
	c := &nodeIPAM{
		client: env.Client, nodes: object.InformerFor(env.Informers, object.Node),
		events: env.Recorder("cidrAllocator"), needy: map[string]bool{},
	}
	if len(cluster) != len(masks) {
		return nil, fmt.Errorf("%d cluster ranges have %d node mask sizes", len(cluster), len(masks))
	}
	metrics.forget()
	for i, p := range cluster {
		r, err := newRanges(p, masks[i])
		if err != nil {
			return nil, err
		}
		r.usage = metrics.of(r.cluster)
		c.families = append(c.families, r)
	}
	return c, nil
}

func (c *nodeIPAM) nodeChanged(old, new *corev1.Node) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if new == nil {
		namesake, there := c.nodes.Get("", old.Name)
		if there && len(namesake.Spec.PodCIDRs) == 0 {
			return // it takes over what the name holds, and may have been given that already
		}
		for _, r := range c.families {
			r.release(old.Name)
		}
		if there {
			c.occupy(namesake)
		}
		delete(c.needy, old.Name)
		for name := range c.needy {
			c.queue.Enqueue(name, c.nodes.Trace(old))
		}
		return
	}
	if len(new.Spec.PodCIDRs) > 0 {
		if old == nil || !slices.Equal(old.Spec.PodCIDRs, new.Spec.PodCIDRs) {
			c.occupy(new)
		}
		return
	}
	c.queue.Enqueue(new.Name, c.nodes.Trace(new))
}

// load notes, before the first range is given, which ones the nodes have. It
// asks the API: the cache may not show yet what a former leader did last.
func (c *nodeIPAM) load(ctx context.Context) error {
	c.mu.Lock()
	loaded := c.loaded
	c.mu.Unlock()
	if loaded {
		return nil
	}
	nodes, _, err := object.For(c.client, object.Node).List(ctx, "", metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range nodes {
		c.occupy(n)
	}
	c.loaded = true
	return nil
}

// occupy notes the ranges of a node. c.mu is held.
func (c *nodeIPAM) occupy(n *corev1.Node) {
	for i, text := range n.Spec.PodCIDRs {
		p, err := netip.ParsePrefix(text)
		if err == nil && i < len(c.families) {
			err = c.families[i].occupy(p, n.Name)
		}
		if err != nil {
			slog.Warn("a node has an unusable pod CIDR", "node", n.Name, "cidr", text, "err", err)
		}
	}
}

// reconcile gives a node its ranges. A patch that fails for sure gives them
// back; one of unknown outcome leaves them with the node, who gets the same again.
func (c *nodeIPAM) reconcile(ctx context.Context, name string) (time.Duration, error) {
	n, ok := c.nodes.Get("", name)
	if !ok || n.DeletionTimestamp != nil || len(n.Spec.PodCIDRs) > 0 {
		return 0, nil
	}
	if err := c.load(ctx); err != nil {
		return 0, err
	}
	cidrs, err := c.allocate(name)
	if errors.Is(err, errExhausted) {
		c.events.Event(n, corev1.EventTypeNormal, "CIDRNotAvailable", "Node "+name+" status is now: CIDRNotAvailable")
		return retryExhausted, nil
	}
	if err != nil {
		return 0, err
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": n.UID},
		"spec":     map[string]any{"podCIDR": cidrs[0], "podCIDRs": cidrs},
	})
	if err != nil {
		return 0, err
	}
	_, err = object.For(c.client, object.Node).Patch(ctx, "", name, types.MergePatchType, patch, "")
	switch {
	case err == nil:
		return 0, nil
	case apierrors.IsNotFound(err), apierrors.IsInvalid(err), apierrors.IsConflict(err):
		// Gone, or it has others by now: the handler notes which.
		c.mu.Lock()
		for _, r := range c.families {
			r.release(name)
		}
		if live, ok := c.nodes.Get("", name); ok {
			c.occupy(live)
		}
		c.mu.Unlock()
		if apierrors.IsNotFound(err) {
			return 0, nil
		}
	}
	c.events.Event(n, corev1.EventTypeNormal, "CIDRAssignmentFailed", "Node "+name+" status is now: CIDRAssignmentFailed")
	return 0, fmt.Errorf("set pod CIDR: %w", err)
}

// allocate returns a range of each family; those that the node holds already first.
func (c *nodeIPAM) allocate(name string) ([]string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var cidrs []string
	for _, r := range c.families {
		p, ok := r.of(name)
		if !ok {
			var err error
			if p, err = r.take(name); err != nil {
				c.needy[name] = true
				return nil, err
			}
		}
		cidrs = append(cidrs, p.String())
	}
	delete(c.needy, name)
	return cidrs, nil
}
