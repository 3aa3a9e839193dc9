package fieldmanager

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"howdah.dev/services/apiserver/internal/plain"
)

// configurationOf draws what somebody applies: a part of an object.
func configurationOf(r *rand.Rand) *unstructured.Unstructured {
	u := thing(r)
	delete(u.Object, "status")
	meta := map[string]any{"name": "a"}
	if r.IntN(2) == 0 {
		meta["namespace"] = "default"
	}
	if r.IntN(8) == 0 {
		meta["creationTimestamp"] = nil
	}
	for _, name := range []string{"labels", "annotations"} {
		if value := metadataOf(u)[name]; value != nil && r.IntN(2) == 0 {
			meta[name] = value
		}
	}
	u.Object["metadata"] = meta
	return u
}

// alike draws a configuration with about the same fields.
func alike(r *rand.Rand, u *unstructured.Unstructured) *unstructured.Unstructured {
	out := u.DeepCopy()
	spec, _ := out.Object["spec"].(map[string]any)
	for name, value := range spec {
		switch v := value.(type) {
		case int64:
			if r.IntN(3) == 0 {
				spec[name] = int64(r.IntN(3))
			}
		case string:
			if r.IntN(3) == 0 {
				spec[name] = fmt.Sprint(r.IntN(3))
			}
		case []any:
			if n := len(v); n > 1 && r.IntN(8) == 0 {
				v[0], v[n-1] = v[n-1], v[0]
			}
			for _, item := range v {
				if part, ok := item.(map[string]any); ok && part["size"] != nil && r.IntN(3) == 0 {
					part["size"] = int64(r.IntN(3))
				}
			}
			if name == "list" && r.IntN(3) == 0 {
				spec[name] = append(v, "more")
			}
		case map[string]any:
			if v["a"] != nil && r.IntN(3) == 0 {
				v["a"] = fmt.Sprint(r.IntN(2))
			}
		}
	}
	return out
}

// rounds is how many applies are compared.
const rounds = 1500

// TestAppliesAreMerged holds what is applied without the library against what the library makes of it.
func TestAppliesAreMerged(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(2, 3))
	managers := newManagers(t)
	res := things(t, managers)
	m, err := managers.For(res, "")
	if err != nil {
		t.Fatal(err)
	}
	live := thing(r)
	last := map[string]*unstructured.Unstructured{}
	var common []*unstructured.Unstructured // configurations that are applied to many objects
	for range 20 {
		common = append(common, configurationOf(r))
	}
	compared, unchanged, quick, first, disowning := 0, 0, 0, 0, 0
	for n := range rounds {
		if n%20 == 0 {
			live = thing(r)
			res.Kind.Default(live)
			m.Create(res.Kind.New(), live, "creator")
			clear(last)
		}
		live = live.DeepCopy()
		backdate(r, live)
		who := []string{"a", "b", "creator"}[r.IntN(3)]
		configuration := last[who]
		switch {
		case configuration == nil || r.IntN(5) == 0:
			configuration = configurationOf(r)
			if r.IntN(3) > 0 {
				configuration = alike(r, common[r.IntN(len(common))])
			}
		case r.IntN(3) > 0:
			configuration = alike(r, configuration)
		}
		force := r.IntN(3) > 0
		before, wants := live.DeepCopy(), configuration.DeepCopy()
		began := time.Now().Unix()
		if d, ok := m.outline(configuration); ok {
			if known, ok := m.trees.Get(d); ok {
				if out, ok := m.set(live, configuration, who, force, known.entries[0]); ok {
					quick++
					before, _ := treesOf(live)
					if own, _ := m.applier(before, who); own < 0 {
						first++
					}
					if !sameFields(before, out) {
						disowning++
					}
				}
			}
		}
		got, err := m.Apply(live, configuration, who, force)
		want, wantErr := m.FieldManager.Apply(before.DeepCopy(), wants.DeepCopy(), who, force)
		if time.Now().Unix() != began {
			continue
		}
		compared++
		for _, made := range []runtime.Object{got, want} {
			if u, ok := made.(*unstructured.Unstructured); ok { // as a write does
				metadataOf(u)["creationTimestamp"] = metadataOf(before)["creationTimestamp"]
			}
		}
		if err == nil && reflect.DeepEqual(got.(*unstructured.Unstructured).Object, before.Object) {
			unchanged++
			// The library may write the same once more, at another time, which is taken back when it is settled.
			Settle(before, want.(*unstructured.Unstructured))
		}
		if faults(err) != faults(wantErr) {
			t.Fatalf("%d: %s applies\n%v\nto\n%v\ngot %v, %v\nwant %v, %v", n, who, configuration.Object, before.Object, got, err, want, wantErr)
		}
		if !reflect.DeepEqual(live.Object, before.Object) || !reflect.DeepEqual(configuration.Object, wants.Object) {
			t.Fatalf("%d changes what it is given", n)
		}
		if err != nil {
			continue
		}
		u := got.(*unstructured.Unstructured)
		if !reflect.DeepEqual(u.Object, want.(*unstructured.Unstructured).Object) {
			t.Fatalf("%d: %s applies\n%v\nto\n%v\ngot\n%v\nwant\n%v", n, who, configuration.Object, before.Object, u.Object, want)
		}
		live = u
		last[who] = wants
		if r.IntN(6) == 0 { // somebody else writes, too
			obj := near(r, live)
			m.Update(live, obj, "creator")
			live = obj
		}
	}
	if unchanged < compared/40 || quick < compared/40 || first < compared/400 || disowning < compared/600 {
		t.Errorf("%d compared, of which %d changed nothing and %d were quick: %d of them first ones, %d took fields from others", compared, unchanged, quick, first, disowning)
	}
}

// sameFields reports whether those who owned fields before an apply own them still.
func sameFields(before []any, after *unstructured.Unstructured) bool {
	entries, _ := treesOf(after)
	for _, e := range before {
		if same, n := sameTree(entries, e.(map[string]any)); n != 1 || !plain.Equal(same["fieldsV1"], e.(map[string]any)["fieldsV1"]) {
			return false
		}
	}
	return true
}
