package cache

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"howdah.dev/kit/pgtest"
	"howdah.dev/migrations"
	"howdah.dev/services/apiserver/internal/codec"
	"howdah.dev/services/apiserver/internal/store"
	"howdah.dev/services/apiserver/internal/store/postgres"
)

// TestTheDatabaseDiesDuringAReplay kills PostgreSQL while a watch reads the log: it goes on where it was when the database is back.
func TestTheDatabaseDiesDuringAReplay(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t, pgtest.Config{})
	if err := migrations.Apply(t.Context(), server.URL()); err != nil {
		t.Fatal(err)
	}
	w := overPostgres(t, server.URL())
	w.pods.mu.Lock()
	first := w.pods.last
	w.pods.mu.Unlock()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "a", Namespace: "ns"}}
	value, err := codec.Encode(t.Context(), w.kind, pod)
	if err != nil {
		t.Fatal(err)
	}
	last := first
	for i := range 40 {
		r := w.cache.source.(store.Store).Write(t.Context(), store.Write{Op: store.Create, Key: w.kind.Key("ns", fmt.Sprint(i)), Value: value})
		if last = r.Revision; r.Err != nil {
			t.Fatal(r.Err)
		}
	}
	if err := w.cache.WaitFor(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	w.forget()
	var killed atomic.Bool
	restarted := make(chan error, 1)
	source := w.cache.source
	again := New(&onePiece{source, func(q store.ReplayQuery) {
		if q.After != first+10 || !killed.CompareAndSwap(false, true) {
			return
		}
		server.Kill9()
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			restarted <- server.Restart(ctx)
		}()
	}}, w.cache.table, clock.RealClock{}, nil)
	resource := again.For(w.kind)
	resource.replace(nil, last) // as of now, and it remembers nothing
	again.applied.Store(last)
	next := first + 1
	for tries := 0; ; tries++ {
		_, err = resource.Resume(t.Context(), Scope{}, next-1, false, func(events []*Event) error {
			for _, e := range events {
				if e.Revision != next {
					t.Errorf("%d comes where %d should", e.Revision, next)
				}
				next = e.Revision + 1
			}
			return nil
		})
		if !errors.Is(err, ErrBusy) || tries > 5 { // a machine that is very slow to restart it
			break
		}
	}
	if err != nil || next != last+1 {
		t.Errorf("the watch came up to %d of %d, %v", next-1, last, err)
	}
	if err := <-restarted; err != nil {
		t.Error(err)
	}
}

// overPostgres is a cache over a store in PostgreSQL.
func overPostgres(t *testing.T, url string) *world {
	t.Helper()
	st, err := postgres.New(postgres.Config{DatabaseURL: url, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	kind := podKind()
	table := tableOf(t, kind)
	w := &world{t: t, kind: kind, cache: New(st, table, clock.RealClock{}, nil)}
	w.pods = w.cache.For(kind)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 2)
	go func() { done <- st.Run(ctx) }()
	go func() { done <- w.cache.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done; <-done })
	<-w.cache.Ready()
	return w
}
