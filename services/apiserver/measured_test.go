package apiserver

import (
	"context"
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"howdah.dev/services/apiserver/internal/memstore"
	"howdah.dev/services/apiserver/internal/store"
)

// away is a store that does not answer.
type away struct{ backend }

func (away) Write(context.Context, store.Write) store.Result {
	return store.Result{Err: fmt.Errorf("now: %w", store.ErrUnavailable)}
}

// resting is a store in memory, which has nothing to run.
type resting struct{ *memstore.Store }

func (resting) Run(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }

func TestMeasured(t *testing.T) {
	t.Parallel()
	r := newRequests(prometheus.NewRegistry())
	m := measured{backend: resting{memstore.New()}, requests: r}
	create := store.Write{Op: store.Create, Key: "/core/configmaps/a/b", Value: []byte("{}")}
	if result := m.Write(t.Context(), create); result.Err != nil {
		t.Fatal(result.Err)
	}
	_ = m.Write(t.Context(), create) // it exists: the database has answered
	if _, err := m.WriteAtomic(t.Context(), []store.Write{
		{Op: store.Delete, Key: "/core/configmaps/a/b"}, {Op: store.Create, Key: "/apps/deployments/a/b", Value: []byte("{}")},
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := m.Get(t.Context(), "/apps/deployments/a/b"); err != nil {
		t.Fatal(err)
	}
	if _, err := m.List(t.Context(), store.Query{Prefix: "/apps/deployments/"}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []struct {
		operation, group, resource string
		n                          float64
	}{
		{"create", "", "configmaps", 2}, {"delete", "", "configmaps", 1}, {"create", "apps", "deployments", 1}, {"get", "apps", "deployments", 1}, {"list", "apps", "deployments", 1},
	} {
		if n := testutil.ToFloat64(r.count.WithLabelValues(want.operation, want.group, want.resource)); n != want.n {
			t.Errorf("%+v: %v", want, n)
		}
	}
	if n := testutil.CollectAndCount(r.failure); n != 0 {
		t.Errorf("%d failures", n)
	}
	_ = measured{backend: away{}, requests: r}.Write(t.Context(), create)
	if n := testutil.ToFloat64(r.failure.WithLabelValues("create", "", "configmaps")); n != 1 {
		t.Errorf("%v failures of one that is away", n)
	}
}
