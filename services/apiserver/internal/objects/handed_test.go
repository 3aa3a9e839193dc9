package objects

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"howdah.dev/services/apiserver/internal/authn"
	"howdah.dev/services/apiserver/internal/cache"
	"howdah.dev/services/apiserver/internal/codec"
	"howdah.dev/services/apiserver/internal/memstore"
	"howdah.dev/services/apiserver/internal/registry"
	"howdah.dev/services/apiserver/internal/store"
)

// posted is a creation whose plan gives the object its name, as that of a POST does.
type posted struct {
	r    *request
	made *plan
}

func (n *posted) about() *request { return n.r }

func (n *posted) plan(context.Context) (*plan, error) {
	n.r.name = n.made.obj.GetName()
	return n.made, nil
}

func (n *posted) answer(*codec.Item, *plan) (answer, error) { return answer{}, nil }

// TestTheCacheTakesWhatACreationMade: what is created is not decoded again for the cache.
func TestTheCacheTakesWhatACreationMade(t *testing.T) {
	t.Parallel()
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

	made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a"}}
	value, err := codec.Encode(ctx, kind, made)
	if err != nil {
		t.Fatal(err)
	}
	key := kind.Key("n", "a")
	op := &posted{
		r:    &request{verb: "create", user: &authn.User{Name: "jane"}, res: table.Find(gvk.GroupVersion().WithResource("configmaps")), namespace: "n"},
		made: &plan{obj: made, value: value, created: true, writes: []store.Write{{Op: store.Create, Key: key, Value: value}}},
	}
	if _, err := s.execute(ctx, op, false); err != nil {
		t.Fatal(err)
	}
	if err := s.Cache.Fresh(ctx); err != nil {
		t.Fatal(err)
	}
	if obj, err := s.Cache.For(kind).Get(key).Object(); err != nil || obj != registry.Object(made) {
		t.Errorf("%v, %v: the cache has another object than was made", obj, err)
	}
}
