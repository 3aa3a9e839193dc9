package postgres_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"howdah.dev/kit/pgtest"
	"howdah.dev/migrations"
	"howdah.dev/services/apiserver/internal/store"
	"howdah.dev/services/apiserver/internal/store/postgres"
)

func TestCallsWaitForDatabaseThatIsAway(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t, pgtest.Config{})
	if err := migrations.Apply(t.Context(), server.URL()); err != nil {
		t.Fatal(err)
	}
	s := openQuiet(t, postgres.Config{DatabaseURL: server.URL()})
	write(t, s, store.Create, "/before", "x")
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	// The first write may find the old connection dead only while it uses it.
	if err := s.Write(short, store.Write{Op: store.Create, Key: "/short", Value: []byte("x")}).Err; !store.Retriable(err) {
		t.Errorf("write with little patience: %v, want a retriable error", err)
	}
	if _, err := s.Get(short, "/before"); !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("read with little patience: %v, want ErrUnavailable", err)
	}
	written, read := make(chan error, 1), make(chan error, 1)
	go func() {
		written <- s.Write(t.Context(), store.Write{Op: store.Create, Key: "/patient", Value: []byte("x")}).Err
	}()
	go func() { _, err := s.Get(t.Context(), "/before"); read <- err }()
	restart(t, server)
	if err := <-written; err != nil {
		t.Errorf("patient write: %v", err)
	}
	if err := <-read; err != nil {
		t.Errorf("patient read: %v", err)
	}
	if _, err := s.Get(t.Context(), "/short"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("what was said not to be written: %v", err)
	}
}

// A full disk is told as such, costs reads nothing, and is over when there is room again.
func TestNoSpaceLeft(t *testing.T) {
	t.Parallel()
	url := database(t)
	registry := prometheus.NewRegistry()
	s := openQuiet(t, postgres.Config{DatabaseURL: url, Metrics: registry})
	write(t, s, store.Create, "/before", "x")
	exec(t, url, `CREATE FUNCTION no_space() RETURNS trigger LANGUAGE plpgsql AS
		$$BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full'; END$$`)
	exec(t, url, "CREATE TRIGGER no_space BEFORE INSERT ON howdah.change FOR EACH ROW EXECUTE FUNCTION no_space()")
	for _, w := range []store.Write{{Op: store.Create, Key: "/new", Value: []byte("x")}, {Op: store.Delete, Key: "/before"}} {
		if err := s.Write(t.Context(), w).Err; !errors.Is(err, store.ErrFull) || store.Retriable(err) {
			t.Errorf("%v of %s: %v, want ErrFull", w.Op, w.Key, err)
		}
	}
	if e, err := s.Get(t.Context(), "/before"); err != nil || string(e.Value) != "x" {
		t.Errorf("read: %v %v", e, err)
	}
	const counted = `
# HELP howdah_store_commits_refused_total Commits that the database refused, by SQLSTATE: 53100 is a full disk.
# TYPE howdah_store_commits_refused_total counter
howdah_store_commits_refused_total{code="53100"} 2
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(counted), "howdah_store_commits_refused_total"); err != nil {
		t.Error(err)
	}
	exec(t, url, "DROP TRIGGER no_space ON howdah.change")
	write(t, s, store.Create, "/new", "x")
}

// A client that was stopped in the middle of its transaction holds the writers' lock; the others must not wait for ever.
func TestStalledWriterIsEvicted(t *testing.T) {
	t.Parallel()
	url := database(t)
	s := open(t, postgres.Config{DatabaseURL: url})
	stalled, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer stalled.Close(context.Background())
	if _, err := stalled.Exec(t.Context(), "BEGIN; SELECT howdah.lock_writers()"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := s.Write(ctx, store.Write{Op: store.Create, Key: "/a"}).Err; err != nil {
		t.Errorf("write: %v", err)
	}
}

func TestStoppedStoreAnswers(t *testing.T) {
	t.Parallel()
	s, err := postgres.New(postgres.Config{DatabaseURL: database(t)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("Run: %v", err)
	}
	if err := s.Run(t.Context()); err == nil {
		t.Error("Run twice succeeded")
	}
	if err := s.Write(t.Context(), store.Write{Op: store.Create, Key: "/a"}).Err; !errors.Is(err, store.ErrUnavailable) {
		t.Errorf("write: %v, want ErrUnavailable", err)
	}
}

func TestWriteIsTraced(t *testing.T) {
	t.Parallel()
	spans := tracetest.NewSpanRecorder()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("test")
	registry := prometheus.NewRegistry()
	s := open(t, postgres.Config{DatabaseURL: database(t), Tracer: tracer, Metrics: registry})
	ctx, parent := tracer.Start(t.Context(), "request")
	first := s.Write(ctx, store.Write{Op: store.Create, Key: "/a"})
	if first.Err != nil {
		t.Fatal(first.Err)
	}
	parent.End()
	var commit, batch sdktrace.ReadOnlySpan
	for _, span := range spans.Ended() {
		switch span.Name() {
		case "commit":
			commit = span
		case "store.commit":
			batch = span
		}
	}
	if commit == nil || commit.Parent().SpanID() != parent.SpanContext().SpanID() {
		t.Fatalf("no commit span below the request's: %v", commit)
	}
	if batch == nil || len(batch.Links()) != 1 || batch.Links()[0].SpanContext.SpanID() != commit.SpanContext().SpanID() {
		t.Fatalf("no batch span linked to the commit span: %v", batch)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err := s.Tail(ctx, first.Revision-1, func(events []store.Event) error {
		want := "00-" + parent.SpanContext().TraceID().String() + "-" + parent.SpanContext().SpanID().String() + "-01"
		if events[0].Trace != want {
			t.Errorf("event's trace = %q, want the request's %q", events[0].Trace, want)
		}
		cancel()
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]float64{}
	for _, f := range families {
		counts[f.GetName()] = f.GetMetric()[0].GetCounter().GetValue() + float64(f.GetMetric()[0].GetHistogram().GetSampleCount())
	}
	for _, name := range []string{"howdah_store_revisions_total", "howdah_store_batch_writes", "howdah_store_commit_seconds", "howdah_store_tailed_events_total", "howdah_store_tail_lag_seconds"} {
		if counts[name] != 1 {
			t.Errorf("%s = %v after one write, want 1", name, counts[name])
		}
	}
}
