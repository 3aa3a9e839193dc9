package fieldmanager

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"howdah.dev/services/apiserver/internal/kind"
	"howdah.dev/services/apiserver/internal/registry"
)

// TestBuiltInAppliesAreMerged holds what is applied to objects of every kind without the library against what the library makes of it: parts of
// manifests with other values, by several managers, over what others wrote.
func TestBuiltInAppliesAreMerged(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(4, 5))
	managers := newManagers(t)
	all := inputs(t, managers)
	compared, quick, first, changing, taking := 0, 0, 0, 0, 0
	for _, name := range slices.Sorted(maps.Keys(all)) {
		res, made := all[name]()
		if res.GVK != res.Kind.GVK {
			continue
		}
		m, err := managers.For(res, "")
		if err != nil {
			t.Fatal(err)
		}
		whole := manifest(t, name)
		var live registry.Object
		last := map[string]*unstructured.Unstructured{}
		for n := range 60 {
			if n%20 == 0 {
				live = made.DeepCopyObject().(registry.Object)
				live.SetManagedFields(nil)
				m.Create(emptyOf(res), live, "creator")
				clear(last)
			}
			inOrder(r, live)
			who := []string{"a", "b", "creator"}[r.IntN(3)]
			configuration := last[who]
			if configuration == nil || r.IntN(3) == 0 {
				configuration = &unstructured.Unstructured{Object: part(r, whole.Object, 0).(map[string]any)}
				configuration.SetGroupVersionKind(res.GVK)
				configuration.SetName(live.GetName())
			} else if r.IntN(2) == 0 {
				configuration = &unstructured.Unstructured{Object: otherValues(r, configuration.DeepCopy().Object).(map[string]any)}
				configuration.SetGroupVersionKind(res.GVK)
				configuration.SetName(live.GetName())
			}
			force := r.IntN(3) > 0
			before, wants := textOf(t, live), configuration.DeepCopy()
			if m.ownsAll(configuration) {
				if d, ok := m.outline(configuration); ok {
					if owns, ok := m.applies.Get(d); ok {
						if out := m.setBuiltIn(live, configuration, who, force, owns); out != nil {
							quick++
							if m.builtInApplier(live.GetManagedFields(), who) < 0 {
								first++
							}
							if textOf(t, out) != before {
								changing++
							}
							if !ownAsBefore(live.GetManagedFields(), out.GetManagedFields()) {
								taking++
							}
						}
					}
				}
			}
			began := time.Now().Unix()
			got, err := m.Apply(live, configuration, who, force)
			want, wantErr := m.FieldManager.Apply(live.DeepCopyObject(), wants.DeepCopy(), who, force)
			if time.Now().Unix() != began {
				continue
			}
			compared++
			if faults(err) != faults(wantErr) {
				t.Fatalf("%s %d: %s applies\n%v\nto\n%s\ngot %v, want %v", name, n, who, wants.Object, before, err, wantErr)
			}
			if textOf(t, live) != before || textOf(t, configuration) != textOf(t, wants) {
				t.Fatalf("%s %d changes what it is given", name, n)
			}
			if err != nil {
				continue
			}
			if a, b := textOf(t, got), textOf(t, want); a != b {
				t.Fatalf("%s %d: %s applies\n%v\nto\n%s\ngot\n%s\nwant\n%s", name, n, who, wants.Object, before, a, b)
			}
			live, last[who] = got.(registry.Object), wants
		}
	}
	if quick < compared/10 || first < compared/100 || changing < compared/50 || taking < compared/200 {
		t.Errorf("%d compared, %d quick, %d of them by new appliers, %d that change something, %d that take it from others", compared, quick, first, changing, taking)
	}
}

