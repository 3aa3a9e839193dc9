package kind

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/services/apiserver/internal/registry"
)

// silent are the versions of workloads that leave pods and what else depends on an object alone when it is deleted without a word
// about them, as all did before there was garbage collection.
var silent = []schema.GroupVersion{{Group: "apps", Version: "v1beta1"}, {Group: "apps", Version: "v1beta2"}, {Group: "extensions", Version: "v1beta1"}}

// orphaning says in which versions a kind does so.
var orphaning = map[schema.GroupResource][]schema.GroupVersion{
	{Resource: "replicationcontrollers"}:      {{Version: "v1"}},
	{Group: "batch", Resource: "jobs"}:        {{Group: "batch", Version: "v1"}},
	{Group: "apps", Resource: "deployments"}:  silent,
	{Group: "apps", Resource: "daemonsets"}:   silent,
	{Group: "apps", Resource: "replicasets"}:  silent,
	{Group: "apps", Resource: "statefulsets"}: silent,
}

const jobOrphans = "child pods are preserved by default when jobs are deleted; " +
	"set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning"

func orphan(kinds []*registry.Kind) []*registry.Kind {
	for _, k := range kinds {
		versions := orphaning[k.GroupResource()]
		if versions == nil {
			continue
		}
		k.Orphans = func(gv schema.GroupVersion) bool { return slices.Contains(versions, gv) }
		if k.Resource == "jobs" {
			k.OrphansWarning = jobOrphans
		}
	}
	return kinds
}
