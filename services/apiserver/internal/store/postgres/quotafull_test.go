package postgres_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"testing"
	"time"

	"howdah.dev/services/apiserver/internal/store"
	"howdah.dev/services/apiserver/internal/store/postgres"
)

// TestADatabaseOverItsQuota fills a database up to its quota: then nothing is created, but what is there can be changed and deleted, and that makes room,
// though the file of the entries becomes no smaller.
func TestADatabaseOverItsQuota(t *testing.T) {
	t.Parallel()
	url := database(t)
	s := open(t, postgres.Config{DatabaseURL: url, PartitionSize: smallPartition, Quota: 8 << 20, Retention: time.Nanosecond})
	look := func() {
		t.Helper()
		if err := errors.Join(s.MaintainOnce(t.Context()), s.LookAtRoom(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	value := make([]byte, 6000)
	_, _ = rand.Read(value) // so that it is not compressed
	write := func(op store.Op, n int) error {
		return s.Write(t.Context(), store.Write{Op: op, Key: fmt.Sprintf("/core/pods/%06d", n), Value: value}).Err
	}
	created := 0
	for err := error(nil); err == nil; {
		if created%50 == 0 {
			look()
		}
		if err = write(store.Create, created); err == nil {
			created++
		} else if !errors.Is(err, store.ErrOverQuota) {
			t.Fatalf("after %d writes: %v", created, err)
		}
		if created == 10_000 {
			t.Fatal("there is no bound")
		}
	}
	if entries := query[int](t, url, "SELECT count(*) FROM howdah.object"); entries != created || created < 500 {
		t.Errorf("%d entries, of which %d were acknowledged", entries, created)
	}
	if err := write(store.Update, 0); err != nil {
		t.Errorf("an update: %v", err)
	}
	group := []store.Write{{Op: store.Delete, Key: "/core/pods/000001"}, {Op: store.Create, Key: "/core/pods/new", Value: value}}
	if _, err := s.WriteAtomic(t.Context(), group); !errors.Is(err, store.ErrOverQuota) {
		t.Errorf("a group with a creation: %v", err)
	}
	if err := s.Write(store.Exempt(t.Context()), store.Write{Op: store.Create, Key: "/core/namespaces/own", Value: value}).Err; err != nil {
		t.Errorf("a creation of the server's own: %v", err)
	}

	for n := range created {
		if err := s.Write(t.Context(), store.Write{Op: store.Delete, Key: fmt.Sprintf("/core/pods/%06d", n)}).Err; err != nil {
			t.Fatalf("the deletion of %d: %v", n, err)
		}
	}
	file := query[int64](t, url, "SELECT pg_total_relation_size('howdah.object')")
	look() // drops the log
	look() // and sees it
	if file < 6<<20 {
		t.Errorf("the file of the entries has %d bytes: nothing shows that its holes count as room", file)
	}
	if err := write(store.Create, 0); err != nil {
		t.Errorf("after everything was deleted: %v", err)
	}
}

// TestPartitionsOfAQuota: with a quota, new partitions of the log are smaller the more a revision takes of it.
func TestPartitionsOfAQuota(t *testing.T) {
	t.Parallel()
	url := database(t)
	s := open(t, postgres.Config{DatabaseURL: url, PartitionSize: smallPartition})
	value := make([]byte, 6000)
	_, _ = rand.Read(value)
	for n := range 2 * smallPartition {
		if err := s.Write(t.Context(), store.Write{Op: store.Create, Key: fmt.Sprint("/core/pods/", n), Value: value}).Err; err != nil {
			t.Fatal(err)
		}
	}
	none, err := s.MostRevisions(t.Context(), 0)
	if err != nil || none < 1<<24 {
		t.Errorf("without a quota: %d, %v", none, err)
	}
	some, err := s.MostRevisions(t.Context(), 1<<30)
	if err != nil || some < 1<<30/8/20_000 || some > 1<<30/8/6000 {
		t.Errorf("with one: %d, %v", some, err)
	}
}
