package discovery

import (
	"slices"
	"strings"

	discoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/services/apiserver/internal/aggregate"
)

// withRemote adds the group versions of extension API servers: their groups and versions stand where their priorities put them among those of this server,
// whose own order stays. Where this server serves the version, too, that gives way: requests for it are passed on.
func withRemote(groups []group, remote []aggregate.Version) []group {
	groups = slices.Clone(groups)
	for _, v := range remote {
		version := groupVersion{gv: v.GroupVersion, remote: &v}
		i := slices.IndexFunc(groups, func(g group) bool { return g.name == v.Group })
		if i >= 0 {
			groups[i].versions = slices.DeleteFunc(slices.Clone(groups[i].versions), func(o groupVersion) bool { return o.gv == v.GroupVersion })
			if len(groups[i].versions) == 0 {
				groups, i = slices.Delete(groups, i, i+1), -1
			}
		}
		switch {
		case i < 0:
			g := group{name: v.Group, versions: []groupVersion{version}}
			groups = slices.Insert(groups, place(groups, func(o group) bool { return v.GroupBefore(o.name, o.priority()) }), g)
		default:
			versions := groups[i].versions
			groups[i].versions = slices.Insert(versions, place(versions, func(o groupVersion) bool { return v.Before(o.gv.Version, o.priority()) }), version)
		}
	}
	return groups
}

// place is the index of the first of all that come behind, or their number.
func place[T any](all []T, behind func(T) bool) int {
	if i := slices.IndexFunc(all, behind); i >= 0 {
		return i
	}
	return len(all)
}

// priority is the group's among all groups.
func (g group) priority() int32 {
	for _, v := range g.versions {
		if v.remote == nil {
			return aggregate.LocalGroupPriority(g.name)
		}
	}
	return g.versions[0].remote.GroupPriority
}

// priority is the version's in its group.
func (v groupVersion) priority() int32 {
	if v.remote != nil {
		return v.remote.VersionPriority
	}
	return aggregate.LocalVersionPriority(v.gv)
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
