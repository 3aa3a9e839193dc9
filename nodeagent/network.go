package nodeagent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"howdah.dev/kit/object"
	"howdah.dev/kit/task"
	"howdah.dev/nodeagent/internal/announce"
	"howdah.dev/nodeagent/internal/cni"
	"howdah.dev/nodeagent/internal/healthcheck"
	"howdah.dev/nodeagent/internal/lb"
	"howdah.dev/nodeagent/internal/rotation"
	"howdah.dev/nodeagent/internal/route"
)

// defaultPins is where the maps and links of the load balancer are kept; those of the network policies are beside it.
const defaultPins = "/sys/fs/bpf/howdah"

// network joins the informers to the node's routes, its CNI configuration
// and its load balancer. Without a configuration it does nothing.
type network struct {
	cfg      Config
	balancer *lb.Balancer
	health   *healthcheck.Server
	routes   *route.Keeper
	overlay  route.Overlay
	local    netip.Addr // where packets of the overlay come from
	mtu      int        // of pods
	policies *policies
	members  *rotation.Members
	announce *announce.Announcer
	changed  func()   // told when problems changes
	replay   []func() // give everything in a cache to who follows it

	mu      sync.Mutex
	problem error
	ready   bool
}

func newNetwork(cfg Config, informers *object.Informers, pods *object.Informer[*corev1.Pod], own func(namespace, name string) (*corev1.Pod, bool), services *object.Informer[*corev1.Service], runtime runtimeapi.RuntimeServiceClient, tell events, heard func() bool) (*network, error) {
	n := &network{cfg: cfg, changed: func() {}, members: rotation.New(cfg.NodeName)}
	if cfg.Network == nil {
		return n, nil
	}
	uplink, err := route.FindUplink()
	if err != nil {
		return nil, err
	}
	addresses, err := parseNodeIP(cfg.NodeIP)
	if err != nil {
		return nil, err
	}
	if n.overlay, err = route.ParseOverlay(cfg.Network.Overlay); err != nil {
		return nil, err
	}
	at := lb.Attachment{Cgroup: n.cgroup(), Uplinks: []string{uplink.Name}, NodeAddresses: addresses, Pins: orDefault(cfg.Network.Pins, defaultPins)}
	n.mtu = uplink.MTU
	if n.overlay.Enabled() {
		n.local = between(addresses)
		n.mtu -= route.Overhead(n.local)
		at.Overlay = route.TunnelLink
	}
	nodes := object.InformerFor(informers, object.Node)
	n.health = healthcheck.New(healthcheck.Config{
		Health: func() lb.Health { return n.balancer.Health() },
		Node: func() *corev1.Node {
			node, _ := nodes.Get("", cfg.NodeName)
			return node
		},
		Clock: cfg.Clock, Metrics: cfg.Registerer,
		Failed: func(service types.NamespacedName, port uint16, err error) {
			tell.healthPortFailed(service, fmt.Sprintf("node %s cannot answer health checks of the service at port %d: %v", cfg.NodeName, port, err))
		},
	})
	if n.balancer, err = lb.New(lb.Config{
		Node: lb.Node{Name: cfg.NodeName, Zone: cfg.Labels[corev1.LabelTopologyZone]},
		At:   at, LocalAddresses: route.LocalAddresses, HealthPorts: n.health.Set, Now: cfg.Clock.Now, Tracer: otel.Tracer("nodeagent"), Metrics: cfg.Registerer,
	}); err != nil {
		return nil, err
	}
	if n.policies, err = newPolicies(cfg, informers, pods, own, func(pod *corev1.Pod, sandbox string) { n.balancer.Adopt(cni.HostLink(sandbox), ownStack(pod)) }, runtime, addresses, tell); err != nil {
		return nil, err
	}
	n.routes = route.NewKeeper(route.Config{
		Node:    cfg.NodeName,
		Ranges:  route.Ranges{Pods: cfg.Network.PodCIDRs, Services: cfg.Network.ServiceCIDRs, Balancers: cfg.Network.LoadBalancerCIDRs},
		Overlay: n.overlay, Local: n.local, MTU: n.mtu, Uplink: uplink.Name,
		PodCIDRs: n.writeCNI,
	})
	if n.announce, err = announce.New(announce.Config{
		Node: cfg.NodeName, Interface: uplink.Name, Ranges: cfg.Network.LoadBalancerCIDRs, Alive: heard, Clock: cfg.Clock, Metrics: cfg.Registerer,
	}); err != nil {
		return nil, err
	}
	n.follow(informers, pods, services, nodes)
	return n, nil
}

// follow has the parts hear of what they work by.
func (n *network) follow(informers *object.Informers, pods *object.Informer[*corev1.Pod], services *object.Informer[*corev1.Service], nodes *object.Informer[*corev1.Node]) {
	feed(n, services, func(old, now *corev1.Service) {
		if now == nil {
			n.announce.Delete(old)
			return
		}
		n.announce.Update(now)
	})
	feed(n, pods, nil)
	feed(n, object.InformerFor(informers, object.EndpointSlice), func(old, now *discoveryv1.EndpointSlice) {
		if now == nil {
			n.members.Delete(old)
			return
		}
		n.members.Update(now)
	})
	feed(n, nodes, nil)
	n.replay = append(n.replay, func() {
		for _, node := range nodes.List("") {
			n.routes.Update(node)
		}
	})
	nodes.AddHandler(func(old, now *corev1.Node) {
		if now == nil {
			n.routes.Delete(old.Name)
			return
		}
		n.routes.Update(now)
	})
}

