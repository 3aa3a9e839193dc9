package apiserver

import (
	"context"
	"sync"
	"testing"
	"time"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/memstore"
	"howdah.dev/services/apiserver/internal/store"
)

// late is a store whose log can be held back.
type late struct {
	memory
	held *sync.Mutex
}

func (s late) Tail(ctx context.Context, from int64, deliver func([]store.Event) error) error {
	return s.memory.Tail(ctx, from, func(events []store.Event) error {
		s.held.Lock()
		defer s.held.Unlock()
		return deliver(events)
	})
}

// A dry run starts from what was committed before, through whichever server: nothing tells it afterwards that its state has passed.
func TestDryRunsSeeWhatWasCommitted(t *testing.T) {
	st, held := memory{memstore.New()}, &sync.Mutex{}
	a, b := start(t, st), start(t, late{st, held})
	if _, err := a.create("v1/configmaps", "default", `{"metadata":{"name":"c"}}`); err != nil {
		t.Fatal(err)
	}
	b.object(b.get("v1/configmaps", "default", "c"))
	dry := func(f *fixture) ([]byte, error) {
		return f.change("v1/configmaps", "default", "c", "merge-patch+json", `{"data":{"tried":"x"}}`, func(r *apiv1.PatchRequest) { r.DryRun = []string{"All"} })
	}
	held.Lock()
	if _, err := a.change("v1/configmaps", "default", "c", "merge-patch+json", `{"data":{"n":"1"}}`); err != nil {
		held.Unlock()
		t.Fatal(err)
	}
	waiting, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	hasty := *b
	hasty.ctx = waiting
	answer, err := dry(&hasty)
	held.Unlock()
	if err == nil {
		t.Errorf("answered before it can have known: %s", answer)
	}
	if tried := b.object(dry(b)); field(tried, "data", "n") != "1" || field(tried, "data", "tried") != "x" {
		t.Errorf("%v", tried.Object)
	}
}
