package fieldmanager

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/services/apiserver/internal/registry"
)

// places are all that can be changed in a value: scalars, lists, maps, and pointers.
func places(v reflect.Value) (found []reflect.Value) {
	if _, ok := scalarOf(v); ok {
		return []reflect.Value{v}
	}
	switch v.Kind() {
	case reflect.Struct:
		if _, whole := v.Addr().Interface().(json.Marshaler); whole { // whose parts are not to be had in any way
			return nil
		}
		for i := range v.NumField() {
			if f := v.Field(i); f.CanSet() && f.Type() != typeMeta {
				found = append(found, places(f)...)
			}
		}
	case reflect.Pointer:
		found = append(found, v)
		if !v.IsNil() {
			found = append(found, places(v.Elem())...)
		}
	case reflect.Slice:
		found = append(found, v)
		for i := range v.Len() {
			found = append(found, places(v.Index(i))...)
		}
	case reflect.Map:
		found = append(found, v)
	}
	return found
}

// disturb changes what is in a place, at random.
func disturb(r *rand.Rand, v reflect.Value) {
	if _, ok := scalarOf(v); ok {
		setScalar(r, v)
		return
	}
	n := r.IntN(6)
	switch {
	case n == 0:
		v.SetZero()
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case v.Kind() == reflect.Slice && n == 1:
		v.Set(reflect.MakeSlice(v.Type(), 0, 0))
	case v.Kind() == reflect.Slice && n == 2:
		v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
	case v.Kind() == reflect.Slice && v.Len() > 0:
		i := r.IntN(v.Len())
		switch n {
		case 3: // once more
			v.Set(reflect.Append(v, v.Index(i)))
		case 4:
			v.Set(v.Slice(0, v.Len()-1))
		default:
			reflect.Swapper(v.Interface())(0, i)
		}
	case v.Kind() == reflect.Map && n == 1:
		v.Set(reflect.MakeMap(v.Type()))
	case v.Kind() == reflect.Map && v.Type().Key().Kind() == reflect.String:
		key := reflect.ValueOf([]string{"a", "b", "c"}[r.IntN(3)]).Convert(v.Type().Key())
		value := reflect.New(v.Type().Elem()).Elem()
		switch value.Interface().(type) {
		case string:
			value.SetString([]string{"", "x", "y"}[r.IntN(3)])
		case []byte:
			value.SetBytes([][]byte{nil, {}, []byte("x")}[r.IntN(3)])
		}
		if v.IsNil() {
			v.Set(reflect.MakeMap(v.Type()))
		}
		if n == 2 {
			value = reflect.Value{} // without it
		}
		v.SetMapIndex(key, value)
	}
}

// setScalar gives a field one of a few values, among them none, and times that are encoded alike.
func setScalar(r *rand.Rand, f reflect.Value) {
	if f.Kind() == reflect.Pointer {
		if f.SetZero(); r.IntN(3) > 0 {
			f.Set(reflect.New(f.Type().Elem()))
			setScalar(r, f.Elem())
		}
		return
	}
	at := time.Unix(int64(r.IntN(2))*1000, int64(r.IntN(3))).UTC()
	if r.IntN(3) == 0 {
		at = time.Time{}
	}
	switch f.Interface().(type) {
	case metav1.Time:
		f.Set(reflect.ValueOf(metav1.NewTime(at)))
	case metav1.MicroTime:
		f.Set(reflect.ValueOf(metav1.NewMicroTime(at)))
	default:
		switch f.Kind() {
		case reflect.String:
			f.SetString([]string{"", "a", "b"}[r.IntN(3)])
		case reflect.Bool:
			f.SetBool(r.IntN(2) == 0)
		default:
			f.SetInt(int64(r.IntN(3)))
		}
	}
}

