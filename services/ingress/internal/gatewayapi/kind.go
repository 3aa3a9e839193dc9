// Package gatewayapi has the kinds of the Gateway API, and their definitions.
package gatewayapi

import (
	"k8s.io/apimachinery/pkg/runtime/schema"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"howdah.dev/kit/object"
)

func kindOf[T object.Object](version, kind, resource string, namespaced bool, new func() T) object.Kind[T] {
	return object.CustomKind(schema.GroupVersionKind{Group: gatewayv1.GroupName, Version: version, Kind: kind}, resource, namespaced, new)
}

// The kinds that are followed.
var (
	GatewayClass = kindOf("v1", "GatewayClass", "gatewayclasses", false, func() *gatewayv1.GatewayClass { return &gatewayv1.GatewayClass{} })
	Gateway      = kindOf("v1", "Gateway", "gateways", true, func() *gatewayv1.Gateway { return &gatewayv1.Gateway{} })
	ListenerSet  = kindOf("v1", "ListenerSet", "listenersets", true, func() *gatewayv1.ListenerSet { return &gatewayv1.ListenerSet{} })
	HTTPRoute    = kindOf("v1", "HTTPRoute", "httproutes", true, func() *gatewayv1.HTTPRoute { return &gatewayv1.HTTPRoute{} })
	GRPCRoute    = kindOf("v1", "GRPCRoute", "grpcroutes", true, func() *gatewayv1.GRPCRoute { return &gatewayv1.GRPCRoute{} })
	TLSRoute     = kindOf("v1", "TLSRoute", "tlsroutes", true, func() *gatewayv1.TLSRoute { return &gatewayv1.TLSRoute{} })
	// ReferenceGrant is of the version that all releases serve.
	ReferenceGrant   = kindOf("v1beta1", "ReferenceGrant", "referencegrants", true, func() *gatewayv1.ReferenceGrant { return &gatewayv1.ReferenceGrant{} })
	BackendTLSPolicy = kindOf("v1", "BackendTLSPolicy", "backendtlspolicies", true, func() *gatewayv1.BackendTLSPolicy { return &gatewayv1.BackendTLSPolicy{} })
)
