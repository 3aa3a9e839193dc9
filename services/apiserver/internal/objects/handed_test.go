package objects

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/services/apiserver/internal/authn"
	"howdah.dev/services/apiserver/internal/codec"
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
	ctx := t.Context()
	s, _, res := ofConfigMaps(t)
	kind := res.Kind

	made := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "a"}}
	value, err := codec.Encode(ctx, kind, made)
	if err != nil {
		t.Fatal(err)
	}
	key := kind.Key("n", "a")
	op := &posted{
		r:    &request{verb: "create", user: &authn.User{Name: "jane"}, res: res, namespace: "n"},
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
