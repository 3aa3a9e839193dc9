package discovery

import (
	"encoding/json"
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
