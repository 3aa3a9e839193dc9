package route

import (
	"slices"

	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"howdah.dev/kit/object"
)

// GatewayController is the name by which GatewayClasses say that their Gateways are ours.
const GatewayController = "howdah.dev/gateway"

// GatewaySources are the objects of the Gateway API.
type GatewaySources struct {
	// Controller is the controllerName of the GatewayClasses to serve; "" is GatewayController.
	Controller   string
	Classes      []*gatewayv1.GatewayClass
	Gateways     []*gatewayv1.Gateway
	ListenerSets []*gatewayv1.ListenerSet
	HTTPRoutes   []*gatewayv1.HTTPRoute
	GRPCRoutes   []*gatewayv1.GRPCRoute
	TLSRoutes    []*gatewayv1.TLSRoute
	Grants       []*gatewayv1.ReferenceGrant
	Policies     []*gatewayv1.BackendTLSPolicy
	// Version is that of the bundle which the definitions are of.
	Version string
	// Addresses are those of the proxy.
	Addresses []gatewayv1.GatewayStatusAddress
	// Closed says of ports why they could not be opened.
	Closed map[int32]string
}

// Group of the Gateway API.
const group = gatewayv1.GroupName

// Statuses are what is to be told of the objects, as "namespace/name" of each kind. Conditions lack the time of their last change.
type Statuses struct {
	Classes      map[string]gatewayv1.GatewayClassStatus
	Gateways     map[string]gatewayv1.GatewayStatus
	ListenerSets map[string]gatewayv1.ListenerSetStatus
	// Routes are by kind. What of routes and policies is not here has nothing of ours in its status.
	Routes   map[string]map[string][]gatewayv1.RouteParentStatus
	Policies map[string][]gatewayv1.PolicyAncestorStatus
}

func newStatuses() Statuses {
	return Statuses{
		Classes: map[string]gatewayv1.GatewayClassStatus{}, Gateways: map[string]gatewayv1.GatewayStatus{}, ListenerSets: map[string]gatewayv1.ListenerSetStatus{},
		Routes: map[string]map[string][]gatewayv1.RouteParentStatus{"HTTPRoute": {}, "GRPCRoute": {}, "TLSRoute": {}}, Policies: map[string][]gatewayv1.PolicyAncestorStatus{},
	}
}

// Key is how objects are known beside others of other kinds.
func Key(kind, namespace, name string) string { return kind + "/" + namespace + "/" + name }

// gateways is what one build does of the Gateway API.
type gateways struct {
	*work
	from   GatewaySources
	grants map[string][]*gatewayv1.ReferenceGrant // by namespace
	// all are the Gateways of ours, oldest first; parents are these and their ListenerSets, by Key.
	all     []*gateway
	parents map[string]*parent
	// spoken says of ports whether TLS is spoken there.
	spoken   map[int32]bool
	policies policies
}

func (w *work) gatewayAPI(from GatewaySources) {
	if from.Controller == "" {
		from.Controller = GatewayController
	}
	g := &gateways{
		work: w, from: from, grants: map[string][]*gatewayv1.ReferenceGrant{}, parents: map[string]*parent{},
		spoken: map[int32]bool{PlainPort: false, SecurePort: true},
	}
	classes := g.classes()
	for _, grant := range from.Grants {
		g.grants[grant.Namespace] = append(g.grants[grant.Namespace], grant)
	}
	g.policies = g.readPolicies()
	sets := g.setsByGateway()
	for _, one := range sorted(from.Gateways) {
		if classes[string(one.Spec.GatewayClassName)] {
			g.gateway(one, sets[object.KeyOf(one)])
		}
	}
	routes := g.routes()
	for _, r := range routes {
		g.attach(r)
	}
	g.settle()
	for _, r := range routes {
		g.serve(r)
	}
	for _, one := range g.all {
		g.tell(one)
	}
	g.tellPolicies()
}

// sorted returns objects in the order of precedence.
func sorted[T object.Object](all []T) []T { return slices.SortedFunc(slices.Values(all), older[T]) }

// granted reports whether an object of the namespace from may name one of another namespace: a ReferenceGrant there says so.
func (g *gateways) granted(kind, from, toGroup, toKind, namespace, name string) bool {
	if from == namespace {
		return true
	}
	for _, grant := range g.grants[namespace] {
		if slices.ContainsFunc(grant.Spec.From, func(f gatewayv1.ReferenceGrantFrom) bool {
			return string(f.Group) == group && string(f.Kind) == kind && string(f.Namespace) == from
		}) && slices.ContainsFunc(grant.Spec.To, func(t gatewayv1.ReferenceGrantTo) bool {
			return string(t.Group) == toGroup && string(t.Kind) == toKind && (t.Name == nil || *t.Name == "" || string(*t.Name) == name)
		}) {
			return true
		}
	}
	return false
}
