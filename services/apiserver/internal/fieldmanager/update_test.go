package fieldmanager

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"howdah.dev/services/apiserver/internal/registry"
)

// change makes a random difference somewhere in v: it sets, clears, adds, removes, repeats or swaps.
func change(r *rand.Rand, v reflect.Value, depth int) {
	switch special := v.Addr().Interface().(type) {
	case *runtime.RawExtension:
		special.Raw = []byte(`{"a":` + fmt.Sprint(r.IntN(3)) + `}`)
		return
	case *intstr.IntOrString:
		*special = intstr.Parse([]string{"1", "10%"}[r.IntN(2)])
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		switch {
		case v.IsNil():
			v.Set(reflect.New(v.Type().Elem()))
			change(r, v.Elem(), depth+1)
		case r.IntN(4) == 0 && depth > 0:
			v.SetZero()
		default:
			change(r, v.Elem(), depth+1)
		}
	case reflect.Struct:
		for range 8 { // until a field is found that may be set
			f := v.Field(r.IntN(v.NumField()))
			if f.CanSet() && depth < 12 {
				change(r, f, depth+1)
				return
			}
		}
	case reflect.Slice:
		switch n := v.Len(); {
		case n == 0 || r.IntN(5) == 0:
			element := reflect.New(v.Type().Elem()).Elem()
			change(r, element, depth+1)
			v.Set(reflect.Append(v, element))
		case r.IntN(6) == 0:
			v.Set(reflect.Append(v, v.Index(r.IntN(n)))) // a duplicate
		case r.IntN(6) == 0:
			v.Set(v.Slice(0, n-1))
		case r.IntN(6) == 0:
			reflect.Swapper(v.Interface())(0, n-1)
		default:
			change(r, v.Index(r.IntN(n)), depth+1)
		}
	case reflect.Map:
		if v.IsNil() {
			v.Set(reflect.MakeMap(v.Type()))
		}
		if keys := v.MapKeys(); len(keys) > 0 && r.IntN(3) == 0 {
			v.SetMapIndex(keys[r.IntN(len(keys))], reflect.Value{})
			return
		}
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		change(r, key, depth+1)
		change(r, value, depth+1)
		v.SetMapIndex(key, value)
	case reflect.String:
		v.SetString([]string{"", "a", "b", "Always", "TCP"}[r.IntN(5)])
	case reflect.Bool:
		v.SetBool(!v.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		v.SetInt(int64(r.IntN(4)))
	}
}

// changed returns a copy of obj with a few differences; metadata differs in labels, annotations and owners only.
func changed(r *rand.Rand, obj registry.Object) registry.Object {
	out := obj.DeepCopyObject().(registry.Object)
	for range 1 + r.IntN(3) {
		v := reflect.ValueOf(out).Elem()
		switch r.IntN(6) {
		case 0:
			labels := map[string]string{"app": "a"}
			labels[fmt.Sprint("l", r.IntN(3))] = fmt.Sprint(r.IntN(2))
			out.SetLabels(labels)
		case 1:
			out.SetAnnotations(map[string]string{fmt.Sprint("a", r.IntN(3)): fmt.Sprint(r.IntN(2))})
		case 2:
			out.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n", UID: "u"}}[:r.IntN(2)])
		default:
			if n := v.NumField(); n > 2 {
				if f := v.Field(2 + r.IntN(n-2)); f.CanSet() {
					change(r, f, 0)
				}
			}
		}
	}
	return out
}

// created records that the manager made obj.
func created(tb testing.TB, managers *Managers, res *registry.Resource, obj registry.Object, manager string) {
	m, err := managers.For(res, "")
	if err != nil {
		tb.Fatal(err)
	}
	m.Create(emptyOf(res), obj, manager)
	if len(obj.GetManagedFields()) == 0 && len(res.Kind.Untracked) == 0 {
		tb.Fatal("a creation owns nothing")
	}
}

// age gives entries times of the past, some of them equal, some missing. None is of now: what is compared is not done in one second.
func age(r *rand.Rand, obj registry.Object) {
	entries := obj.GetManagedFields()
	for i := range entries {
		t := metav1.NewTime(time.Now().Add(-time.Duration(1+r.IntN(3)) * time.Minute).Truncate(time.Second))
		entries[i].Time = &t
		if r.IntN(8) == 0 {
			entries[i].Time = nil
		}
	}
	obj.SetManagedFields(entries)
}

func sameOutcome(t *testing.T, what string, got, want []metav1.ManagedFieldsEntry) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d entries, want %d:\n%v\n%v", what, len(got), len(want), got, want)
	}
	for i := range want {
		if !sameEntry(&got[i], &want[i]) || got[i].FieldsType != want[i].FieldsType {
			t.Fatalf("%s: entry %d is %s, want %s", what, i, got[i].String(), want[i].String())
		}
		if (got[i].Time == nil) != (want[i].Time == nil) || got[i].Time != nil && got[i].Time.Sub(want[i].Time.Time).Abs() > 30*time.Second {
			t.Fatalf("%s: entry %d has the time %v, want %v", what, i, got[i].Time, want[i].Time)
		}
	}
}