// feed gives the balancer every change of a kind, in the trace of the change, and then tells after of it, if there is one.
func feed[T interface {
	*corev1.Service | *corev1.Pod | *corev1.Node | *discoveryv1.EndpointSlice
	object.Object
}](n *network, informer *object.Informer[T], after func(old, now T)) {
	if after == nil {
		after = func(T, T) {}
	}
	update := func(now T) {
		ctx := trace.ContextWithRemoteSpanContext(context.Background(), informer.Trace(now))
		n.balancer.Update(ctx, now)
	}
	informer.AddHandler(func(old, now T) {
		if now == nil {
			n.balancer.Delete(context.Background(), old)
		} else {
			update(now)
		}
		after(old, now)
	})
	n.replay = append(n.replay, func() {
		for _, o := range informer.List("") {
			update(o)
			after(o, o)
		}
	})
}

// otherNodes is how long the other nodes may take to hear of a change that this one has heard of: nothing tells when
// they have. A node's way from the API to its maps is a few milliseconds.
const otherNodes = 100 * time.Millisecond

// Has reports whether some service sends new requests to the pod.
func (n *network) Has(pod *corev1.Pod) bool { return n.members.Has(pod) }

// Left waits until the pod has left the maps of this node, and gives the other nodes as much time as they need.
func (n *network) Left(ctx context.Context, pod *corev1.Pod) error {
	if err := n.members.Left(ctx, pod); err != nil {
		return err
	}
	if err := n.balancer.Settled(ctx); err != nil {
		return err
	}
	timer := n.cfg.Clock.NewTimer(otherNodes)
	defer timer.Stop()
	select {
	case <-timer.C():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func orDefault(value, byDefault string) string {
	if value == "" {
		return byDefault
	}
	return value
}

// cgroup is the cgroup2 root: its own mount beside the v1 hierarchies, or
// the only one.
func (n *network) cgroup() string {
	if n.cfg.Network.Cgroup != "" {
		return n.cfg.Network.Cgroup
	}
	unified := filepath.Join(n.cfg.CgroupMount, "unified")
	if _, err := os.Stat(filepath.Join(unified, "cgroup.procs")); err == nil {
		return unified
	}
	return n.cfg.CgroupMount
}

// between is the address that a node has between nodes: that of IPv4, where it has one.
func between(addresses []netip.Addr) netip.Addr {
	i := slices.IndexFunc(addresses, netip.Addr.Is4)
	return addresses[max(i, 0)]
}

func (n *network) writeCNI(prefixes []netip.Prefix) error {
	file := orDefault(n.cfg.Network.CNIConfig, cni.DefaultConfigFile)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	err := cni.WriteConfig(file, cni.Config{PodCIDRs: prefixes, MTU: n.mtu, DataDir: n.cfg.Network.CNIData})
	if err == nil {
		n.changed()
	}
	return err
}

// problems says why the network is not ready, for the node's condition.
func (n *network) problems() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.cfg.Network == nil:
		return nil
	case n.problem != nil:
		return []string{"service network not ready: " + n.problem.Error()}
	case !n.ready:
		return []string{"service network not ready: load balancer is starting"}
	}
	return nil
}

// run keeps the network until ctx ends; every informer has its full picture.
func (n *network) run(ctx context.Context) error {
	if n.cfg.Network == nil {
		<-ctx.Done()
		return ctx.Err()
	}
	for _, all := range n.replay { // the handlers may not have heard of everything yet
		all()
	}
	n.routes.Synced()
	n.balancer.Synced()
	return task.Run(ctx, n.routes.Run, n.balance, n.enforce, n.health.Run, n.announceBalanced, func(ctx context.Context) error {
		select {
		case <-n.balancer.Ready():
			n.mu.Lock()
			n.ready = true
			n.mu.Unlock()
			n.changed()
		case <-ctx.Done():
		}
		<-ctx.Done()
		return ctx.Err()
	})
}

// announceBalanced answers for load balancers' addresses once what comes for them is balanced.
func (n *network) announceBalanced(ctx context.Context) error {
	select {
	case <-n.balancer.Ready():
		return n.announce.Run(ctx)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// balance runs the load balancer. Where the kernel cannot, the node says so
// in its condition and goes on running what it runs.
func (n *network) balance(ctx context.Context) error {
	var err error
	if n.overlay.Enabled() {
		err = route.EnsureTunnel(n.cfg.NodeName, n.local, n.mtu) // the programs have to know it
	}
	if err == nil {
		err = n.balancer.Run(ctx)
	}
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	slog.Error("load balancer ended", "err", err)
	n.fail(err)
	<-ctx.Done()
	return ctx.Err()
}

// fail keeps the reason why the node's network is not ready.
func (n *network) fail(err error) {
	n.mu.Lock()
	n.problem = errors.Join(n.problem, err)
	n.mu.Unlock()
	n.changed()
}
