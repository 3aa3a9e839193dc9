// Package announce answers, on the network that the node is on, for the addresses of load balancers that the control plane has given to the node.
// By ARP for IPv4, by neighbour discovery for IPv6. It only tells where the addresses are: the traffic that comes then is balanced at the uplink, as any other from outside.
package announce

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
)

const (
	// again is how often addresses are told of though nobody asks: whoever has heard of another node meanwhile learns better.
	again = 10 * time.Second
	// burst is how often a new address is told of, and pause the time between: a frame may get lost.
	burst = 3
	pause = time.Second
	// retry is when the interface is tried again.
	retry = 5 * time.Second
	// respect is for how long an address is left to another node that says that it has it, which it does every ten seconds.
	respect = 3 * again
)

// Config is what an Announcer needs.
type Config struct {
	// Node is the node's name, and Interface the one on the nodes' network.
	Node, Interface string
	// Ranges are where load balancers' addresses are from. No other address is ever answered for, whatever a Service says.
	Ranges []netip.Prefix
	// Alive says whether the control plane hears of the node; nil is always. While it does not, another node may have been chosen: what another one says it has
	// is left to it. Whoever says nothing may be as cut off, or the control plane may be away, and then the node answers on.
	Alive   func() bool
	Clock   clock.WithTicker
	Metrics prometheus.Registerer
}

// Announcer knows which addresses are the node's to answer for.
type Announcer struct {
	cfg     Config
	replies prometheus.Counter
	wires   []*wire       // one a family that the ranges have; Run's own
	wake    chan struct{} // the addresses have changed

	mu   sync.Mutex
	by   map[string][]netip.Addr  // by the key of the Service
	left map[netip.Addr]int       // how often an address is still to be told of in its burst
	gone map[netip.Addr]time.Time // when another node was last heard to have an address, while the control plane did not hear of this one
}

// New returns an announcer; nothing is sent before Run.
func New(cfg Config) (*Announcer, error) {
	if cfg.Alive == nil {
		cfg.Alive = func() bool { return true }
	}
	a := &Announcer{
		cfg: cfg, wake: make(chan struct{}, 1), by: map[string][]netip.Addr{}, left: map[netip.Addr]int{}, gone: map[netip.Addr]time.Time{},
		replies: prometheus.NewCounter(prometheus.CounterOpts{Name: "howdah_announce_replies_total", Help: "Questions for addresses of load balancers that were answered."}),
	}
	for _, l := range []language{arpLanguage(), discoveryLanguage()} {
		if slices.ContainsFunc(cfg.Ranges, func(r netip.Prefix) bool { return l.speaksOf(r.Addr()) }) {
			a.wires = append(a.wires, &wire{language: l, failed: make(chan error, 1)})
		}
	}
	if cfg.Metrics == nil {
		return a, nil
	}
	count := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "howdah_announce_addresses", Help: "Addresses of load balancers that the node answers for.",
	}, func() float64 { return float64(len(a.addresses())) })
	return a, errors.Join(cfg.Metrics.Register(count), cfg.Metrics.Register(a.replies))
}

// Addresses returns the addresses of a Service that a node has to answer for.
func Addresses(s *corev1.Service, node string, ranges []netip.Prefix) []netip.Addr {
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer || s.Annotations[object.LoadBalancerNodeAnnotation] != node {
		return nil
	}
	var all []netip.Addr
	for _, ingress := range s.Status.LoadBalancer.Ingress {
		a, err := netip.ParseAddr(ingress.IP)
		if err == nil && slices.ContainsFunc(ranges, func(r netip.Prefix) bool { return r.Contains(a) }) {
			all = append(all, a)
		}
	}
	return all
}

// Update follows a Service.
func (a *Announcer) Update(s *corev1.Service) {
	a.set(s.Namespace+"/"+s.Name, Addresses(s, a.cfg.Node, a.cfg.Ranges))
}

// Delete forgets a Service.
func (a *Announcer) Delete(s *corev1.Service) { a.set(s.Namespace+"/"+s.Name, nil) }

