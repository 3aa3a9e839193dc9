package pack

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

func endpoint(n int, ready bool) discoveryv1.Endpoint {
	return discoveryv1.Endpoint{
		Addresses: []string{fmt.Sprintf("10.%d.%d.%d", n>>16, n>>8&255, n&255)}, NodeName: ptr.To(fmt.Sprint("node-", n%300)),
		Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: &ready, Terminating: ptr.To(false)},
		TargetRef:  &corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: fmt.Sprint("pod-", n), UID: types.UID(fmt.Sprint("uid-", n))},
	}
}

// group is one of n endpoints.
func group(n int) *Group {
	g := &Group{Family: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Port: ptr.To(int32(80))}}}
	for i := range n {
		g.Endpoints = append(g.Endpoints, endpoint(i, true))
	}
	return g
}

func planned(g *Group, existing []*discoveryv1.EndpointSlice) Plan {
	return Slices(Owner{Namespace: "default", Prefix: "web-", Limit: 100}, map[string]*Group{Key(g.Family, g.Ports): g}, existing)
}

// TestOneOfManyChanges: a pod among thousands that changes, comes anew under its address, or goes, costs the write of one slice.
func TestOneOfManyChanges(t *testing.T) {
	t.Parallel()
	existing := planned(group(2500), nil).Create
	if len(existing) != 25 {
		t.Fatalf("%d slices for 2500 endpoints", len(existing))
	}
	for name, tt := range map[string]struct {
		change                  func(g *Group)
		added, updated, removed int
	}{
		"nothing":       {func(*Group) {}, 0, 0, 0},
		"one not ready": {func(g *Group) { g.Endpoints[1234] = endpoint(1234, false) }, 0, 1, 0},
		"one goes":      {func(g *Group) { g.Endpoints = append(g.Endpoints[:7], g.Endpoints[8:]...) }, 0, 0, 1},
		"another pod at the address": {func(g *Group) {
			e := &g.Endpoints[99]
			e.TargetRef = e.TargetRef.DeepCopy()
			e.TargetRef.UID = "another"
		}, 1, 0, 1},
		"another address of the pod": {func(g *Group) { g.Endpoints[99].Addresses = []string{"10.99.0.1"} }, 1, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := group(2500)
			tt.change(g)
			p := planned(g, existing)
			if got, want := [3]int{p.Tally.Added, p.Tally.Updated, p.Tally.Removed}, [3]int{tt.added, tt.updated, tt.removed}; got != want {
				t.Errorf("added, updated, removed: %v, want %v", got, want)
			}
			if writes := len(p.Create) + len(p.Update) + len(p.Delete); writes != min(1, tt.added+tt.updated+tt.removed) {
				t.Errorf("%d writes", writes)
			}
		})
	}
}

// TestSameSeesEveryField: one that a later Kubernetes adds as well.
func TestSameSeesEveryField(t *testing.T) {
	t.Parallel()
	var of func(path string, fields reflect.Type, field func(e *discoveryv1.Endpoint) reflect.Value)
	of = func(path string, fields reflect.Type, parent func(e *discoveryv1.Endpoint) reflect.Value) {
		for i := range fields.NumField() {
			name := path + fields.Field(i).Name
			field := func(e *discoveryv1.Endpoint) reflect.Value { return parent(e).Field(i) }
			if fields.Field(i).Type.Kind() == reflect.Struct {
				of(name+".", fields.Field(i).Type, field)
				continue
			}
			var without, with, other discoveryv1.Endpoint
			set(t, field(&with), name)
			set(t, field(&other), name)
			if same(&without, &with) || same(&with, &without) || !same(&with, &other) {
				t.Errorf("%s: that it is set, or equal, is not seen", name)
			}
		}
	}
	of("", reflect.TypeFor[discoveryv1.Endpoint](), func(e *discoveryv1.Endpoint) reflect.Value { return reflect.ValueOf(e).Elem() })
}

// set gives a field a value that is not its zero one.
func set(t *testing.T, field reflect.Value, name string) {
	t.Helper()
	switch field.Kind() {
	case reflect.Slice:
		field.Set(reflect.MakeSlice(field.Type(), 1, 1))
	case reflect.Map:
		field.Set(reflect.MakeMap(field.Type()))
		field.SetMapIndex(reflect.Zero(field.Type().Key()), reflect.Zero(field.Type().Elem()))
	case reflect.Pointer:
		field.Set(reflect.New(field.Type().Elem()))
	default:
		t.Fatalf("%s is a %s, which this test cannot set", name, field.Kind())
	}
}

// BenchmarkSlices is what a change of one pod among 2,500 of a Service costs to plan.
func BenchmarkSlices(b *testing.B) {
	existing := planned(group(2500), nil).Create
	now := group(2500)
	now.Endpoints[1234] = endpoint(1234, false)
	b.ReportAllocs()
	for b.Loop() {
		g := *now
		g.Endpoints = slices.Clone(now.Endpoints)
		if p := planned(&g, existing); len(p.Update) != 1 {
			b.Fatalf("%d slices are written", len(p.Update))
		}
	}
}
