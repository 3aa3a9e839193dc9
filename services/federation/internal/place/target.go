package place

import (
	"math"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/services/federation/api"
)

// Selects reports whether a target selects the cluster. A selector that makes no sense selects none; policies with one are not accepted.
func Selects(t api.ClusterTarget, c *api.Cluster) bool {
	if len(t.Clusters) > 0 && !slices.Contains(t.Clusters, c.Name) {
		return false
	}
	if t.ClusterSelector == nil {
		return true
	}
	selector, err := metav1.LabelSelectorAsSelector(t.ClusterSelector)
	return err == nil && selector.Matches(c.SelectorLabels())
}

// untolerated returns a taint that keeps an object away: of those that matter where it is placed already, or where it is not.
func untolerated(taints []api.Taint, tolerations []api.Toleration, placed bool) *api.Taint {
	for i, t := range taints {
		if placed && t.Effect != api.NoExecute {
			continue
		}
		if !slices.ContainsFunc(tolerations, func(o api.Toleration) bool { return tolerates(o, t) }) {
			return &taints[i]
		}
	}
	return nil
}

func tolerates(o api.Toleration, t api.Taint) bool {
	if o.Effect != "" && o.Effect != t.Effect || o.Key != "" && o.Key != t.Key {
		return false
	}
	return o.Operator == "Exists" || o.Key != "" && o.Value == t.Value
}

// pods is the resource of which every pod takes one.
const pods = "pods"

// unbounded is the room of a cluster that does not say how much it has.
const unbounded = math.MaxInt32

// room is how many replicas with the requests fit into what is not allocated yet, on all nodes together.
func room(c *api.Cluster, requests api.Resources) int64 {
	if len(c.Status.Allocatable) == 0 {
		if c.Status.Nodes != nil {
			return 0 // it has no node that is ready
		}
		return unbounded
	}
	most := int64(unbounded)
	fit := func(name string, each resource.Quantity) {
		if each.Sign() <= 0 {
			return
		}
		free := c.Status.Allocatable[name].DeepCopy()
		if used, ok := c.Status.Allocated[name]; ok {
			free.Sub(used)
		}
		if free.Sign() <= 0 {
			most = 0
			return
		}
		most = min(most, int64(free.AsApproximateFloat64()/each.AsApproximateFloat64()))
	}
	for name, each := range requests {
		fit(name, each)
	}
	fit(pods, resource.MustParse("1"))
	return most
}
