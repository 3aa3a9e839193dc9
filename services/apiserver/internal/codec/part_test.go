package codec

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"howdah.dev/services/apiserver/internal/kind"
	"howdah.dev/services/apiserver/internal/registry"
)

// manifests are objects of every kind, as they are stored.
func manifests(tb testing.TB) map[string]registry.Object {
	table, err := registry.NewTable(kind.All(kind.Config{Now: time.Now}))
	if err != nil {
		tb.Fatal(err)
	}
	paths, err := filepath.Glob("../kind/testdata/defaults/*.in.yaml")
	if err != nil || len(paths) == 0 {
		tb.Fatal("no manifests", err)
	}
	found := map[string]registry.Object{}
	for _, path := range paths {
		body, err := os.ReadFile(path)
		if err != nil {
			tb.Fatal(err)
		}
		var meta metav1.TypeMeta
		if err := yaml.Unmarshal(body, &meta); err != nil {
			tb.Fatal(err)
		}
		res := table.FindKind(schema.FromAPIVersionAndKind(meta.APIVersion, meta.Kind))
		obj := res.New()
		if err := yaml.Unmarshal(body, obj); err != nil {
			tb.Fatal(err)
		}
		res.Default(obj)
		stored, err := seal(res.GVK, obj)
		if err != nil {
			tb.Fatal(err)
		}
		if obj, err = Decode(&registry.Kind{GVK: res.GVK, New: res.New}, stored); err != nil {
			tb.Fatal(err)
		}
		found[strings.TrimSuffix(filepath.Base(path), ".in.yaml")] = obj
	}
	return found
}

// patchFor makes a patch for something that is in object, or was, at random: it drops, replaces, adds, and names what there is not.
func patchFor(r *rand.Rand, object map[string]any, depth int) map[string]any {
	patch := map[string]any{}
	for key, value := range object {
		if r.IntN(3) > 0 || key == "apiVersion" || key == "kind" {
			continue
		}
		nested, is := value.(map[string]any)
		switch n := r.IntN(10); {
		case n == 0:
			patch[key] = nil
		case n == 1:
			patch[key] = []any{"1", int64(1), true, map[string]any{}, []any{nil}}[r.IntN(5)]
		case is && depth < 4:
			patch[key] = patchFor(r, nested, depth+1)
		default:
			patch[key] = value
		}
	}
	switch r.IntN(8) {
	case 0:
		patch["unknown"] = "x"
	case 1:
		patch["labels"] = map[string]any{"a": "b"}
	case 2:
		patch["conditions"] = []any{map[string]any{"type": "Ready", "status": "True"}}
	}
	return patch
}

// outcome is all that a patch leads to.
func outcome(kind types.PatchType, patch []byte, in runtime.Object, strict bool,
	apply func(types.PatchType, []byte, runtime.Object, runtime.Object, schema.GroupVersionKind, *registry.Resource, bool) (Patched, error)) (runtime.Object, string) {
	out := reflect.New(reflect.TypeOf(in).Elem()).Interface().(runtime.Object)
	patched, err := apply(kind, patch, in, out, in.GetObjectKind().GroupVersionKind(), nil, strict)
	text := fmt.Sprint(err)
	for _, p := range patched.Problems {
		text += "\n" + p.Error()
	}
	return out, text
}

