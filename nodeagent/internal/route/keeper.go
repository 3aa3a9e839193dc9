package route

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	firstRetry = 100 * time.Millisecond
	lastRetry  = 30 * time.Second
	resync     = time.Minute
)

// Config is what a keeper needs.
type Config struct {
	Node   string // this node's name; "" for a machine that is no node, and has routes to the nodes' pods alone
	Ranges Ranges
	// Overlay says which nodes are reached through a tunnel, Local which of the node's addresses its packets come from, and MTU how large they are without
	// the tunnel's headers.
	Overlay Overlay
	Local   netip.Addr
	MTU     int
	// Uplink is the interface to the other nodes; "" where routers' advertisements do not matter.
	Uplink string
	// PodCIDRs is called with this node's pod CIDRs when they become known or change, after the routes stand: the
	// place to write the CNI configuration. An error makes the keeper try again. Nil: not called.
	PodCIDRs func([]netip.Prefix) error
	// Applied is called whenever all routes stand. Nil: not called.
	Applied func()
	Log     *slog.Logger // default: slog.Default
}

// Keeper keeps routes and masquerading as the Node objects say.
type Keeper struct {
	cfg  Config
	wake chan struct{}

	mu     sync.Mutex
	nodes  map[string]*corev1.Node
	synced bool
}

// NewKeeper starts nothing.
func NewKeeper(cfg Config) *Keeper {
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	return &Keeper{cfg: cfg, wake: make(chan struct{}, 1), nodes: map[string]*corev1.Node{}}
}

// Update takes in a new or changed node. It never blocks; the object must not be changed afterwards.
func (k *Keeper) Update(node *corev1.Node) {
	k.mu.Lock()
	k.nodes[node.Name] = node
	k.mu.Unlock()
	k.poke()
}

// Delete takes out a node that is gone.
func (k *Keeper) Delete(name string) {
	k.mu.Lock()
	delete(k.nodes, name)
	k.mu.Unlock()
	k.poke()
}

// Synced says that every node that exists has been given to Update once. Nothing is done before it, so that a
// restarted agent takes no route away.
func (k *Keeper) Synced() {
	k.mu.Lock()
	k.synced = true
	k.mu.Unlock()
	k.poke()
}

func (k *Keeper) poke() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// applied is what stands, to do nothing twice (a node's heartbeat changes its object, but no route).
type applied struct {
	peers      []Peer
	routes     []Route
	masquerade Masquerade
	own        []netip.Prefix
}

// Run keeps the routes until ctx ends; they stay in place then. It retries by itself what fails.
func (k *Keeper) Run(ctx context.Context) error {
	ticker := time.NewTicker(resync)
	defer ticker.Stop()
	retry := time.NewTimer(lastRetry)
	defer retry.Stop()
	retry.Stop()
	wait, last := firstRetry, (*applied)(nil)
	for {
		if err := k.sync(&last); err != nil {
			k.cfg.Log.Error("routes are not complete; will retry", "node", k.cfg.Node, "err", err, "after", wait)
			retry.Reset(wait)
			wait = min(2*wait, lastRetry)
		} else {
			retry.Stop()
			wait = firstRetry
		}
		select {
		case <-ctx.Done():
			return nil
		case <-k.wake:
		case <-retry.C:
		case <-ticker.C:
			last = nil
		}
	}
}

func (k *Keeper) sync(last **applied) error {
	k.mu.Lock()
	nodes := slices.Collect(maps.Values(k.nodes))
	self, synced := k.nodes[k.cfg.Node], k.synced
	k.mu.Unlock()
	if !synced {
		return nil
	}
	tunnel := Tunnel{Overlay: k.cfg.Overlay, Local: k.cfg.Local}
	if tunnel.Overlay == OverlayAuto {
		var err error
		if tunnel.Networks, err = localNetworks(); err != nil {
			return err
		}
	}
	now := &applied{}
	var tunnelled []Route
	now.peers, tunnelled = tunnel.Peers(k.cfg.Node, nodes)
	now.routes = Desired(k.cfg.Node, nodes, k.cfg.Ranges, tunnelled...)
	if self != nil {
		now.own = podCIDRs(self)
	}
	now.masquerade = NewMasquerade(now.own, k.cfg.Ranges, Peers(nodes))
	now.masquerade.Tunnel = tunnel.Overlay.Enabled()
	old := *last
	fresh := old == nil
	if !fresh && slices.Equal(old.routes, now.routes) && slices.EqualFunc(old.peers, now.peers, Peer.equal) && slices.Equal(old.own, now.own) && slices.Equal(old.masquerade.Except, now.masquerade.Except) {
		return nil
	}
	var errs []error
	v6 := slices.ContainsFunc(k.cfg.Ranges.Pods, func(p netip.Prefix) bool { return p.Addr().Is6() })
	node := k.cfg.Node != ""
	if fresh && node {
		errs = append(errs, EnableForwarding(v6, k.cfg.Uplink))
	}
	if node && tunnel.Overlay.Enabled() {
		if fresh {
			errs = append(errs, EnsureTunnel(k.cfg.Node, k.cfg.Local, k.cfg.MTU))
		}
		errs = append(errs, ReconcilePeers(now.peers, now.own))
	}
	errs = append(errs, Reconcile(now.routes))
	if fresh && node && !tunnel.Overlay.Enabled() {
		errs = append(errs, RemoveTunnel()) // of a time with other settings; nothing leads there any more
	}
	if !node {
		now.masquerade = Masquerade{}
	} else if fresh || !slices.Equal(old.masquerade.From, now.masquerade.From) || !slices.Equal(old.masquerade.Except, now.masquerade.Except) {
		errs = append(errs, now.masquerade.Apply())
	}
	if k.cfg.PodCIDRs != nil && len(now.own) > 0 {
		if err := k.cfg.PodCIDRs(now.own); err != nil {
			errs = append(errs, fmt.Errorf("announce pod CIDRs: %w", err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		*last = nil
		return err
	}
	*last = now
	if k.cfg.Applied != nil {
		k.cfg.Applied()
	}
	return nil
}
