package apiserver

import (
	"context"
	"net/netip"

	"howdah.dev/kit/task"
	"howdah.dev/services/apiserver/internal/bootstrap"
	"howdah.dev/services/apiserver/internal/cache"
	"howdah.dev/services/apiserver/internal/presence"
)

// bootstrap is what makes the cluster's own objects.
func (s *Server) bootstrap() bootstrap.Config {
	leases := s.leases()
	return bootstrap.Config{
		Registered: func() []netip.AddrPort { return presence.Gateways(leases(), s.cfg.Clock.Now()) },
		API:        s.objects, Now: s.cfg.Clock.Now, ServiceCIDRs: s.cfg.ServiceCIDRs, ServiceIP: s.cfg.ServiceCIDRs[0].Addr().Next(), Gateways: s.cfg.GatewayEndpoints, Definitions: s.definitions(),
	}
}

// keepOwn makes the cluster's own objects again where somebody removes them.
func (s *Server) keepOwn(ctx context.Context) error {
	return s.following(ctx, bootstrap.Kept(), func(ctx context.Context, changed <-chan struct{}) error {
		return bootstrap.Keep(ctx, s.bootstrap(), changed)
	})
}

// followGateways leads the Service kubernetes to the gateways of all API servers, past those that do not answer.
func (s *Server) followGateways(ctx context.Context) error {
	if len(s.cfg.GatewayEndpoints) == 0 {
		<-ctx.Done()
		return ctx.Err()
	}
	return s.following(ctx, bootstrap.Leading(), func(ctx context.Context, changed <-chan struct{}) error {
		ask := func(context.Context, netip.AddrPort) error { return nil } // without certificates nobody can be asked
		if s.cfg.GatewayTLS != nil {
			ask = bootstrap.Handshake(s.cfg.GatewayTLS)
		}
		return bootstrap.FollowGateways(ctx, s.bootstrap(), ask, bootstrap.Ticks(ctx), changed)
	})
}

// following runs a part when the server is ready, and tells it when some of the objects change, and once at its beginning.
func (s *Server) following(ctx context.Context, objects []bootstrap.Object, part func(ctx context.Context, changed <-chan struct{}) error) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-s.ready:
	}
	var changes []*cache.Changes
	for _, o := range objects {
		kind := s.known.Table.Known(o.GroupVersionResource).Kind
		changes = append(changes, s.cache.For(kind).Changes(cache.Scope{Namespace: o.Namespace, Name: o.Name}))
	}
	changed := make(chan struct{}, 1)
	changed <- struct{}{}
	return task.Run(ctx, func(ctx context.Context) error {
		cache.Notify(ctx, changed, changes...)
		return ctx.Err()
	}, func(ctx context.Context) error { return part(ctx, changed) })
}
