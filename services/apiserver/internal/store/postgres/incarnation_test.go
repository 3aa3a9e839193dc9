package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"howdah.dev/services/apiserver/internal/store"
	"howdah.dev/services/apiserver/internal/store/postgres"
)

// jump is where the count goes on after the database has gone back for the first time.
const jump = int64(10_000_000_000)

func write(t testing.TB, s store.Store, op store.Op, key, value string) int64 {
	t.Helper()
	r := s.Write(t.Context(), store.Write{Op: op, Key: key, Value: []byte(value)})
	if r.Err != nil {
		t.Fatal(r.Err)
	}
	return r.Revision
}

// copyOf answers a database that is a copy of the one at databaseURL, which nobody may be connected to.
func copyOf(t testing.TB, databaseURL string) string {
	t.Helper()
	u, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	name := strings.TrimPrefix(u.Path, "/")
	admin := *u
	admin.Path = "/postgres"
	exec(t, admin.String(), fmt.Sprintf("CREATE DATABASE %s_copy TEMPLATE %s", name, name))
	t.Cleanup(func() { exec(t, admin.String(), fmt.Sprintf("DROP DATABASE %s_copy WITH (FORCE)", name)) })
	u.Path += "_copy"
	return u.String()
}

func TestRestoredDatabaseJumpsAhead(t *testing.T) {
	t.Parallel()
	original := database(t)
	var last int64
	t.Run("before", func(t *testing.T) {
		s := open(t, postgres.Config{DatabaseURL: original, PartitionSize: smallPartition})
		for i := range 40 {
			last = write(t, s, store.Create, fmt.Sprintf("/k/%02d", i), "x")
		}
		query[int64](t, original, "SELECT howdah.lead('scheduler', 'one')")
	})
	restored := copyOf(t, original)
	s := open(t, postgres.Config{DatabaseURL: restored, PartitionSize: smallPartition, Retention: time.Nanosecond})
	page, err := s.List(t.Context(), store.Query{})
	if err != nil || len(page.Entries) != 40 || page.Revision != jump {
		t.Fatalf("list: %d entries at %d, %v; want 40 at %d", len(page.Entries), page.Revision, err, jump)
	}
	if err := s.Tail(t.Context(), last, nil); !errors.Is(err, store.ErrTooOld) {
		t.Errorf("tail from before the jump: %v, want ErrTooOld", err)
	}
	if _, err := s.List(t.Context(), store.Query{Revision: last}); !errors.Is(err, store.ErrTooOld) {
		t.Errorf("list from before the jump: %v, want ErrTooOld", err)
	}
	if next := write(t, s, store.Update, "/k/00", "y"); next != jump+1 {
		t.Errorf("next revision = %d, want %d", next, jump+1)
	}
	if epoch := query[int64](t, restored, "SELECT howdah.lead('scheduler', 'two')"); epoch <= 1_000_000 {
		t.Errorf("epoch after the jump = %d: one of before could be given again", epoch)
	}
	// The values that only the old log holds survive its compaction.
	if err := s.MaintainOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := query[int](t, restored, "SELECT count(*) FROM howdah.partition WHERE high < $1", jump); n != 0 {
		t.Errorf("%d partitions of before the jump are left after compaction", n)
	}
	for i := range 40 {
		if e, err := s.Get(t.Context(), fmt.Sprintf("/k/%02d", i)); err != nil || string(e.Value) != map[bool]string{true: "y", false: "x"}[i == 0] {
			t.Errorf("Get after compaction: %+v, %v", e, err)
		}
	}
	// Opening it again is no second jump.
	again := open(t, postgres.Config{DatabaseURL: restored})
	if got, err := again.Revision(t.Context()); err != nil || got != jump+1 {
		t.Errorf("revision when opened again = %d, %v; want %d", got, err, jump+1)
	}
}

// TestTheJumpPassesPartitions: one that was made far ahead of the writers does not stand in its way. Every connection would fail on it.
func TestTheJumpPassesPartitions(t *testing.T) {
	t.Parallel()
	original := database(t)
	t.Run("before", func(t *testing.T) {
		write(t, open(t, postgres.Config{DatabaseURL: original}), store.Create, "/a", "x")
	})
	exec(t, original, fmt.Sprintf("SELECT howdah.add_partition(%d, %d)", jump-1000, jump+1_000_000))
	s := open(t, postgres.Config{DatabaseURL: copyOf(t, original)})
	if got, err := s.Revision(t.Context()); err != nil || got != 2*jump {
		t.Errorf("revision = %d, %v; want %d", got, err, 2*jump)
	}
	if next := write(t, s, store.Update, "/a", "y"); next != 2*jump+1 {
		t.Errorf("next revision = %d, want %d", next, 2*jump+1)
	}
}

// A file system snapshot that is put back leaves no mark in the database; only who was there remembers.
func TestProcessNoticesThatRevisionsAreGone(t *testing.T) {
	t.Parallel()
	databaseURL := database(t)
	s := open(t, postgres.Config{DatabaseURL: databaseURL})
	first := write(t, s, store.Create, "/a", "one")
	tailing := make(chan struct{})
	ended := make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	go func() {
		ended <- s.Tail(ctx, first-1, func(events []store.Event) error {
			if events[len(events)-1].Revision == first+2 {
				close(tailing)
			}
			return nil
		})
	}()
	write(t, s, store.Create, "/b", "lost")
	write(t, s, store.Create, "/c", "lost")
	<-tailing
	exec(t, databaseURL, fmt.Sprintf(`DELETE FROM howdah.change WHERE revision > %d; DELETE FROM howdah.object WHERE revision > %d;
		UPDATE howdah.counter SET revision = %d`, first, first, first))
	exec(t, databaseURL, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
	if err := <-ended; !errors.Is(err, store.ErrTooOld) {
		t.Errorf("tail ended with %v, want ErrTooOld", err)
	}
	got, err := s.Revision(t.Context())
	if err != nil || got != jump {
		t.Errorf("revision = %d, %v; want %d", got, err, jump)
	}
	if e, err := s.Get(t.Context(), "/a"); err != nil || string(e.Value) != "one" {
		t.Errorf("Get(/a) = %+v, %v", e, err)
	}
	if _, err := s.Get(t.Context(), "/b"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("Get(/b): %v, want ErrNotFound", err)
	}
}
