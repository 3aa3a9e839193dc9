package postgres_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"howdah.dev/kit/pgtest"
	"howdah.dev/migrations"
	"howdah.dev/services/apiserver/internal/store"
	"howdah.dev/services/apiserver/internal/store/postgres"
	"howdah.dev/services/apiserver/internal/store/storetest"
)

// TestAutomaticFailover has pg_auto_failover replace the primary twice while two stores work: once it is killed while
// its keeper writes down what it knows, and comes back later, and once it is stopped for longer than the others wait, and goes on as if nothing had been.
func TestAutomaticFailover(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute and a half")
	}
	t.Parallel()
	f := pgtest.StartFormation(t)
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	if err := migrations.Apply(ctx, f.URL()); err != nil {
		t.Fatal(err)
	}
	config := postgres.Config{DatabaseURL: f.URL(), CommitTimeout: 2 * time.Second, ReadPatience: 2 * time.Minute}
	stores := []store.Store{openQuiet(t, config), openQuiet(t, config)}
	storetest.Failover(t, stores, func() {
		killed := primary(ctx, t, f)
		killed.Kill9()
		written := acknowledgement(ctx, t, stores[1])
		t.Logf("killed: writes are acknowledged again after %v", written)
		if err := killed.TearConfiguration(); err != nil {
			t.Fatal(err)
		}
		if err := killed.Start(ctx); err != nil {
			t.Fatal(err)
		}
		settled(ctx, t, f)

		stopped := primary(ctx, t, f)
		stopped.Freeze()
		t.Logf("stopped: writes are acknowledged again after %v", acknowledgement(ctx, t, stores[0]))
		stopped.Thaw()
		stale(ctx, t, f, stopped, stores[0])
		settled(ctx, t, f)
		if again := primary(ctx, t, f); again == stopped {
			t.Error("the server that was stopped is the primary still")
		}
	})
}

// stale asks a primary that was deposed, and goes on, for the state: it must not answer.
func stale(ctx context.Context, t *testing.T, f *pgtest.Formation, deposed *pgtest.Member, current store.Store) {
	r := current.Write(ctx, store.Write{Op: store.Create, Key: "/after", Value: []byte("x")})
	if r.Err != nil && !errors.Is(r.Err, store.ErrUnknownOutcome) {
		t.Errorf("write: %v", r.Err)
	}
	// It knows no other server, and nothing of what was.
	fresh := openQuiet(t, postgres.Config{DatabaseURL: deposed.URL(), ReadPatience: 5 * time.Second})
	for begun := time.Now(); time.Since(begun) < 10*time.Second && ctx.Err() == nil; {
		short, cancel := context.WithTimeout(ctx, 5*time.Second)
		newest, err := fresh.Revision(short)
		if err == nil && newest < r.Revision {
			t.Errorf("the deposed primary answers that revision %d is the newest, %d was acknowledged", newest, r.Revision)
		}
		if w := fresh.Write(short, store.Write{Op: store.Create, Key: "/stale", Value: []byte("x")}); w.Err == nil && w.Revision < r.Revision {
			t.Errorf("the deposed primary acknowledged revision %d", w.Revision)
		}
		cancel()
	}
}

func primary(ctx context.Context, t *testing.T, f *pgtest.Formation) *pgtest.Member {
	m, err := f.Primary(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func settled(ctx context.Context, t *testing.T, f *pgtest.Formation) {
	if err := f.AwaitSettled(ctx); err != nil {
		t.Fatal(err)
	}
}

// acknowledgement answers how long it takes until a write that begins now, or a later one, is acknowledged.
func acknowledgement(ctx context.Context, t *testing.T, s store.Store) time.Duration {
	for begun, i := time.Now(), 0; ; i++ {
		r := s.Write(ctx, store.Write{Op: store.Update, Key: "/probe", Value: []byte("x")})
		if errors.Is(r.Err, store.ErrNotFound) {
			r = s.Write(ctx, store.Write{Op: store.Create, Key: "/probe", Value: []byte("x")})
		}
		switch {
		case r.Err == nil || errors.Is(r.Err, store.ErrExists):
			return time.Since(begun)
		case ctx.Err() != nil || !store.Retriable(r.Err):
			t.Fatalf("no write was acknowledged: %v", r.Err)
		}
	}
}
