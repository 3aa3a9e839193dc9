package codec

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/services/apiserver/internal/registry"
)

// operationsFor makes a JSON patch about an object, at random: most of it can be applied.
func operationsFor(r *rand.Rand, object map[string]any) []byte {
	var list []map[string]any
	for range 1 + r.IntN(4) {
		path, value := "", any(object)
		for depth := 0; depth < 6; depth++ {
			var step string
			switch v := value.(type) {
			case map[string]any:
				names := slices.Sorted(maps.Keys(v))
				if len(names) == 0 || r.IntN(12) == 0 {
					names = []string{"labels", "unknown", "a/b~c", "x<\"y"}
				}
				step = names[r.IntN(len(names))]
				value = v[step]
			case []any:
				if i := r.IntN(len(v) + 1); i < len(v) {
					step, value = fmt.Sprint(i), v[i]
				} else {
					step, value = []string{"-", fmt.Sprint(len(v)), "-1"}[r.IntN(3)], nil
				}
			default:
				depth = 6
				continue
			}
			path += "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(step)
			if depth > 0 && r.IntN(4) == 0 {
				break
			}
		}
		o := map[string]any{"op": []string{"add", "replace", "replace", "remove", "test", "copy"}[r.IntN(6)], "path": path, "value": value}
		switch {
		case o["op"] == "remove":
			delete(o, "value")
		case o["op"] == "copy":
			o["from"] = "/metadata/name"
			delete(o, "value")
		case r.IntN(8) == 0:
			o["value"] = []any{"1", int64(1), true, map[string]any{"a": "b"}, []any{}, nil}[r.IntN(6)]
		}
		if r.IntN(40) == 0 {
			o["surplus"] = 1
		}
		list = append(list, o)
	}
	patch, _ := json.Marshal(list) // of what was JSON
	return patch
}

// TestSpliceParts holds JSON patches against the library's outcome, with its errors and problems.
func TestSpliceParts(t *testing.T) {
	t.Parallel()
	applied := 0
	for name, obj := range manifests(t) {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
		if err != nil {
			t.Fatal(err)
		}
		var custom map[string]any // of the same text as the object, and of no schema
		if text, err := json.Marshal(obj); err != nil || json.Unmarshal(text, &custom) != nil {
			t.Fatal(name, err)
		}
		for seed := range uint64(12) {
			patch := operationsFor(rand.New(rand.NewPCG(seed, 2)), content)
			strict := seed%2 == 0
			for _, in := range []runtime.Object{obj, &unstructured.Unstructured{Object: custom}} {
				before := in.DeepCopyObject()
				want, wantText := outcome(types.JSONPatchType, patch, in, strict, Patch)
				got, gotText := outcome(types.JSONPatchType, patch, in, strict, PatchParts)
				if gotText != wantText {
					t.Fatalf("%s: %s:\n%s\nwant\n%s", name, patch, gotText, wantText)
				}
				if !reflect.DeepEqual(in, before) {
					t.Fatalf("%s: %s: the object was changed", name, patch)
				}
				if strings.HasPrefix(wantText, "<nil>") && !apiequality.Semantic.DeepEqual(got, want) {
					t.Fatalf("%s: %s:\n%v\nwant\n%v", name, patch, got, want)
				}
				if spliceParts(patch, in, reflect.New(reflect.TypeOf(in).Elem()).Interface().(runtime.Object), in.GetObjectKind().GroupVersionKind(), strict) != nil {
					applied++
				}
			}
		}
	}
	t.Logf("%d without the library", applied)
	if applied < 60 {
		t.Errorf("only %d patches were applied without the library", applied)
	}
}

// TestSplicePartsOwnsItsResult holds that the result shares nothing with the object that was patched.
func TestSplicePartsOwnsItsResult(t *testing.T) {
	t.Parallel()
	d := manifests(t)["deployment-v1"].(*appsv1.Deployment)
	d.Labels = map[string]string{"a": "b"}
	before := d.DeepCopy()
	out := &appsv1.Deployment{}
	patch := []byte(`[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"i"}]`)
	if _, err := PatchParts(types.JSONPatchType, patch, d, out, d.GroupVersionKind(), nil, true); err != nil {
		t.Fatal(err)
	}
	out.Labels["a"] = "c"
	out.Spec.Selector.MatchLabels["a"] = "c"
	if out.Spec.Template.Spec.Containers[0].Image != "i" || !reflect.DeepEqual(before, d) {
		t.Error("the object was changed through the result")
	}
}

// BenchmarkJSONPatch compares a new image that goes through the text of the template alone with one that does through the whole object.
func BenchmarkJSONPatch(b *testing.B) {
	pod := manifests(b)["pod-full"]
	gvk := pod.GetObjectKind().GroupVersionKind()
	patch := []byte(`[{"op":"replace","path":"/spec/containers/0/image","value":"registry.example.com/app:2"}]`)
	for name, apply := range map[string]func(types.PatchType, []byte, runtime.Object, runtime.Object, schema.GroupVersionKind, *registry.Resource, bool) (Patched, error){"parts": PatchParts, "whole": Patch} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				out := reflect.New(reflect.TypeOf(pod).Elem()).Interface().(runtime.Object)
				if _, err := apply(types.JSONPatchType, patch, pod, out, gvk, nil, true); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
