package codec

import (
	"bytes"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/services/apiserver/internal/kind"
	"howdah.dev/services/apiserver/internal/registry"
)

// TestTableOfRows holds a table that is written row by row against one that is encoded as a whole.
func TestTableOfRows(t *testing.T) {
	t.Parallel()
	clock := time.Now()
	table, err := registry.NewTable(kind.All(kind.Config{Now: func() time.Time { return clock }}))
	if err != nil {
		t.Fatal(err)
	}
	some := map[string]struct {
		res   *registry.Resource
		items []*Item
	}{}
	res := table.Find(schema.GroupVersionResource{Version: "v1", Resource: "pods"})
	for name, pods := range map[string][]*corev1.Pod{
		"none": {}, "one": {{}}, "many": {
			{}, {Status: corev1.PodStatus{Phase: corev1.PodSucceeded}}, {Status: corev1.PodStatus{Reason: `<&> "quoted"` + "\u2028"}},
			{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"a": `<&>"` + "\u2028"}}},
		},
	} {
		var items []*Item
		for n, pod := range pods {
			pod.Name, pod.Namespace = string(rune('a'+n)), "n"
			value, err := Encode(t.Context(), res.Kind, pod)
			if err != nil {
				t.Fatal(err)
			}
			items = append(items, NewItem(res.Kind, res.Kind.Key("n", pod.Name), value, int64(n+1), 1))
		}
		some["pods, "+name] = struct {
			res   *registry.Resource
			items []*Item
		}{res, items}
	}
	roles := table.Find(schema.GroupVersionResource{Group: "rbac.authorization.k8s.io", Version: "v1", Resource: "roles"})
	value, err := seal(roles.GVK, roles.New())
	if err != nil {
		t.Fatal(err)
	}
	some["a kind"] = struct {
		res   *registry.Resource
		items []*Item
	}{roles, []*Item{NewItem(roles.Kind, roles.Kind.Key("n", "a"), value, 1, 1)}}
	meta := metav1.ListMeta{ResourceVersion: "7", Continue: "next", RemainingItemCount: new(int64(3))}
	for name, c := range some {
		for _, form := range []Form{
			{}, {Beta: true}, {Pretty: true}, {Media: YAML}, {Include: metav1.IncludeNone}, {Include: metav1.IncludeObject}, {Include: metav1.IncludeMetadata},
		} {
			form.As = Table
			whole, err := newTable(c.res, c.items, meta, form, true)
			if err != nil {
				t.Fatal(err)
			}
			want, err := finish(whole, form)
			if err != nil {
				t.Fatal(err)
			}
			var got bytes.Buffer
			if err := List(c.res, c.items, meta, form, func(piece []byte) error { got.Write(piece); return nil }); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got.Bytes(), want) {
				t.Errorf("%s, %+v:\n%s\nwant\n%s", name, form, got.Bytes(), want)
			}
		}
	}
}

// BenchmarkTable compares a table of 1,000 pods that is written row by row with one that is encoded as a whole.
func BenchmarkTable(b *testing.B) {
	res, all := items(b, 1000)
	form := Form{As: Table}
	b.Run("rows", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := List(res, all, metav1.ListMeta{}, form, func([]byte) error { return nil }); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("whole", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			t, err := newTable(res, all, metav1.ListMeta{}, form, true)
			if err != nil {
				b.Fatal(err)
			}
			if _, err := finish(t, form); err != nil {
				b.Fatal(err)
			}
		}
	})
}