// TestUpdateIsRemembered holds that what is remembered of updates is what tracking them in full says: for every kind, over random
// changes by several managers, with entries of several ages.
func TestUpdateIsRemembered(t *testing.T) {
	t.Parallel()
	managers := newManagers(t)
	asked := 0
	for name, input := range inputs(t, managers) {
		res, first := input()
		subresources := []string{""}
		if res.Kind.Status != nil {
			subresources = append(subresources, "status")
		}
		for _, subresource := range subresources {
			m, err := managers.For(res, subresource)
			if err != nil {
				t.Fatal(err)
			}
			for seed := range uint64(5) {
				r := rand.New(rand.NewPCG(seed, 1))
				live := first.DeepCopyObject().(registry.Object)
				live.SetUID("u")
				created(t, managers, res, live, "creator")
				for step := range 6 {
					what := fmt.Sprintf("%s/%s, seed %d, step %d", name, subresource, seed, step)
					age(r, live)
					next, by := changed(r, live), []string{"creator", "kubectl", "node"}[r.IntN(3)]
					switch r.IntN(4) {
					case 0:
						next.SetManagedFields(nil)
					case 1:
						if r.IntN(3) == 0 {
							next.SetManagedFields([]metav1.ManagedFieldsEntry{}[:0:0])
						}
					}
					full := next.DeepCopyObject().(registry.Object)
					m.track(live, full, by)
					q, ok := m.ask(live, next, by)
					for _, round := range []string{"first", "again"} {
						got := next.DeepCopyObject().(registry.Object)
						if round == "again" && ok {
							asked++
							m.repeats.hit(q.owners)
						}
						before := live.DeepCopyObject()
						m.Update(live, got, by)
						sameOutcome(t, what+", "+round, got.GetManagedFields(), full.GetManagedFields())
						if !reflect.DeepEqual(before, live) {
							t.Fatalf("%s: the live object was changed", what)
						}
						got.SetManagedFields(next.GetManagedFields())
						if !reflect.DeepEqual(runtime.Object(got), runtime.Object(next)) {
							t.Fatalf("%s: something else than the managed fields was changed", what)
						}
					}
					if ok {
						if _, known := m.updates.Get(q.digest); !known {
							t.Errorf("%s: it was not remembered", what)
						}
					}
					live = full
				}
			}
		}
	}
	if asked < 500 {
		t.Errorf("only %d updates were asked about", asked)
	}
	t.Logf("%d updates were asked about", asked)
}

