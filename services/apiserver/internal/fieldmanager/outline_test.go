package fieldmanager

import (
	"maps"
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"howdah.dev/services/apiserver/internal/registry"
)

// TestOutline holds that objects of one outline get the entries that tracking them in full gives, whatever is in their fields.
func TestOutline(t *testing.T) {
	managers := newManagers(t)
	outlined := 0
	for name, input := range inputs(t, managers) {
		t.Run(name, func(t *testing.T) {
			res, first := input()
			m, err := managers.For(res, "")
			if err != nil {
				t.Fatal(err)
			}
			_, second := input()
			alter(reflect.ValueOf(second).Elem())
			second.GetObjectKind().SetGroupVersionKind(res.Kind.GVK)
			one, ok1 := outlineOf(m.bare(first), "kubectl")
			two, ok2 := outlineOf(m.bare(second), "kubectl")
			if ok1 != ok2 || ok1 && one != two {
				t.Fatalf("what is in its fields changes the outline: %v, %v", ok1, ok2)
			}
			if ok1 {
				outlined++
			}
			full := second.DeepCopyObject().(registry.Object)
			m.Create(emptyOf(res), first, "kubectl")
			before := m.creations.Len()
			m.Create(emptyOf(res), second, "kubectl")
			m.Update(emptyOf(res), full, "kubectl")
			got, want := second.GetManagedFields(), full.GetManagedFields()
			if len(got) != len(want) || ok1 && m.creations.Len() > before+1 {
				t.Fatalf("%d entries, want %d; %d and then %d are remembered", len(got), len(want), before, m.creations.Len())
			}
			for i := range want {
				if !sameEntry(&got[i], &want[i]) {
					t.Errorf("entry %d is %s, want %s", i, got[i].String(), want[i].String())
				}
			}
		})
	}
	if outlined < 20 {
		t.Errorf("only %d objects have outlines", outlined)
	}
}

// alter changes what is in fields that have something, but for lists.
func alter(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			alter(v.Elem())
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			changed := reflect.New(v.Type().Elem()).Elem()
			changed.Set(v.MapIndex(key))
			alter(changed)
			v.SetMapIndex(key, changed)
		}
	case reflect.String:
		if v.Len() > 0 {
			v.SetString(v.String() + "x")
		}
	case reflect.Int32, reflect.Int64:
		if v.Int() > 0 {
			v.SetInt(v.Int() + 1)
		}
	case reflect.Struct:
		switch of := v.Addr().Interface().(type) {
		case *metav1.Time:
			if !of.IsZero() {
				of.Time = of.Add(time.Hour)
			}
		case *resource.Quantity:
			of.Add(resource.MustParse("1"))
		case *intstr.IntOrString:
			if *of != (intstr.IntOrString{}) { // else it may count as none
				*of = intstr.FromString("another")
			}
		default:
			for i := range v.NumField() {
				if v.Field(i).CanSet() {
					alter(v.Field(i))
				}
			}
		}
	}
}

// TestOutlines holds which differences make another outline.
func TestOutlines(t *testing.T) {
	pod := func(change func(*corev1.Pod)) digest {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "a"}}, Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
		change(p)
		d, ok := outlineOf(p, "m")
		if !ok {
			t.Fatal("no outline")
		}
		return d
	}
	same := pod(func(*corev1.Pod) {})
	for name, c := range map[string]struct {
		change func(*corev1.Pod)
		equal  bool
	}{
		"value of a label": {func(p *corev1.Pod) { p.Labels["app"] = "b" }, true},
		"node":             {func(p *corev1.Pod) { p.Spec.NodeName = "m" }, true},
		"no node":          {func(p *corev1.Pod) { p.Spec.NodeName = "" }, false},
		"label":            {func(p *corev1.Pod) { p.Labels["b"] = "" }, false},
		"name of a label": {func(p *corev1.Pod) {
			maps.DeleteFunc(p.Labels, func(string, string) bool { return true })
			p.Labels["b"] = "a"
		}, false},
		"image in a list": {func(p *corev1.Pod) { p.Spec.Containers[0].Image = "j" }, false},
		"no list":         {func(p *corev1.Pod) { p.Spec.Containers = nil }, false},
		"number":          {func(p *corev1.Pod) { p.Spec.Priority = new(int32(1)) }, false},
		"time":            {func(p *corev1.Pod) { p.Status.StartTime = &metav1.Time{Time: time.Unix(1, 0)} }, false},
		"structure":       {func(p *corev1.Pod) { p.Spec.SecurityContext = &corev1.PodSecurityContext{} }, false},
	} {
		if (pod(c.change) == same) != c.equal {
			t.Errorf("another %s: equal is %v", name, !c.equal)
		}
	}
	if d, _ := outlineOf(&corev1.Pod{}, "n"); d == same {
		t.Error("the manager does not count")
	}
}
