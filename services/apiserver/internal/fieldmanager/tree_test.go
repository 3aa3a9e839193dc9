package fieldmanager

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"howdah.dev/services/apiserver/internal/custom"
	"howdah.dev/services/apiserver/internal/openapi"
	"howdah.dev/services/apiserver/internal/registry"
)

const thingSchema = `{"type":"object","properties":{
	"spec":{"type":"object","properties":{
		"number":{"type":"integer"},"text":{"type":"string"},"flag":{"type":"boolean","default":true},
		"parts":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["name"],"items":{"type":"object","required":["name"],"properties":{
			"name":{"type":"string"},"size":{"type":"integer"},"tags":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}}}}},
		"tags":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}},
		"list":{"type":"array","items":{"type":"string"}},
		"fixed":{"type":"object","x-kubernetes-map-type":"atomic","properties":{"a":{"type":"string"},"b":{"type":"string"}}},
		"values":{"type":"object","additionalProperties":{"type":"string"}},
		"free":{"type":"object","x-kubernetes-preserve-unknown-fields":true},
		"nothing":{"type":"string","nullable":true}}},
	"status":{"type":"object","properties":{"phase":{"type":"string"},"seen":{"type":"integer"},"values":{"type":"object","additionalProperties":{"type":"string"}}}}}}`

// things returns the resource of a custom kind with a list, a set and a map of each sort.
func things(tb testing.TB, m *Managers) *registry.Resource {
	tb.Helper()
	props := &apiextensionsv1.JSONSchemaProps{}
	if err := json.Unmarshal([]byte(thingSchema), props); err != nil {
		tb.Fatal(err)
	}
	d := &apiextensionsv1.CustomResourceDefinition{}
	d.Name, d.UID, d.Generation = "things.example.com", "u", 1
	d.Spec = apiextensionsv1.CustomResourceDefinitionSpec{
		Group: "example.com", Scope: apiextensionsv1.NamespaceScoped,
		Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "things", Singular: "thing", Kind: "Thing", ListKind: "ThingList"},
		Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
			Name: "v1", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: props},
			Subresources: &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
		}},
	}
	d.Status.AcceptedNames = d.Spec.Names
	cfg := custom.Config{Now: time.Now, Meta: openapi.New(m.table, nil, "1.36").Meta}
	kind := custom.New(cfg, d, true, false, func() (*apiextensionsv1.CustomResourceDefinition, error) { return d, nil }).Versions[0]
	return &registry.Resource{Kind: kind, GVK: kind.GVK}
}

// thing draws an object of the kind.
func thing(r *rand.Rand) *unstructured.Unstructured {
	texts := func() []any {
		list := []any{}
		for _, s := range []string{"a", "b", "c"} {
			if r.IntN(2) == 0 {
				list = append(list, s)
			}
		}
		return list
	}
	values := func() map[string]any {
		m := map[string]any{}
		for _, s := range []string{"a", "b"} {
			if r.IntN(2) == 0 {
				m[s] = fmt.Sprint(r.IntN(2))
			}
		}
		return m
	}
	all := map[string]func() any{
		"number": func() any { return int64(r.IntN(3)) }, "text": func() any { return fmt.Sprint(r.IntN(3)) }, "flag": func() any { return r.IntN(2) == 0 },
		"parts": func() any {
			parts := []any{}
			for _, name := range texts() {
				part := map[string]any{"name": name}
				if r.IntN(2) == 0 {
					part["size"] = int64(r.IntN(3))
				}
				if r.IntN(3) == 0 {
					part["tags"] = texts()
				}
				parts = append(parts, part)
			}
			if n := len(parts); n > 1 && r.IntN(3) == 0 {
				parts[0], parts[n-1] = parts[n-1], parts[0]
			}
			return parts
		},
		"tags": func() any { return texts() }, "list": func() any { return texts() }, "fixed": func() any { return values() }, "values": func() any { return values() },
		"free": func() any {
			return map[string]any{"x": map[string]any{"y": texts(), "z": int64(r.IntN(2))}, "w": values()}
		},
		"nothing": func() any { return nil },
	}
	spec := map[string]any{}
	for name, make := range all {
		if r.IntN(3) > 0 {
			spec[name] = make()
		}
	}
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Thing", "metadata": map[string]any{
		"name": "a", "namespace": "default", "uid": "u", "creationTimestamp": "2026-01-02T03:04:05Z"}, "spec": spec}}
	if r.IntN(4) == 0 {
		delete(u.Object, "spec")
	}
	if r.IntN(2) == 0 {
		metadataOf(u)["labels"] = map[string]any{"app": fmt.Sprint(r.IntN(2))}
	}
	if r.IntN(2) == 0 {
		metadataOf(u)["annotations"] = values()
	}
	if r.IntN(2) == 0 {
		u.Object["status"] = map[string]any{"phase": fmt.Sprint(r.IntN(2)), "values": values()}
	}
	return u
}