// TestSimilarUpdates holds that an update is remembered across objects that differ in what the update does not depend on, and not
// across those that differ in what it does.
func TestSimilarUpdates(t *testing.T) {
	t.Parallel()
	managers := newManagers(t)
	res, pod := inputs(t, managers)["pod-full"]()
	m, err := managers.For(res, "status")
	if err != nil {
		t.Fatal(err)
	}
	created(t, managers, res, pod, "kubectl")
	question := func(by string, change func(live, obj *corev1.Pod)) digest {
		live, obj := pod.DeepCopyObject().(*corev1.Pod), pod.DeepCopyObject().(*corev1.Pod)
		obj.Status.Phase = corev1.PodRunning
		if change != nil {
			change(live, obj)
		}
		q, ok := m.ask(live, obj, by)
		if !ok {
			t.Fatal("it is not asked about")
		}
		return q.digest
	}
	same := question("node", nil)
	for name, c := range map[string]struct {
		by     string
		change func(live, obj *corev1.Pod)
		equal  bool
	}{
		"another name":           {"node", func(live, obj *corev1.Pod) { live.Name, obj.Name = "b", "b" }, true},
		"another value":          {"node", func(_, obj *corev1.Pod) { obj.Status.Phase = corev1.PodFailed }, true},
		"an equal field more":    {"node", func(live, obj *corev1.Pod) { live.Status.HostIP, obj.Status.HostIP = "h", "h" }, true},
		"a spec that is not its": {"node", func(_, obj *corev1.Pod) { obj.Spec.NodeName = "n" }, true},
		"another manager":        {"nodes", nil, false},
		"another field":          {"node", func(_, obj *corev1.Pod) { obj.Status.Message = "m" }, false},
		"a field that went":      {"node", func(live, _ *corev1.Pod) { live.Status.Message = "m" }, false},
		"an address":             {"node", func(_, obj *corev1.Pod) { obj.Status.PodIPs = []corev1.PodIP{{IP: "10.0.0.1"}} }, false},
		"another owner":          {"node", func(live, _ *corev1.Pod) { live.ManagedFields[0].Manager = "helm" }, false},
		"other fields owned": {"node", func(live, _ *corev1.Pod) {
			live.ManagedFields[0].FieldsV1 = &metav1.FieldsV1{Raw: []byte(`{"f:spec":{}}`)}
		}, false},
		"an entry of the future": {"node", func(live, _ *corev1.Pod) {
			live.ManagedFields[0].Time = &metav1.Time{Time: time.Now().Add(time.Hour).Truncate(time.Second)}
		}, false},
	} {
		if (question(c.by, c.change) == same) != c.equal {
			t.Errorf("%s: equal is %v", name, !c.equal)
		}
	}
}

// TestRepeats holds that updates which never repeat are soon hardly asked about any more, and asked about again once one does.
func TestRepeats(t *testing.T) {
	t.Parallel()
	var r repeats
	asked := 0
	for range 100 * patience {
		if r.likely(digest{}) {
			asked++
			r.miss(digest{})
		}
	}
	if asked < patience || asked > 110+patience {
		t.Errorf("of 1600 updates that are all new, %d were asked about", asked)
	}
	if !r.likely(digest{1}) {
		t.Error("others were not asked about")
	}
	r.hit(digest{})
	if !r.likely(digest{}) {
		t.Error("what repeats is not asked about")
	}
	for i := range 5 * maxMisses {
		r.miss(digest{byte(i), byte(i >> 8)})
	}
	if len(r.misses) > maxMisses {
		t.Errorf("%d are remembered", len(r.misses))
	}
}

// BenchmarkUpdate compares a status patch like many others with one that is tracked in full.
func BenchmarkUpdate(b *testing.B) {
	managers := newManagers(b)
	res, pod := inputs(b, managers)["pod-full"]()
	m, err := managers.For(res, "status")
	if err != nil {
		b.Fatal(err)
	}
	created(b, managers, res, pod, "kubectl")
	for name, track := range map[string]func(live, obj registry.Object, manager string){"remembered": m.Update, "in-full": m.track} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				next := *pod.(*corev1.Pod)
				next.Status.Message = "patched"
				track(pod, &next, "node")
			}
		})
	}
}
