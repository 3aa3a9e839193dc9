package api

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestDefinitions holds that there is a definition for every kind, as the kind says.
func TestDefinitions(t *testing.T) {
	t.Parallel()
	all, err := Definitions()
	if err != nil {
		t.Fatal(err)
	}
	type names struct{ Kind, Plural string }
	defined := map[string]bool{}
	for _, d := range all {
		var read struct {
			Spec struct {
				Scope string
				Names names
			}
		}
		data, err := json.Marshal(d)
		if err != nil || json.Unmarshal(data, &read) != nil {
			t.Fatal(err)
		}
		defined[read.Spec.Names.Kind+" "+read.Spec.Names.Plural+" "+read.Spec.Scope] = true
	}
	scope := map[bool]string{true: "Namespaced", false: "Cluster"}
	for _, want := range []string{
		Clusters.GVK.Kind + " " + Clusters.Resource + " " + scope[Clusters.Namespaced], Policies.GVK.Kind + " " + Policies.Resource + " " + scope[Policies.Namespaced],
		ClusterPolicies.GVK.Kind + " " + ClusterPolicies.Resource + " " + scope[ClusterPolicies.Namespaced],
		Placements.GVK.Kind + " " + Placements.Resource + " " + scope[Placements.Namespaced],
		ClusterPlacements.GVK.Kind + " " + ClusterPlacements.Resource + " " + scope[ClusterPlacements.Namespaced],
	} {
		if !defined[want] {
			t.Errorf("%s is not defined", want)
		}
	}
}

// TestIDs holds that what is written is read again, and that placements have names that are valid and their own.
func TestIDs(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 1))
	seen := map[string]ID{}
	pick := func(from ...string) string { return from[random.IntN(len(from))] }
	for range 5000 {
		id := ID{
			GVK:       schema.GroupVersionKind{Group: pick("", "apps", "shop.example.com"), Version: pick("v1", "v1beta1"), Kind: pick("Deployment", "ClusterRole")},
			Namespace: pick("", "default", "a-b"), Name: pick("web", "system:x", "a.b-c", "a|b", "web-deployment", strings.Repeat("x", 253)),
		}
		got, err := ParseID(id.String())
		if err != nil || got != id {
			t.Fatalf("%q is read as %+v (%v)", id.String(), got, err)
		}
		name := id.PlacementName()
		if before, ok := seen[name]; ok && before != id || len(name) > 253 || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			t.Fatalf("%+v and %+v: %s", before, id, name)
		}
		seen[name] = id
	}
	for _, key := range []string{"", "a", "a|b", "a|B.v1"} {
		if id, err := ParseID(key); err == nil {
			t.Errorf("%q is read as %+v", key, id)
		}
	}
}

// TestAny holds that numbers stay numbers, and that items of lists, which say no kind, have that of their list.
func TestAny(t *testing.T) {
	t.Parallel()
	kind := KindOf(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, "deployments", true)
	a := kind.New()
	if err := json.Unmarshal([]byte(`{"metadata":{"name":"web"},"spec":{"replicas":3}}`), a); err != nil {
		t.Fatal(err)
	}
	spec, _ := a.Object["spec"].(map[string]any)
	if a.GetKind() != "Deployment" || a.GetAPIVersion() != "apps/v1" || a.GetName() != "web" || !reflect.DeepEqual(spec["replicas"], int64(3)) {
		t.Errorf("%v", a.Object)
	}
	data, err := json.Marshal(a)
	if err != nil || !strings.Contains(string(data), `"replicas":3`) {
		t.Errorf("%s (%v)", data, err)
	}
}
