package rpc

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"

	"google.golang.org/grpc/resolver"
	"k8s.io/utils/clock"
)

const (
	// resolveAgain is the least time between two look-ups of a name. One that fails is tried again after it, however often it has failed: where containers come and
	// go their names do, too, and gRPC's own resolver, which waits for up to two minutes then, would keep everybody from a server that is back.
	resolveAgain = time.Second
	// resolveAnyway is when a name is looked up though all of its addresses answer: there may be more by now.
	resolveAnyway  = 30 * time.Second
	resolveTimeout = 5 * time.Second
)

// names resolves targets such as "dns:///apiserver:7443" in place of gRPC's own resolver.
type names struct {
	lookup func(ctx context.Context, host string) ([]string, error)
	clock  clock.Clock
}

func newNames() names { return names{net.DefaultResolver.LookupHost, clock.RealClock{}} }

// Scheme implements resolver.Builder.
func (names) Scheme() string { return "dns" }

// Build implements resolver.Builder.
func (n names) Build(target resolver.Target, cc resolver.ClientConn, _ resolver.BuildOptions) (resolver.Resolver, error) {
	host, port, err := net.SplitHostPort(target.Endpoint())
	if err != nil {
		return nil, fmt.Errorf("target %s: %w", target.String(), err)
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return fixed{}, cc.UpdateState(resolver.State{Addresses: []resolver.Address{{Addr: target.Endpoint()}}})
	}
	ctx, cancel := context.WithCancel(context.Background())
	r := &following{names: n, host: host, port: port, cc: cc, cancel: cancel, now: make(chan struct{}, 1), done: make(chan struct{})}
	go r.run(ctx)
	return r, nil
}

// fixed is an address, of which there is nothing to look up.
type fixed struct{}

func (fixed) ResolveNow(resolver.ResolveNowOptions) {}
func (fixed) Close()                                {}

// following keeps a connection's addresses those of a name.
type following struct {
	names
	host, port string
	cc         resolver.ClientConn
	cancel     context.CancelFunc
	now        chan struct{}
	done       chan struct{}
}

// ResolveNow implements resolver.Resolver: an address does not answer.
func (f *following) ResolveNow(resolver.ResolveNowOptions) {
	select {
	case f.now <- struct{}{}:
	default:
	}
}

// Close implements resolver.Resolver.
func (f *following) Close() {
	f.cancel()
	<-f.done
}

func (f *following) run(ctx context.Context) {
	defer close(f.done)
	for {
		wait := resolveAnyway
		if err := f.resolve(ctx); err != nil {
			wait = 0
		}
		if !f.pause(ctx, resolveAgain, nil) || !f.pause(ctx, wait-resolveAgain, f.now) {
			return
		}
	}
}

// resolve looks the name up and tells the connection what it found. An error is of the name, or of a connection that has no use for the addresses.
func (f *following) resolve(ctx context.Context) error {
	lookupCtx, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	hosts, err := f.lookup(lookupCtx, f.host)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		f.cc.ReportError(fmt.Errorf("look up %s: %w", f.host, err))
		return err
	}
	state := resolver.State{}
	for _, host := range hosts {
		state.Addresses = append(state.Addresses, resolver.Address{Addr: net.JoinHostPort(host, f.port)})
	}
	return f.cc.UpdateState(state)
}

// pause waits, and ends early when woken; false says that ctx has ended.
func (f *following) pause(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := f.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-wake:
	case <-timer.C():
	}
	return true
}