// faults is what an error says, its lines in one order: the fields of an object are looked at in none.
func faults(err error) string {
	lines := strings.Split(strings.TrimSpace(fmt.Sprint(err)), "\n")
	for i := range lines {
		lines[i] = strings.TrimSpace(lines[i])
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// ownAsBefore reports whether those who owned fields before own them still.
func ownAsBefore(before, after []metav1.ManagedFieldsEntry) bool {
	return !slices.ContainsFunc(before, func(b metav1.ManagedFieldsEntry) bool {
		return !slices.ContainsFunc(after, func(a metav1.ManagedFieldsEntry) bool {
			return sameOwner(&a, &b) && string(a.FieldsV1.Raw) == string(b.FieldsV1.Raw)
		})
	})
}

func manifest(t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	body, err := os.ReadFile(filepath.Join("../kind/testdata/defaults", name+".in.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if body, err = yaml.YAMLToJSON(body); err != nil {
		t.Fatal(err)
	}
	if err := u.UnmarshalJSON(body); err != nil {
		t.Fatal(err)
	}
	delete(u.Object, "status")
	u.Object["metadata"] = map[string]any{"labels": map[string]any{"app": "x", "tier": "y"}, "annotations": map[string]any{"note": "1"}}
	return u
}

// inOrder gives the entries of an object times that may be the same, and are in any order but that they are kept in.
func inOrder(r *rand.Rand, obj registry.Object) {
	entries := obj.GetManagedFields()
	for i := range entries {
		if entries[i].Time != nil && r.IntN(3) > 0 {
			entries[i].Time = &metav1.Time{Time: time.Now().Add(-time.Duration(1+r.IntN(3)) * time.Minute).UTC().Truncate(time.Second)}
		}
	}
	if r.IntN(8) > 0 {
		slices.SortFunc(entries, compareEntries)
	}
	obj.SetManagedFields(entries)
}

// part draws a part of a tree, without some of its fields and items.
func part(r *rand.Rand, tree any, depth int) any {
	switch v := tree.(type) {
	case map[string]any:
		out := map[string]any{}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if depth == 0 || r.IntN(6) > 0 {
				out[name] = part(r, v[name], depth+1)
			}
		}
		return out
	case []any:
		out := []any{}
		for _, item := range v {
			if r.IntN(10) > 0 {
				out = append(out, part(r, item, depth+1))
			}
		}
		return out
	}
	return tree
}

// otherValues changes some of the values in a tree.
func otherValues(r *rand.Rand, tree any) any {
	switch v := tree.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			v[name] = otherValues(r, v[name])
		}
	case []any:
		for i := range v {
			v[i] = otherValues(r, v[i])
		}
		if len(v) > 1 && r.IntN(12) == 0 {
			v[0], v[len(v)-1] = v[len(v)-1], v[0]
		}
	case string:
		if r.IntN(6) == 0 {
			return []string{v + "x", "1", ""}[r.IntN(3)]
		}
	case int64:
		if r.IntN(6) == 0 {
			return v + int64(r.IntN(3)) - 1
		}
	case bool:
		if r.IntN(6) == 0 {
			return !v
		}
	}
	return tree
}

func textOf(t *testing.T, obj runtime.Object) string {
	t.Helper()
	text, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// What an object has in a list with keys, and has no key, keeps the list from being applied to: the library says so, and who goes without it must not pass it by.
func TestItemsWithoutKeysAreNotAppliedTo(t *testing.T) {
	t.Parallel()
	managers := newManagers(t)
	res, made := inputs(t, managers)["serviceaccount"]()
	m, err := managers.For(res, "")
	if err != nil {
		t.Fatal(err)
	}
	live := made.DeepCopyObject().(*corev1.ServiceAccount)
	live.SetManagedFields(nil)
	live.Labels, live.Secrets = map[string]string{"tier": "x"}, []corev1.ObjectReference{{Name: "a"}}
	m.Create(emptyOf(res), live, "creator")
	without := live.DeepCopy()
	without.Secrets = append(without.Secrets, corev1.ObjectReference{Namespace: "elsewhere"})
	labels := map[string]any{"tier": "y"}
	for name, fields := range map[string]map[string]any{
		"beside the list": {},
		"to the list":     {"secrets": []any{map[string]any{"name": "a"}}},
	} {
		configuration := &unstructured.Unstructured{Object: maps.Clone(fields)}
		configuration.SetGroupVersionKind(res.GVK)
		configuration.SetName(live.GetName())
		if err := unstructured.SetNestedMap(configuration.Object, labels, "metadata", "labels"); err != nil {
			t.Fatal(err)
		}
		for _, to := range []*corev1.ServiceAccount{live, without} { // the second by what was learnt from the first
			_, err := m.Apply(to.DeepCopy(), configuration.DeepCopy(), "a", true)
			_, want := m.FieldManager.Apply(to.DeepCopy(), configuration.DeepCopy(), "a", true)
			if faults(err) != faults(want) || to == live && err != nil {
				t.Errorf("%s: got %v, want %v", name, err, want)
			}
		}
	}
}

// What an apply does not change stays as it was written: data of a ControllerRevision in other spaces would be other data, which it must not have.
func TestRawFieldsStayAsWritten(t *testing.T) {
	t.Parallel()
	table, err := registry.NewTable(kind.All(kind.Config{Now: time.Now}))
	if err != nil {
		t.Fatal(err)
	}
	res := table.Find(appsv1.SchemeGroupVersion.WithResource("controllerrevisions"))
	m, err := New(table, nil).For(res, "")
	if err != nil {
		t.Fatal(err)
	}
	live := emptyOf(res).(*appsv1.ControllerRevision)
	live.Name, live.Revision, live.Data.Raw = "one", 1, []byte(`{"spec": {"x":  1}}`)
	m.Create(emptyOf(res), live, "creator")
	configuration := &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{"spec": map[string]any{"x": int64(1)}}, "revision": live.Revision}}
	configuration.SetGroupVersionKind(res.GVK)
	configuration.SetName(live.GetName())
	for _, how := range []string{"by the library", "as remembered"} {
		out, err := m.Apply(live, configuration, "a", false)
		if err != nil {
			t.Fatal(err)
		}
		applied := out.(*appsv1.ControllerRevision)
		if string(applied.Data.Raw) != string(live.Data.Raw) || len(applied.ManagedFields) != 2 {
			t.Errorf("%s: %s %v", how, applied.Data.Raw, applied.ManagedFields)
		}
	}
}
