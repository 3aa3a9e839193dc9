package objects

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"howdah.dev/services/apiserver/internal/admission"
	"howdah.dev/services/apiserver/internal/cache"
	"howdah.dev/services/apiserver/internal/codec"
	"howdah.dev/services/apiserver/internal/memstore"
	"howdah.dev/services/apiserver/internal/registry"
	"howdah.dev/services/apiserver/internal/store"
)

// judged is an operation on one object whose plans somebody refuses as often as is said. Meanwhile another API server commits something.
type judged struct {
	operation
	r         *request
	refusals  int
	meanwhile func()
	plans     int
}

func (j *judged) about() *request { return j.r }

func (j *judged) plan(context.Context) (*plan, error) {
	j.plans++
	if j.plans == 1 && j.meanwhile != nil {
		j.meanwhile()
	}
	if j.plans <= j.refusals {
		return nil, admission.Final(errors.New("refused"))
	}
	return &plan{}, nil
}

// ofConfigMaps returns a server of ConfigMaps alone, its store, and their resource. Its cache runs until the test ends.
func ofConfigMaps(t *testing.T) (*Server, *memstore.Store, *registry.Resource) {
	t.Helper()
	gvk := schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	kind := &registry.Kind{
		GVK: gvk, Resource: "configmaps", Namespaced: true,
		New: func() registry.Object { return &corev1.ConfigMap{} }, NewList: func() runtime.Object { return &corev1.ConfigMapList{} },
	}
	table, err := registry.NewTable([]*registry.Kind{kind})
	if err != nil {
		t.Fatal(err)
	}
	states := memstore.New()
	s := New(Config{Cache: cache.New(states, table, clock.RealClock{}, nil), Store: states, Metrics: NewMetrics(nil)})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Cache.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	<-s.Cache.Ready()
	return s, states, table.Find(gvk.GroupVersion().WithResource("configmaps"))
}

// TestVerdictsAreAskedForAgain: a webhook that refused an object as it was is asked once more where that object has changed, and only there.
func TestVerdictsAreAskedForAgain(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s, states, res := ofConfigMaps(t)
	kind := res.Kind
	commit := func(op store.Op, name, value string) {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name}, Data: map[string]string{"value": value}}
		bytes, err := codec.Encode(ctx, kind, object)
		if err != nil {
			t.Fatal(err)
		}
		if w := states.Write(ctx, store.Write{Op: op, Key: kind.Key("n", name), Value: bytes}); w.Err != nil {
			t.Fatal(w.Err)
		}
	}
	commit(store.Create, "a", "1")
	commit(store.Create, "b", "1")
	r := &request{res: res, namespace: "n", name: "a"}
	for name, c := range map[string]struct {
		op    judged
		plans int
		fails bool
	}{
		"nothing changes":     {judged{refusals: 9}, 1, true},
		"another one changes": {judged{refusals: 9, meanwhile: func() { commit(store.Update, "b", "2") }}, 1, true},
		"it changes":          {judged{refusals: 1, meanwhile: func() { commit(store.Update, "a", "2") }}, 2, false},
		"it is still refused": {judged{refusals: 9, meanwhile: func() { commit(store.Update, "a", "3") }}, 2, true},
	} {
		if err := s.Cache.Fresh(ctx); err != nil {
			t.Fatal(err)
		}
		c.op.r = r
		if _, err := s.planned(ctx, &c.op); (err != nil) != c.fails || c.op.plans != c.plans {
			t.Errorf("%s: planned %d times, want %d, in the end %v", name, c.op.plans, c.plans, err)
		}
	}
}
