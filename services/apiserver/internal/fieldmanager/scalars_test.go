package fieldmanager

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/services/apiserver/internal/registry"
)

// scalarFields are the fields of an object, its metadata, spec and status that are scalars.
func scalarFields(v reflect.Value, depth int) (fields []reflect.Value) {
	for i := range v.NumField() {
		switch f := v.Field(i); {
		case f.Type() == typeMeta:
		case isScalar(f):
			fields = append(fields, f)
		case f.Kind() == reflect.Struct && depth+1 < levels:
			fields = append(fields, scalarFields(f, depth+1)...)
		}
	}
	return fields
}

func isScalar(v reflect.Value) bool {
	_, ok := scalarOf(v)
	return ok
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

// Whatever is said of scalars that differ, a comparison by the schema follows from it.
func TestScalarsTellWhatAComparisonSays(t *testing.T) {
	t.Parallel()
	managers := newManagers(t)
	for _, name := range []string{"lease", "event-events", "deployment-v1", "job", "pod-full", "node", "configmap", "persistentvolumeclaim", "certificatesigningrequest"} {
		res, first := inputs(t, managers)[name]()
		m, err := managers.For(managers.table.FindKind(res.Kind.GVK), "") // as it is stored
		if err != nil {
			t.Fatal(err)
		}
		r, said, again := rand.New(rand.NewPCG(7, 7)), map[string]string{}, 0
		for range 600 {
			live := first.DeepCopyObject().(registry.Object)
			fields := scalarFields(reflect.ValueOf(live).Elem(), 0)
			picked := []int{r.IntN(len(fields)), r.IntN(min(3, len(fields)))}
			for _, n := range picked {
				setScalar(r, fields[n])
			}
			next := live.DeepCopyObject().(registry.Object)
			others := scalarFields(reflect.ValueOf(next).Elem(), 0)
			for _, n := range picked {
				setScalar(r, others[n])
			}
			before, after := m.differing(live, next)
			key, ok := appendScalars(nil, before, after)
			if !ok {
				t.Fatalf("%s: scalars alone differ between %v and %v, and are not told", name, live, next)
			}
			c, err := m.compare(before, after)
			if err != nil {
				t.Fatal(err)
			}
			comparison := fmt.Sprint(c.Added, c.Modified, c.Removed)
			if known, have := said[string(key)]; have {
				if again++; known != comparison {
					t.Fatalf("%s: %x says %s, and %s", name, key, known, comparison)
				}
			}
			said[string(key)] = comparison
		}
		if again < 50 || len(said) < 3 {
			t.Errorf("%s: %d were told, %d again", name, len(said), again)
		}
	}
}

// What is no scalar is not told.
func TestOtherDifferencesAreNoScalars(t *testing.T) {
	t.Parallel()
	managers := newManagers(t)
	res, live := inputs(t, managers)["deployment-v1"]()
	m, err := managers.For(res, "")
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(registry.Object){
		"a label":  func(o registry.Object) { o.SetLabels(map[string]string{"other": "one"}) },
		"an owner": func(o registry.Object) { o.SetOwnerReferences([]metav1.OwnerReference{{UID: "u"}}) },
		"another kind": func(o registry.Object) {
			o.GetObjectKind().SetGroupVersionKind(res.GVK.GroupVersion().WithKind("Other"))
		},
		"the template": func(o registry.Object) {
			reflect.ValueOf(o).Elem().FieldByName("Spec").FieldByName("Template").SetZero()
		},
		"a deep scalar": func(o registry.Object) { setDeep(o) },
	} {
		next := live.DeepCopyObject().(registry.Object)
		change(next)
		before, after := m.differing(live, next)
		if _, ok := appendScalars(nil, before, after); ok {
			t.Errorf("%s is taken for a scalar", name)
		}
	}
}

func setDeep(o registry.Object) {
	spec := reflect.ValueOf(o).Elem().FieldByName("Spec")
	spec.FieldByName("Template").FieldByName("Spec").FieldByName("NodeName").SetString("elsewhere")
}
