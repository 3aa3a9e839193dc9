package discovery

import (
	"slices"
	"strings"

	discoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/services/apiserver/internal/aggregate"
)

// customPriority is that of the groups of custom kinds: a remote group with a higher one stands before them.
const customPriority = 1000

// withRemote adds the group versions of extension API servers. A group that has both has this server's versions first; what is only made
// here, as metrics.k8s.io, gives way.
func withRemote(groups []group, remote []aggregate.Version) []group {
	for _, v := range remote {
		version := groupVersion{gv: v.GroupVersion, remote: &v}
		i := slices.IndexFunc(groups, func(g group) bool { return g.name == v.Group })
		if i < 0 {
			groups = insert(groups, group{name: v.Group, versions: []groupVersion{version}}, v.GroupPriority)
			continue
		}
		versions := slices.Clone(groups[i].versions)
		at := slices.IndexFunc(versions, func(o groupVersion) bool { return o.gv == v.GroupVersion })
		switch {
		case at < 0:
			groups[i].versions = append(versions, version)
		case versions[at].made():
			versions[at] = version
			groups[i].versions = versions
		}
	}
	return groups
}

// made reports whether nothing of a version is stored here: an extension API server takes its place.
func (v groupVersion) made() bool {
	return v.remote == nil && !slices.ContainsFunc(v.resources, func(r resource) bool { return !r.virtual })
}

// insert puts a remote group behind the built-in ones and, unless its priority is higher, behind all.
func insert(groups []group, g group, priority int32) []group {
	if priority <= customPriority {
		return append(slices.Clone(groups), g)
	}
	at := slices.IndexFunc(groups, func(o group) bool { return rank(o.name) >= len(groupOrder) && o.versions[0].remote == nil })
	if at < 0 {
		at = len(groups)
	}
	return slices.Insert(slices.Clone(groups), at, g)
}

// known reports whether what a remote group version serves can be told: its server answers now. Clients ask that server itself; it
// is controllers that ask here, and what they do not see they take for absent, as all that a namespace to be removed still holds.
func known(v *aggregate.Version) bool { return !v.Stale && v.Resources != nil }

// remoteVersion returns the remote group version whose document a path is, or nil.
func (s *served) remoteVersion(path string) *aggregate.Version {
	for _, g := range s.groups {
		for _, v := range g.versions {
			if v.remote != nil && path == "/apis/"+v.gv.String() {
				return v.remote
			}
		}
	}
	return nil
}

// remoteList is the document of a remote group version.
func remoteList(v *aggregate.Version) *metav1.APIResourceList {
	out := *v.Resources
	out.TypeMeta = metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}
	return &out
}

// describeRemote is a remote group version as the aggregated document has it.
func describeRemote(v *aggregate.Version) discoveryv2.APIVersionDiscovery {
	out := discoveryv2.APIVersionDiscovery{Version: v.Version, Freshness: discoveryv2.DiscoveryFreshnessCurrent}
	if v.Stale {
		out.Freshness = discoveryv2.DiscoveryFreshnessStale
	}
	if v.Resources == nil {
		return out
	}
	index := map[string]int{}
	for _, r := range v.Resources.APIResources {
		name, sub, isSub := strings.Cut(r.Name, "/")
		kind := &metav1.GroupVersionKind{Group: v.Group, Version: v.Version, Kind: r.Kind}
		if r.Group != "" || r.Version != "" {
			kind.Group, kind.Version = r.Group, r.Version
		}
		if isSub {
			if i, ok := index[name]; ok {
				out.Resources[i].Subresources = append(out.Resources[i].Subresources, discoveryv2.APISubresourceDiscovery{
					Subresource: sub, ResponseKind: kind, Verbs: r.Verbs,
				})
			}
			continue
		}
		scope := discoveryv2.ScopeCluster
		if r.Namespaced {
			scope = discoveryv2.ScopeNamespace
		}
		index[name] = len(out.Resources)
		out.Resources = append(out.Resources, discoveryv2.APIResourceDiscovery{
			Resource: r.Name, ResponseKind: kind, Scope: scope, SingularResource: r.SingularName, Verbs: r.Verbs,
			ShortNames: r.ShortNames, Categories: r.Categories,
		})
	}
	return out
}