func (a *Announcer) set(key string, addresses []netip.Addr) {
	a.mu.Lock()
	before := a.by[key]
	if len(addresses) == 0 {
		delete(a.by, key)
	} else {
		a.by[key] = addresses
	}
	for _, ip := range addresses {
		if !slices.Contains(before, ip) {
			a.left[ip] = burst
			delete(a.gone, ip)
		}
	}
	a.mu.Unlock()
	if slices.Equal(before, addresses) {
		return
	}
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// addresses returns all that the node answers for now.
func (a *Announcer) addresses() []netip.Addr {
	a.mu.Lock()
	defer a.mu.Unlock()
	for ip, at := range a.gone {
		if a.cfg.Clock.Since(at) > respect {
			delete(a.gone, ip)
		}
	}
	var all []netip.Addr
	for _, key := range slices.Sorted(maps.Keys(a.by)) {
		for _, ip := range a.by[key] {
			if _, gone := a.gone[ip]; !gone {
				all = append(all, ip)
			}
		}
	}
	return all
}

// yield leaves an address to another node that says that it has it, unless the control plane, which hears of this one, would say so itself.
func (a *Announcer) yield(ip netip.Addr, to net.HardwareAddr) {
	if a.cfg.Alive() {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, own := range a.by {
		if !slices.Contains(own, ip) {
			continue
		}
		if _, known := a.gone[ip]; !known {
			slog.Info("another node has a load balancer's address, which is left to it until the control plane is heard again", "address", ip, "at", to.String())
		}
		a.gone[ip] = a.cfg.Clock.Now()
	}
}

// ours says whether the node answers for an address.
func (a *Announcer) ours(ip netip.Addr) bool { return slices.Contains(a.addresses(), ip) }

// Run answers until ctx ends. An interface that is away, or a socket that fails, is tried again. All sockets are of the network of the thread that Run
// is called on.
func (a *Announcer) Run(ctx context.Context) error {
	if len(a.wires) == 0 {
		<-ctx.Done()
		return ctx.Err()
	}
	slow, fast := a.cfg.Clock.NewTicker(again), a.cfg.Clock.NewTicker(pause)
	defer slow.Stop()
	defer fast.Stop()
	defer func() {
		for _, w := range a.wires {
			w.close()
		}
	}()
	for all := false; ; {
		for _, w := range a.wires {
			if err := a.tell(w, all); err != nil {
				slog.ErrorContext(ctx, "load balancers' addresses are not answered for; will retry",
					"interface", a.cfg.Interface, "protocol", w.name, "err", err, "after", retry)
				w.close()
				w.after = a.cfg.Clock.Now().Add(retry)
			}
		}
		all = false
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-slow.C():
			all = true
		case <-fast.C():
		case <-a.wake:
		}
	}
}

// tell sends what nobody asked for: in bursts what is new, and, now and then, all of it. Before that, the socket listens for the address.
func (a *Announcer) tell(w *wire, all bool) error {
	if w.socket == nil {
		if a.cfg.Clock.Now().Before(w.after) {
			return nil
		}
		s, err := open(a.cfg.Interface, w.language)
		if err != nil {
			return err
		}
		w.socket, all = s, true // what was told before may be long ago
		go func() { w.failed <- a.listen(s) }()
	}
	select {
	case err := <-w.failed:
		w.failed <- nil // close waits for it
		return err
	default:
	}
	if err := w.socket.hear(slices.DeleteFunc(a.addresses(), func(ip netip.Addr) bool { return !w.speaksOf(ip) })); err != nil {
		return err
	}
	for _, ip := range a.due(w.language, all) {
		for _, frame := range w.unasked(ip, w.socket.mac) {
			if _, err := w.socket.Write(frame); err != nil {
				return fmt.Errorf("announce %s: %w", ip, err)
			}
		}
	}
	return nil
}

// listen answers questions until the socket is closed.
func (a *Announcer) listen(s *socket) error {
	buffer := make([]byte, 1<<16)
	for {
		n, err := s.Read(buffer)
		if errors.Is(err, os.ErrClosed) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read: %w", err)
		}
		if ip, holder, ok := s.claim(buffer[:n]); ok && !bytes.Equal(holder, s.mac) {
			a.yield(ip, holder)
		}
		if reply, ok := s.reply(buffer[:n], s.mac, a.ours); ok {
			if _, err := s.Write(reply); err != nil {
				return fmt.Errorf("answer: %w", err)
			}
			a.replies.Inc()
		}
	}
}

// due returns the addresses that are to be told of now.
func (a *Announcer) due(l language, all bool) []netip.Addr {
	mine := a.addresses()
	a.mu.Lock()
	defer a.mu.Unlock()
	var due []netip.Addr
	for _, ip := range mine {
		if !l.speaksOf(ip) {
			continue
		}
		if all || a.left[ip] > 0 {
			due = append(due, ip)
		}
		if a.left[ip]--; a.left[ip] <= 0 {
			delete(a.left, ip)
		}
	}
	return due
}
