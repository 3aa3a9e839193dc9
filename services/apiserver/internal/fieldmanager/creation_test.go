package fieldmanager

import (
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"howdah.dev/services/apiserver/internal/kind"
	"howdah.dev/services/apiserver/internal/registry"
)

func newManagers(tb testing.TB) *Managers {
	table, err := registry.NewTable(kind.All(kind.Config{Now: time.Now}))
	if err != nil {
		tb.Fatal(err)
	}
	return New(table, nil)
}

// inputs decodes the manifests of the kinds' tests.
func inputs(tb testing.TB, m *Managers) map[string]func() (*registry.Resource, registry.Object) {
	paths, err := filepath.Glob("../kind/testdata/defaults/*.in.yaml")
	if err != nil || len(paths) == 0 {
		tb.Fatal("no manifests", err)
	}
	found := map[string]func() (*registry.Resource, registry.Object){}
	for _, path := range paths {
		body, err := os.ReadFile(path)
		if err != nil {
			tb.Fatal(err)
		}
		found[strings.TrimSuffix(filepath.Base(path), ".in.yaml")] = func() (*registry.Resource, registry.Object) {
			var meta metav1.TypeMeta
			if err := yaml.Unmarshal(body, &meta); err != nil {
				tb.Fatal(err)
			}
			res := m.table.FindKind(schema.FromAPIVersionAndKind(meta.APIVersion, meta.Kind))
			obj := res.New()
			if err := yaml.Unmarshal(body, obj); err != nil {
				tb.Fatal(err)
			}
			res.Default(obj)
			stored, err := res.ToStored(obj)
			if err != nil {
				tb.Fatal(err)
			}
			stored.GetObjectKind().SetGroupVersionKind(res.Kind.GVK)
			return res, stored
		}
	}
	return found
}

func emptyOf(res *registry.Resource) registry.Object {
	empty := res.Kind.New()
	empty.GetObjectKind().SetGroupVersionKind(res.Kind.GVK)
	return empty
}

// TestCreateIsRemembered holds that what is remembered of a creation is what tracking it in full would say, whatever the name.
func TestCreateIsRemembered(t *testing.T) {
	managers := newManagers(t)
	for name, input := range inputs(t, managers) {
		t.Run(name, func(t *testing.T) {
			res, first := input()
			m, err := managers.For(res, "")
			if err != nil {
				t.Fatal(err)
			}
			m.Create(emptyOf(res), first, "kubectl")
			_, second := input()
			second.SetName("another")
			before := second.DeepCopyObject()
			m.Create(emptyOf(res), second, "kubectl")
			_, full := input()
			m.Update(emptyOf(res), full, "kubectl")

			got, want := second.GetManagedFields(), full.GetManagedFields()
			if len(res.Kind.Untracked) > 0 && len(want) == 0 && len(got) == 0 {
				return // nobody owns what it consists of
			}
			if len(want) == 0 || len(got) != len(want) {
				t.Fatalf("%d entries, want %d", len(got), len(want))
			}
			for i := range want {
				if !sameEntry(&got[i], &want[i]) {
					t.Errorf("entry %d is %s, want %s", i, got[i].String(), want[i].String())
				}
				if since := time.Since(got[i].Time.Time); since < -time.Second || since > 5*time.Minute {
					t.Errorf("entry %d is of %s", i, got[i].Time)
				}
			}
			if m.bare(first) != nil || len(first.GetManagedFields()) == 0 {
				t.Error("an object with managed fields is not tracked in full")
			}
			second.SetManagedFields(nil)
			if !reflect.DeepEqual(before, second) {
				t.Error("something else than the managed fields was changed")
			}
		})
	}
}

// TestDigest holds which differences make another creation.
func TestDigest(t *testing.T) {
	m := &Manager{ignored: "Status"}
	pod := func(change func(*corev1.Pod)) digest {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"app": "a"}}}
		if change != nil {
			change(p)
		}
		d, ok := digestOf(m.bare(p), "m")
		if !ok {
			t.Fatal("no digest")
		}
		return d
	}
	same := pod(nil)
	for name, c := range map[string]struct {
		change func(*corev1.Pod)
		equal  bool
	}{
		"name":          {func(p *corev1.Pod) { p.Name = "b" }, true},
		"namespace":     {func(p *corev1.Pod) { p.Namespace = "b" }, true},
		"status":        {func(p *corev1.Pod) { p.Status.Phase = "Failed" }, true},
		"label":         {func(p *corev1.Pod) { p.Labels["b"] = "" }, false},
		"generate name": {func(p *corev1.Pod) { p.GenerateName = "b-" }, false},
		"owner":         {func(p *corev1.Pod) { p.OwnerReferences = []metav1.OwnerReference{{UID: "b"}} }, false},
		"container":     {func(p *corev1.Pod) { p.Spec.Containers = []corev1.Container{{Name: "b"}} }, false},
	} {
		if (pod(c.change) == same) != c.equal {
			t.Errorf("another %s: equal is %v", name, !c.equal)
		}
	}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"app": "a"}}}
	if d, _ := digestOf(m.bare(p), "n"); d == same {
		t.Error("the manager does not count")
	}
	if p.Name != "a" {
		t.Error("the object was changed")
	}
}

// BenchmarkCreate compares a creation like many others, and one that is like others but for what is in its labels, with one that is tracked in full.
func BenchmarkCreate(b *testing.B) {
	managers := newManagers(b)
	res, pod := inputs(b, managers)["pod-full"]()
	m, err := managers.For(res, "")
	if err != nil {
		b.Fatal(err)
	}
	n := 0
	other := func(empty, obj registry.Object, manager string) {
		obj.SetLabels(map[string]string{"number": strconv.Itoa(n)})
		n++
		m.Create(empty, obj, manager)
	}
	for name, track := range map[string]func(empty, obj registry.Object, manager string){"remembered": m.Create, "outlined": other, "in-full": m.Update} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				pod.SetManagedFields(nil)
				track(emptyOf(res), pod, "kubectl")
			}
		})
	}
}
