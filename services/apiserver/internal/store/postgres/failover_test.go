package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"testing"
	"time"

	"howdah.dev/kit/pgtest"
	"howdah.dev/kit/pgtest/proxy"
	"howdah.dev/migrations"
	"howdah.dev/services/apiserver/internal/store"
	"howdah.dev/services/apiserver/internal/store/postgres"
)

// TestFailover promotes a synchronous replica while two stores work: no write that was acknowledged is lost, and who follows is told to begin anew.
func TestFailover(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(primary *pgtest.Server, network *proxy.Proxy){
		"the primary is killed":           func(primary *pgtest.Server, network *proxy.Proxy) { primary.Kill9(); network.Cut() },
		"its machine is silent from then": func(_ *pgtest.Server, network *proxy.Proxy) { network.Freeze() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			primary := pgtest.Start(t, pgtest.Config{TCP: true})
			if err := migrations.Apply(t.Context(), primary.URL()); err != nil {
				t.Fatal(err)
			}
			replica := primary.Replica(t)
			network := proxy.Start(t, primary.Address())
			databaseURL := fmt.Sprintf("postgres://postgres@%s,%s/postgres?sslmode=disable", network.Address(), replica.Address())
			config := postgres.Config{DatabaseURL: databaseURL, CommitTimeout: 1500 * time.Millisecond, ReadPatience: 2 * time.Minute}
			f := failover{stores: []*postgres.Store{openQuiet(t, config), openQuiet(t, config)}, acknowledged: map[string]int64{}}
			f.begin(t)
			f.await(t, 200)
			fail(primary, network)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			if err := replica.Promote(ctx); err != nil {
				t.Fatal(err)
			}
			f.await(t, 200)
			f.finish(t)
		})
	}
}

// failover is the work of two stores on one state, and what must be true of it.
type failover struct {
	stores []*postgres.Store
	stop   context.CancelFunc
	work   sync.WaitGroup

	mu           sync.Mutex
	acknowledged map[string]int64 // revision by key
}

func (f *failover) begin(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	f.stop = cancel
	for i, s := range f.stores {
		for j := range 4 {
			f.work.Go(func() { f.write(ctx, t, s, fmt.Sprintf("/k/%d/%d", i, j)) })
		}
	}
}

// write creates one key after the other.
func (f *failover) write(ctx context.Context, t *testing.T, s *postgres.Store, prefix string) {
	for i := 0; ctx.Err() == nil; i++ {
		key := fmt.Sprintf("%s/%d", prefix, i)
		r := s.Write(ctx, store.Write{Op: store.Create, Key: key, Value: []byte(key)})
		switch {
		case r.Err == nil:
			f.note(t, key, r.Revision)
		case !store.Retriable(r.Err) && ctx.Err() == nil:
			t.Errorf("write: %v", r.Err)
		}
	}
}

func (f *failover) note(t *testing.T, key string, revision int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, twice := f.acknowledged[key]; twice {
		t.Errorf("%s was created twice", key)
	}
	f.acknowledged[key] = revision
}

func (f *failover) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.acknowledged)
}

// await returns when so many more writes are acknowledged.
func (f *failover) await(t *testing.T, more int) {
	t.Helper()
	for want, begun := f.count()+more, time.Now(); f.count() < want; pause(10 * time.Millisecond) {
		if time.Since(begun) > 2*time.Minute {
			t.Fatalf("%d writes are acknowledged after two minutes, want %d", f.count(), want)
		}
	}
}

// finish ends the work, and compares what was acknowledged with what is there, and with what is told.
func (f *failover) finish(t *testing.T) {
	f.stop()
	f.work.Wait()
	page, err := f.stores[0].List(t.Context(), store.Query{Prefix: "/k/"})
	if err != nil {
		t.Fatal(err)
	}
	there := map[string]int64{}
	for _, e := range page.Entries {
		there[e.Key] = e.Revision
	}
	before, after := 0, 0
	for key, revision := range f.acknowledged {
		if there[key] != revision {
			t.Errorf("%s was acknowledged at revision %d; there is %d", key, revision, there[key])
		}
		if revision < jump {
			before++
		} else {
			after++
		}
	}
	if before == 0 || after == 0 {
		t.Errorf("%d writes were acknowledged before the failover and %d after it", before, after)
	}
	if err := f.stores[0].Tail(t.Context(), jump-1, nil); !errors.Is(err, store.ErrTooOld) {
		t.Errorf("tail from before the failover: %v, want ErrTooOld", err)
	}
	told := f.told(t, page.Revision)
	later := maps.Clone(there)
	maps.DeleteFunc(later, func(_ string, revision int64) bool { return revision <= jump })
	if !maps.Equal(told, later) {
		t.Errorf("the log tells of %d writes since the failover, there are %d", len(told), len(later))
	}
}

// told answers what the log tells of since the failover.
func (f *failover) told(t *testing.T, to int64) map[string]int64 {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	enough := errors.New("enough")
	told := map[string]int64{}
	err := f.stores[1].Tail(ctx, jump, func(events []store.Event) error {
		for _, e := range events {
			told[e.Key] = e.Revision
		}
		if events[len(events)-1].Revision >= to {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) {
		t.Errorf("tail: %v", err)
	}
	return told
}
