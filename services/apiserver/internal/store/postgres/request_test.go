package postgres

import (
	"context"
	"errors"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"golang.org/x/sync/semaphore"

	"howdah.dev/services/apiserver/internal/store"
)

// TestACallerWhoWaitsNoLongerReadsHisOwnOutcome: neither his answer nor his span looks at results that the committer goes on writing,
// and the answer tells that it was he who left, not the database.
func TestACallerWhoWaitsNoLongerReadsHisOwnOutcome(t *testing.T) {
	t.Parallel()
	spans := tracetest.NewSpanRecorder()
	tracer := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)).Tracer("test")
	counts, err := newMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	s := &Store{
		cfg: Config{Tracer: tracer, QueueBytes: 1 << 20}, metrics: counts, queue: make(chan *request),
		bytes: semaphore.NewWeighted(1 << 20), ended: make(chan struct{}),
	}
	ctx, root := tracer.Start(t.Context(), "root")
	defer root.End()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answered, committed := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(committed)
		r := <-s.queue
		r.claim()
		cancel()
		for { // as apply does
			r.results[0] = store.Result{Revision: 7}
			select {
			case <-answered:
				close(r.done)
				return
			default:
			}
		}
	}()
	result := s.Write(ctx, store.Write{Op: store.Create, Key: "/a", Value: []byte("v")})
	close(answered)
	<-committed
	if !errors.Is(result.Err, store.ErrUnknownOutcome) {
		t.Errorf("%+v, want an unknown outcome", result)
	}
	if !errors.Is(result.Err, context.Canceled) || errors.Is(result.Err, store.ErrUnavailable) {
		t.Errorf("%v, want one that the caller brought about", result.Err)
	}
	ended := spans.Ended()
	if len(ended) != 1 || ended[0].Status().Code != codes.Error {
		t.Errorf("spans %v, want one that tells of the error", ended)
	}
}
