package discovery

import (
	"encoding/json"
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/services/apiserver/internal/aggregate"
)

func TestRemoteDocuments(t *testing.T) {
	t.Parallel()
	gv := schema.GroupVersion{Group: "metrics.example.com", Version: "v1"}
	resources := func(verbs ...string) *metav1.APIResourceList {
		return &metav1.APIResourceList{GroupVersion: gv.String(), APIResources: []metav1.APIResource{{Name: "loads", Namespaced: true, Kind: "Load", Verbs: verbs}}}
	}
	for _, tt := range []struct {
		name   string
		remote aggregate.Version
		err    string
	}{
		{"to be read", aggregate.Version{GroupVersion: gv, Resources: resources("get", "list")}, ""},
		{"to be deleted", aggregate.Version{GroupVersion: gv, Resources: resources("list", "delete")}, ""},
		{"stale", aggregate.Version{GroupVersion: gv, Resources: resources("get"), Stale: true}, "stale GroupVersion discovery: metrics.example.com/v1"},
		{"never told", aggregate.Version{GroupVersion: gv}, "stale GroupVersion discovery: metrics.example.com/v1"},
	} {
		s := &served{groups: withRemote(nil, []aggregate.Version{tt.remote}), made: map[string]*document{}}
		d, err := s.apis("/apis/metrics.example.com/v1", "application/json")
		if tt.err != "" {
			if err == nil || err.Error() != tt.err {
				t.Errorf("%s: %v", tt.name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if !d.remote {
			t.Errorf("%s: not told to be remote", tt.name)
		}
		var list metav1.APIResourceList
		if err := json.Unmarshal(d.body, &list); err != nil || list.Kind != "APIResourceList" || list.GroupVersion != gv.String() || len(list.APIResources) != 1 {
			t.Errorf("%s: %v %s", tt.name, err, d.body)
		}
	}
}

// Groups and versions of extension API servers stand where their priorities put them.
func TestRemoteOrder(t *testing.T) {
	t.Parallel()
	version := func(group, version string, priority, versionPriority int32) aggregate.Version {
		return aggregate.Version{GroupVersion: schema.GroupVersion{Group: group, Version: version}, GroupPriority: priority, VersionPriority: versionPriority}
	}
	local := func(gvs ...schema.GroupVersion) group {
		g := group{name: gvs[0].Group}
		for _, gv := range gvs {
			g.versions = append(g.versions, groupVersion{gv: gv, resources: []resource{{}}})
		}
		return g
	}
	gv := func(group, version string) schema.GroupVersion {
		return schema.GroupVersion{Group: group, Version: version}
	}
	groups := []group{
		local(gv("", "v1")), local(gv("apiregistration.k8s.io", "v1")), local(gv("apps", "v1")), local(gv("b.example.com", "v1"), gv("b.example.com", "v1alpha1")),
		local(gv("d.example.com", "v1"), gv("d.example.com", "v2")), local(gv("e.example.com", "v1")),
	}
	got := withRemote(groups, []aggregate.Version{
		version("first.example.com", "v1", 20000, 10), version("a.example.com", "v1", 1000, 10), version("c.example.com", "v1", 1000, 10),
		version("b.example.com", "v2", 500, 150), version("b.example.com", "v1beta1", 500, 100), version("last.example.com", "v1", 1, 10),
		version("d.example.com", "v2", 1000, 10), version("e.example.com", "v1", 2000, 10), // in place of ours
	})
	var names []string
	for _, g := range got {
		for _, v := range g.versions {
			name := v.gv.String()
			if v.remote != nil && slices.ContainsFunc(groups, func(l group) bool {
				return slices.ContainsFunc(l.versions, func(o groupVersion) bool { return o.gv == v.gv })
			}) {
				name += " remote"
			}
			names = append(names, name)
		}
	}
	want := []string{
		"v1", "apiregistration.k8s.io/v1", "first.example.com/v1", "apps/v1", "e.example.com/v1 remote", "a.example.com/v1", "b.example.com/v2", "b.example.com/v1", "b.example.com/v1beta1",
		"b.example.com/v1alpha1", "c.example.com/v1", "d.example.com/v1", "d.example.com/v2 remote", "last.example.com/v1",
	}
	if !slices.Equal(names, want) {
		t.Errorf("%q", names)
	}
	if len(groups) != 6 || len(groups[3].versions) != 2 {
		t.Error("what is served here was changed")
	}
}

// TestOrderOfServices: groups of one priority come by their names in the aggregated list, and by their APIServices' in the other.
func TestOrderOfServices(t *testing.T) {
	t.Parallel()
	of := func(name string, versions ...string) group {
		g := group{name: name}
		for _, v := range versions {
			g.versions = append(g.versions, groupVersion{gv: schema.GroupVersion{Group: name, Version: v}})
		}
		return g
	}
	groups := []group{of("", "v1"), of("apps", "v1"), of("a.example.com", "v1alpha1"), of("b.example.com", "v1"), of("c.example.com", "v2", "v1beta1"), of("d.example.com", "v1")}
	if got, want := listed(groups, nil), []string{"apps", "b.example.com", "d.example.com", "a.example.com", "c.example.com v1beta1"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	var names []string
	for _, g := range aggregated(groups, false).Items {
		names = append(names, g.Name)
	}
	if want := []string{"apps", "a.example.com", "b.example.com", "c.example.com", "d.example.com"}; !slices.Equal(names, want) {
		t.Errorf("%q aggregated", names)
	}
}

// listed are the names of the groups in the unaggregated list, with those of their versions behind the first.
func listed(groups []group, registered []aggregate.Registration) []string {
	var names []string
	for _, g := range plain(groups, registrations(groups, registered), "")["/apis"].(*metav1.APIGroupList).Groups {
		name := g.Name
		for _, v := range g.Versions[1:] {
			name += " " + v.Version
		}
		names = append(names, name)
	}
	return names
}

// TestRegisteredGroups: the unaggregated list is of what APIServices say, also where nothing is served, and in the order that they say.
func TestRegisteredGroups(t *testing.T) {
	t.Parallel()
	gv := func(group, version string) schema.GroupVersion {
		return schema.GroupVersion{Group: group, Version: version}
	}
	served := func(gvs ...schema.GroupVersion) group {
		g := group{name: gvs[0].Group}
		for _, gv := range gvs {
			g.versions = append(g.versions, groupVersion{gv: gv})
		}
		return g
	}
	groups := []group{
		served(gv("", "v1")), served(gv("apiregistration.k8s.io", "v1")), served(gv("apps", "v1")), served(gv("batch", "v1")),
		served(gv("a.example.com", "v2"), gv("a.example.com", "v1")),
	}
	registered := []aggregate.Registration{
		{GroupVersion: gv("", "v1"), GroupPriority: 18000, VersionPriority: 1},
		{GroupVersion: gv("empty.example.com", "v1"), GroupPriority: 20000, VersionPriority: 10},
		{GroupVersion: gv("apps", "v1"), GroupPriority: 17800, VersionPriority: 15},
		{GroupVersion: gv("apps", "v9"), GroupPriority: 10, VersionPriority: 10}, // beside what is served
		{GroupVersion: gv("batch", "v1"), GroupPriority: 17900, VersionPriority: 15},
		{GroupVersion: gv("a.example.com", "v1"), GroupPriority: 1000, VersionPriority: 200}, // the other version has none yet
	}
	if got, want := listed(groups, registered), []string{"apiregistration.k8s.io", "empty.example.com", "batch", "apps v9", "a.example.com v2"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	docs := plain(groups, registrations(groups, registered), "")
	if one, ok := docs["/apis/empty.example.com"].(*metav1.APIGroup); !ok || one.Kind != "APIGroup" || one.PreferredVersion.GroupVersion != "empty.example.com/v1" {
		t.Errorf("%v", docs["/apis/empty.example.com"])
	}
	if docs["/apis/empty.example.com/v1"] != nil {
		t.Error("a list of the resources of a version that is not served")
	}
}