func TestPatchParts(t *testing.T) {
	t.Parallel()
	byParts := 0
	check := func(name string, kind types.PatchType, patch []byte, in runtime.Object, strict bool) {
		t.Helper()
		before := in.DeepCopyObject()
		want, wantText := outcome(kind, patch, in, strict, Patch)
		got, gotText := outcome(kind, patch, in, strict, PatchParts)
		if gotText != wantText {
			t.Fatalf("%s: %s of %s:\n%s\nwant\n%s", name, kind, patch, gotText, wantText)
		}
		if !reflect.DeepEqual(in, before) {
			t.Fatalf("%s: %s of %s: the object was changed", name, kind, patch)
		}
		if strings.HasPrefix(wantText, "<nil>") {
			a, _ := json.Marshal(got)
			b, _ := json.Marshal(want)
			if string(a) != string(b) || !apiequality.Semantic.DeepEqual(got, want) {
				t.Fatalf("%s: %s of %s:\n%s\nwant\n%s", name, kind, patch, a, b)
			}
		}
		out := reflect.New(reflect.TypeOf(in).Elem()).Interface().(runtime.Object)
		if patchParts(kind, patch, in, out, in.GetObjectKind().GroupVersionKind(), strict) != nil {
			byParts++
		}
	}
	for name, obj := range manifests(t) {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
		if err != nil {
			t.Fatal(err)
		}
		for seed := range uint64(20) {
			r := rand.New(rand.NewPCG(seed, 1))
			patch, err := json.Marshal(patchFor(r, content, 0))
			if err != nil {
				t.Fatal(err)
			}
			for _, kind := range []types.PatchType{types.MergePatchType, types.StrategicMergePatchType} {
				check(name, kind, patch, obj, seed%2 == 0)
			}
		}
	}
	t.Logf("%d by parts", byParts)
	if byParts < 300 {
		t.Errorf("only %d patches were applied by parts", byParts)
	}
	pod := manifests(t)["pod-full"]
	for _, patch := range []string{
		``, `null`, `[]`, `1`, `"x"`, `{`, `{}`, `{} {}`, `{"metadata":null}`, `{"metadata":[]}`, `{"metadata":{}}`, `{"status":{"phase":1}}`, `{"status":{"phase":"a","phase":"b"}}`,
		`{"status":{"phase":"a"},"status":{"phase":"b"}}`, `{"apiVersion":"v2"}`, `{"apiVersion":"v1","kind":"Pod"}`, `{"kind":"Node","status":{"phase":"a"}}`, `{"Status":{"phase":"a"}}`,
		`{"status":{"Phase":"a"}}`, `{"st\u0061tus":{"phase":"a"}}`, `{"status":{"$patch":"replace","phase":"a"}}`, `{"$patch":"delete"}`, `{"spec":{"$retainKeys":["containers"],"hostNetwork":true}}`,
		`{"spec":{"$setElementOrder/containers":[{"name":"x"}],"containers":[{"name":"x","image":"y"}]}}`, `{"spec":{"containers":[{"$patch":"delete","name":"c"}]}}`,
		`{"spec":{"containers":[{"image":"y"}]}}`, `{"spec":{"containers":[null]}}`, `{"spec":{"containers":null}}`, `{"metadata":{"labels":{"a":null,"b":"c","d":1}}}`, `{"metadata":{"labels":{"b":"c"}}}`,
		`{"metadata":{"finalizers":["x"]}}`, `{"metadata":{"$deleteFromPrimitiveList/finalizers":["x"]}}`, `{"metadata":{"ownerReferences":[{"uid":"u","name":"n","kind":"k","apiVersion":"v1"}]}}`,
		`{"metadata":{"creationTimestamp":"yesterday"}}`, `{"metadata":{"creationTimestamp":"2026-01-02T03:04:05Z"}}`, `{"status":{"startTime":{"a":1}}}`, `{"status":{"message":"<&>\u00e9é"}}`,
		`{"status":{"conditions":[{"type":"Ready","status":"True"},{"type":"Ready","status":"False"}]}}`, `{"status":{"message":"x"},"spec":{"nodeName":"n"},"metadata":{"annotations":{"a":"b"}}}`,
	} {
		for _, kind := range []types.PatchType{types.MergePatchType, types.StrategicMergePatchType, types.JSONPatchType} {
			for _, strict := range []bool{true, false} {
				check("pod", kind, []byte(patch), pod, strict)
			}
		}
	}
}

// TestPatchPartsOwnsItsResult holds that the result shares nothing with the object that was patched.
func TestPatchPartsOwnsItsResult(t *testing.T) {
	t.Parallel()
	pod := manifests(t)["pod-full"].(*corev1.Pod)
	pod.Labels = map[string]string{"a": "b"}
	before := pod.DeepCopy()
	out := &corev1.Pod{}
	if _, err := PatchParts(types.MergePatchType, []byte(`{"status":{"message":"m"}}`), pod, out, pod.GroupVersionKind(), nil, true); err != nil {
		t.Fatal(err)
	}
	out.Labels["a"] = "c"
	out.Spec.Containers[0].Name = "another"
	if !reflect.DeepEqual(before, pod) {
		t.Error("the object was changed through the result")
	}
}

// BenchmarkPatch compares a node's report that goes through JSON in part with one that does as a whole.
func BenchmarkPatch(b *testing.B) {
	pod := manifests(b)["pod-full"]
	gvk := pod.GetObjectKind().GroupVersionKind()
	patch := []byte(`{"status":{"message":"patched"}}`)
	for name, apply := range map[string]func(types.PatchType, []byte, runtime.Object, runtime.Object, schema.GroupVersionKind, *registry.Resource, bool) (Patched, error){"parts": PatchParts, "whole": Patch} {
		for _, kind := range []types.PatchType{types.MergePatchType, types.StrategicMergePatchType} {
			b.Run(name+"-"+strings.TrimSuffix(string(kind)[len("application/"):], "-patch+json"), func(b *testing.B) {
				b.ReportAllocs()
				for range b.N {
					if _, err := apply(kind, patch, pod, &corev1.Pod{}, gvk, nil, true); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
