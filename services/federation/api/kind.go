package api

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/kit/object"
)

// Version is the version of the federation's kinds.
const Version = "v1"

// The kinds that have definitions.
var (
	Clusters          = kindOf("Cluster", "clusters", false, func() *Cluster { return &Cluster{} })
	Policies          = kindOf("PropagationPolicy", "propagationpolicies", true, func() *Policy { return &Policy{} })
	ClusterPolicies   = kindOf("ClusterPropagationPolicy", "clusterpropagationpolicies", false, func() *Policy { return &Policy{} })
	Placements        = kindOf("Placement", "placements", true, func() *Placement { return &Placement{} })
	ClusterPlacements = kindOf("ClusterPlacement", "clusterplacements", false, func() *Placement { return &Placement{} })
)

func kindOf[T object.Object](kind, resource string, namespaced bool, new func() T) object.Kind[T] {
	return object.CustomKind(schema.GroupVersionKind{Group: Group, Version: Version, Kind: kind}, resource, namespaced, new)
}