// near draws another state of an object: most of it stays.
func near(r *rand.Rand, u *unstructured.Unstructured) *unstructured.Unstructured {
	out, other := u.DeepCopy(), thing(r)
	switch r.IntN(4) {
	case 0:
		out.Object["spec"] = other.Object["spec"]
		if out.Object["spec"] == nil {
			delete(out.Object, "spec")
		}
	case 1:
		out.SetLabels(other.GetLabels())
	case 2:
		if status := other.Object["status"]; status != nil {
			out.Object["status"] = status
		}
	default:
		from, _ := other.Object["spec"].(map[string]any)
		to, _ := out.Object["spec"].(map[string]any)
		for name, value := range from {
			if to != nil && r.IntN(3) == 0 {
				to[name] = value
			}
		}
	}
	return out
}

// backdate lets some entries be of the past.
func backdate(r *rand.Rand, u *unstructured.Unstructured) {
	entries, _ := treesOf(u)
	for i := range entries {
		entry := entries[i].(map[string]any)
		if entry["time"] != nil && r.IntN(3) > 0 {
			entry["time"] = time.Now().Add(-time.Duration(r.IntN(3)) * time.Minute).UTC().Format(time.RFC3339)
		}
	}
}

// TestTreesAreTracked holds what is remembered of custom objects against what the library makes of each write.
func TestTreesAreTracked(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	managers := newManagers(t)
	res := things(t, managers)
	whole, err := managers.For(res, "")
	if err != nil {
		t.Fatal(err)
	}
	status, err := managers.For(res, "status")
	if err != nil {
		t.Fatal(err)
	}
	live := thing(r)
	compared, skipped, owned := 0, 0, 0
	for n := range 1500 {
		if n%8 == 0 {
			live = thing(r)
			writer := []string{"a", "b"}[r.IntN(2)]
			empty := res.Kind.New().(*unstructured.Unstructured)
			want := live.DeepCopy()
			began := time.Now().Unix()
			whole.Create(empty, live, writer)
			whole.track(empty, want, writer)
			if time.Now().Unix() == began && !reflect.DeepEqual(live.Object, want.Object) {
				t.Fatalf("creation %d: %v, want %v", n, live.Object, want.Object)
			}
		}
		live = live.DeepCopy() // entries that are remembered are shared
		backdate(r, live)
		m, writer := whole, []string{"a", "b", "c"}[r.IntN(3)]
		if r.IntN(3) == 0 {
			m = status
		}
		obj := near(r, live)
		if r.IntN(5) == 0 {
			delete(metadataOf(obj), "managedFields")
		}
		before, want := live.DeepCopy(), obj.DeepCopy()
		began := time.Now().Unix()
		m.Update(live, obj, writer)
		m.track(before.DeepCopy(), want, writer)
		if time.Now().Unix() != began {
			skipped++
		} else if compared++; !reflect.DeepEqual(obj.Object["metadata"], want.Object["metadata"]) {
			t.Fatalf("update %d by %s of\n%v\nto\n%v\nwant\n%v", n, writer, before.Object, obj.Object, want.Object)
		}
		if !reflect.DeepEqual(live.Object, before.Object) {
			t.Fatalf("update %d changes what it is of", n)
		}
		if entries, _ := treesOf(obj); len(entries) > 0 {
			owned++
		}
		Settle(live, obj)
		live = obj
	}
	if compared < skipped || owned < compared/2 {
		t.Errorf("%d compared, %d not; %d had owners", compared, skipped, owned)
	}
	if held := managers.trees.Len(); held < 100 {
		t.Errorf("%d are remembered", held)
	}
}
