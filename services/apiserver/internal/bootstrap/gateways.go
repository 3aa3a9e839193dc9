package bootstrap

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"howdah.dev/services/apiserver/internal/itself"
)

const (
	// askEvery is how often each gateway is asked, askTimeout how long it has for its answer.
	askEvery   = 2 * time.Second
	askTimeout = 2 * time.Second
	// patience is how many times in a row a gateway may be silent before nobody is led to it.
	patience = 3
)

// Ask finds out whether a gateway answers.
type Ask func(ctx context.Context, gateway netip.AddrPort) error

// Handshake asks by a TLS handshake, which a process that hangs does not answer, and another one not with the name of a gateway, which the configuration asks for.
func Handshake(config *tls.Config) Ask {
	return func(ctx context.Context, gateway netip.AddrPort) error {
		conn, err := (&tls.Dialer{NetDialer: &net.Dialer{}, Config: config}).DialContext(ctx, "tcp", gateway.String())
		if err != nil {
			return err
		}
		return conn.Close()
	}
}

// FollowGateways has the Service kubernetes lead to those gateways that answer, until ctx ends: those that this server is told of, and those of API servers that join
// later or are gone. Where none answers it leads to all of them. Run has made it lead to all.
//
// Each API server writes what it sees when that changes, so that two who see it differently do not overwrite each other for ever. What is removed of Leading, of
// which changed fires, is made again. What leads astray at `patience` ticks in a row is somebody else's work, and replaced: in between, another API server may
// have written of a gateway that this one has yet to hear of.
func FollowGateways(ctx context.Context, cfg Config, ask Ask, ticks <-chan time.Time, changed <-chan struct{}) error {
	ctx = itself.Context(ctx)
	silent := make(map[netip.AddrPort]int, len(cfg.Gateways))
	written := cfg.gateways()
	strayed := 0
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
			if err := untilDone(ctx, func() error { return led(ctx, cfg, written) }); err != nil {
				return err
			}
			continue
		case <-ticks:
		}
		all := cfg.gateways()
		count(silent, askAll(ctx, all, ask))
		now := answering(all, silent)
		if strayed++; !astray(ctx, cfg.API, all) {
			strayed = 0
		}
		if slices.Equal(now, written) && strayed < patience || ctx.Err() != nil {
			continue
		}
		if err := lead(ctx, cfg, now); err != nil {
			slog.WarnContext(ctx, "lead the Service kubernetes to the gateways that answer", "err", err)
			continue // the next tick tries again
		}
		why := "the gateways that answer have changed"
		if strayed >= patience {
			why = "somebody had the Service kubernetes lead astray"
		}
		slog.WarnContext(ctx, why, "gateways", fmt.Sprint(now), "all", fmt.Sprint(all))
		written, strayed = now, 0
	}
}

// askAll asks all gateways at once, and answers which were silent.
func askAll(ctx context.Context, gateways []netip.AddrPort, ask Ask) map[netip.AddrPort]bool {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var mu sync.Mutex
	var asked sync.WaitGroup
	silent := make(map[netip.AddrPort]bool, len(gateways))
	for _, g := range gateways {
		asked.Go(func() {
			err := ask(ctx, g)
			mu.Lock()
			defer mu.Unlock()
			silent[g] = err != nil
		})
	}
	asked.Wait()
	return silent
}

// count keeps how many times in a row each gateway was silent.
func count(silent map[netip.AddrPort]int, now map[netip.AddrPort]bool) {
	for g, is := range now {
		if is {
			silent[g]++
		} else {
			silent[g] = 0
		}
	}
}

// answering are the gateways to lead to.
func answering(all []netip.AddrPort, silent map[netip.AddrPort]int) []netip.AddrPort {
	there := slices.DeleteFunc(slices.Clone(all), func(g netip.AddrPort) bool { return silent[g] >= patience })
	if len(there) == 0 {
		return all
	}
	return there
}

// Ticks are those that FollowGateways asks by.
func Ticks(ctx context.Context) <-chan time.Time {
	ticker := time.NewTicker(askEvery)
	context.AfterFunc(ctx, ticker.Stop)
	return ticker.C
}

// gateways are those that this API server is told of, and those that others have registered, in order, so that all API servers write the same. Endpoints have one
// port: whoever registers another one is left out.
func (cfg Config) gateways() []netip.AddrPort {
	all := slices.Clone(cfg.Gateways)
	if cfg.Registered != nil && len(all) > 0 {
		for _, g := range cfg.Registered() {
			if g.Port() == cfg.Gateways[0].Port() {
				all = append(all, g)
			}
		}
	}
	slices.SortFunc(all, netip.AddrPort.Compare)
	return slices.Compact(all)
}

// led has the Service kubernetes lead somewhere: what is absent is made.
func led(ctx context.Context, cfg Config, gateways []netip.AddrPort) error {
	if err := ensure(ctx, cfg.API, resource{version: "v1", resource: "endpoints"}, endpoints(gateways), nil); err != nil {
		return err
	}
	return ensure(ctx, cfg.API, resource{"discovery.k8s.io", "v1", "endpointslices"}, slice(gateways), nil)
}

// lead writes where the Service kubernetes leads.
func lead(ctx context.Context, cfg Config, gateways []netip.AddrPort) error {
	err := ensure(ctx, cfg.API, resource{version: "v1", resource: "endpoints"}, endpoints(gateways), func(old, obj *corev1.Endpoints) bool {
		return equality.Semantic.DeepEqual(old.Subsets, obj.Subsets)
	})
	if err != nil {
		return err
	}
	return ensure(ctx, cfg.API, resource{"discovery.k8s.io", "v1", "endpointslices"}, slice(gateways), func(old, obj *discoveryv1.EndpointSlice) bool {
		return equality.Semantic.DeepEqual(old.Endpoints, obj.Endpoints) && equality.Semantic.DeepEqual(old.Ports, obj.Ports)
	})
}
