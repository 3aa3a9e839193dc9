package ingress

import (
	"maps"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"howdah.dev/kit/object"
	"howdah.dev/services/ingress/internal/custom"
	"howdah.dev/services/ingress/internal/gatewayapi"
	"howdah.dev/services/ingress/internal/route"
	"howdah.dev/services/ingress/internal/status"
)

// followed are the kinds of the Gateway API, which may be there or not.
type followed struct {
	classes      *custom.Kind[*gatewayv1.GatewayClass]
	gateways     *custom.Kind[*gatewayv1.Gateway]
	listenerSets *custom.Kind[*gatewayv1.ListenerSet]
	httpRoutes   *custom.Kind[*gatewayv1.HTTPRoute]
	grpcRoutes   *custom.Kind[*gatewayv1.GRPCRoute]
	tlsRoutes    *custom.Kind[*gatewayv1.TLSRoute]
	grants       *custom.Kind[*gatewayv1.ReferenceGrant]
	policies     *custom.Kind[*gatewayv1.BackendTLSPolicy]
}

func (s *Server) followGateways() {
	s.custom = custom.NewSet(s.cfg.Objects, gatewayapi.Definitions, s.cfg.Clock, s.changed)
	s.kinds = followed{
		classes:      follow(s, gatewayapi.GatewayClass),
		gateways:     follow(s, gatewayapi.Gateway),
		listenerSets: follow(s, gatewayapi.ListenerSet),
		httpRoutes:   follow(s, gatewayapi.HTTPRoute),
		grpcRoutes:   follow(s, gatewayapi.GRPCRoute),
		tlsRoutes:    follow(s, gatewayapi.TLSRoute),
		grants:       follow(s, gatewayapi.ReferenceGrant),
		policies:     follow(s, gatewayapi.BackendTLSPolicy),
	}
}

// follow follows a kind; what of an object is not its status changes the table, and its status may have to be written again.
func follow[T interface {
	comparable
	object.Object
}](s *Server, kind object.Kind[T]) *custom.Kind[T] {
	var none T
	return custom.Follow(s.custom, kind, func(old, now T) {
		// Objects without a status have no generation that tells their changes from those.
		if old == none || now == none || old.GetGeneration() != now.GetGeneration() || now.GetGeneration() == 0 || !maps.Equal(old.GetLabels(), now.GetLabels()) {
			s.changed()
		}
		if now != none {
			s.gateways.Touched(now)
		}
	})
}

// gatewaySources are the objects of the Gateway API that there are.
func (s *Server) gatewaySources(closed map[int32]string) route.GatewaySources {
	out := route.GatewaySources{
		Controller: s.cfg.GatewayController, Classes: s.kinds.classes.List(), Gateways: s.kinds.gateways.List(), ListenerSets: s.kinds.listenerSets.List(),
		HTTPRoutes: s.kinds.httpRoutes.List(), GRPCRoutes: s.kinds.grpcRoutes.List(), TLSRoutes: s.kinds.tlsRoutes.List(), Grants: s.kinds.grants.List(),
		Policies: s.kinds.policies.List(), Addresses: status.OfGateways(s.addresses()), Closed: closed,
	}
	if d, ok := s.custom.Definition(gatewayapi.GatewayClass.GroupResource().String()); ok {
		out.Version = d.Annotations[gatewayapi.VersionAnnotation]
	}
	return out
}