// TestChangesTellWhatAComparisonSays holds that whatever is said of changes, a comparison by the schema follows from it.
func TestChangesTellWhatAComparisonSays(t *testing.T) {
	t.Parallel()
	managers := newManagers(t)
	given := inputs(t, managers)
	told, again := 0, 0
	for _, name := range slices.Sorted(maps.Keys(given)) {
		res, first := given[name]()
		if res.Kind.Custom != nil || res.Kind.GVK != res.GVK {
			continue
		}
		m, err := managers.For(res, "")
		if err != nil {
			t.Fatal(err)
		}
		r, said := rand.New(rand.NewPCG(7, 7)), map[string]string{}
		for range 60 {
			live := first.DeepCopyObject().(registry.Object)
			at := r.IntN(len(places(reflect.ValueOf(live).Elem())))
			for range r.IntN(3) { // before it, too
				disturb(r, places(reflect.ValueOf(live).Elem())[at])
				at = min(at, len(places(reflect.ValueOf(live).Elem()))-1)
			}
			next := live.DeepCopyObject().(registry.Object)
			for range 1 + r.IntN(2) {
				all := places(reflect.ValueOf(next).Elem())
				disturb(r, all[min(at, len(all)-1)])
			}
			before, after := m.owned(live, next)
			kept := [2]any{before.DeepCopyObject(), after.DeepCopyObject()}
			key, ok := m.appendChanges(nil, before, after)
			if !reflect.DeepEqual(kept, [2]any{before, after}) {
				t.Fatalf("%s: the objects were changed", name)
			}
			if !ok {
				continue
			}
			c, err := m.compare(before, after)
			if err != nil { // over items without keys in what is equal: nobody owns anything then, and nothing is remembered
				continue
			}
			told++
			comparison := fmt.Sprint(c.Added, c.Modified, c.Removed)
			if known, have := said[string(key)]; have {
				if again++; known != comparison {
					t.Fatalf("%s: %x says %s, and %s", name, key, known, comparison)
				}
			}
			said[string(key)] = comparison
		}
	}
	t.Logf("%d were told, %d of them again", told, again)
	if told < 1000 || again < 200 {
		t.Errorf("only %d were told, %d of them again", told, again)
	}
}

// TestChanges holds what is told of a Deployment's template.
func TestChanges(t *testing.T) {
	t.Parallel()
	managers := newManagers(t)
	res, first := inputs(t, managers)["deployment-v1"]()
	m, err := managers.For(res, "")
	if err != nil {
		t.Fatal(err)
	}
	live := first.(*appsv1.Deployment)
	container := corev1.Container{Name: "c", Image: "i", Args: []string{"a"}, Env: []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "2"}}}
	live.Spec.Template.Spec.Containers = []corev1.Container{container, {Name: "d", Image: "j"}}
	of := func(c func(d *appsv1.Deployment, spec *corev1.PodSpec)) (string, bool) {
		next := live.DeepCopy()
		c(next, &next.Spec.Template.Spec)
		told, ok := m.appendChanges(nil, live, next)
		return string(told), ok
	}
	image, ok := of(func(_ *appsv1.Deployment, s *corev1.PodSpec) { s.Containers[0].Image = "k" })
	if !ok {
		t.Fatal("an image is not told")
	}
	for name, c := range map[string]struct {
		change          func(d *appsv1.Deployment, s *corev1.PodSpec)
		told, alsoImage bool
	}{
		"another image":       {func(_ *appsv1.Deployment, s *corev1.PodSpec) { s.Containers[0].Image = "l" }, true, true},
		"that of another one": {func(_ *appsv1.Deployment, s *corev1.PodSpec) { s.Containers[1].Image = "l" }, true, false},
		"no image":            {func(_ *appsv1.Deployment, s *corev1.PodSpec) { s.Containers[0].Image = "" }, true, false},
		"a variable":          {func(_ *appsv1.Deployment, s *corev1.PodSpec) { s.Containers[0].Env[0].Value = "3" }, true, false},
		"arguments":           {func(_ *appsv1.Deployment, s *corev1.PodSpec) { s.Containers[0].Args = []string{"b"} }, true, false},
		"a label":             {func(d *appsv1.Deployment, _ *corev1.PodSpec) { d.Labels = map[string]string{"a": "b"} }, true, false},
		"an atomic map": {func(d *appsv1.Deployment, _ *corev1.PodSpec) {
			d.Spec.Selector.MatchLabels = map[string]string{"a": "b"}
		}, false, false},
		"a variable more": {func(_ *appsv1.Deployment, s *corev1.PodSpec) {
			s.Containers[0].Env = append(s.Containers[0].Env, corev1.EnvVar{Name: "C"})
		}, false, false},
		"a variable that is twice": {func(_ *appsv1.Deployment, s *corev1.PodSpec) { s.Containers[0].Env[1].Name = "A" }, false, false},
		"another order":            {func(_ *appsv1.Deployment, s *corev1.PodSpec) { slices.Reverse(s.Containers) }, false, false},
		"a pointer":                {func(_ *appsv1.Deployment, s *corev1.PodSpec) { s.Affinity = &corev1.Affinity{} }, false, false},
		"an owner":                 {func(d *appsv1.Deployment, _ *corev1.PodSpec) { d.OwnerReferences = []metav1.OwnerReference{{UID: "u"}} }, false, false},
		"another kind":             {func(d *appsv1.Deployment, _ *corev1.PodSpec) { d.Kind = "Other" }, false, false},
	} {
		told, ok := of(c.change)
		if ok != c.told || (ok && told == image) != c.alsoImage {
			t.Errorf("%s: told %t, as an image %t", name, ok, told == image)
		}
	}
}
