package logs

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/protobuf/types/known/timestamppb"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/kit/rpc"
	logsv1 "howdah.dev/proto/gen/howdah/logs/v1"
	"howdah.dev/services/logs/internal/query"
	"howdah.dev/services/logs/internal/store"
)

// Bounds of a search.
const (
	defaultLimit, maxLimit = 100, 5000
	searchWithin           = 20 * time.Second
)

// Search implements logsv1.SearchServiceServer. Who asks the gateway has asked the API server about; nobody else may come.
func (s *Server) Search(ctx context.Context, r *logsv1.SearchRequest) (*logsv1.SearchResponse, error) {
	if peer, ok := rpc.Peer(ctx); !ok || !peer.In(gatewaysGroup) {
		return nil, apierrors.NewForbidden(schema.GroupResource{}, "", fmt.Errorf("User %q is no gateway: logs are searched through one", peer.Name))
	}
	q, err := asked(r, s.cfg.Clock.Now())
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	ctx, cancel := context.WithTimeout(ctx, searchWithin)
	defer cancel()
	page, err := s.store.Search(ctx, q)
	switch {
	case errors.Is(err, store.ErrTooMany):
		err = apierrors.NewBadRequest(err.Error())
	case errors.Is(err, store.ErrSlow):
		err = apierrors.NewTimeoutError(err.Error(), 0)
	case err != nil:
		err = unavailable(err)
	}
	if err != nil {
		s.metrics.searches.WithLabelValues("failed").Inc()
		return nil, err
	}
	s.metrics.searches.WithLabelValues("ok").Inc()
	s.metrics.scanned.Observe(float64(page.Scanned))
	trace.SpanFromContext(ctx).SetAttributes(attribute.Int("howdah.logs.lines", len(page.Lines)), attribute.Int64("howdah.logs.scanned", page.Scanned))
	return answer(q, page), nil
}

// asked reads a request.
func asked(r *logsv1.SearchRequest, now time.Time) (store.Search, error) {
	q := store.Search{
		Namespace: r.GetNamespace(), Pod: r.GetPod(), UID: r.GetPodUid(), Container: r.GetContainer(), Node: r.GetNode(), Limit: int(r.GetLimit()),
	}
	var err error
	if q.Labels, err = labels.Parse(r.GetLabelSelector()); err != nil {
		return q, fmt.Errorf("labelSelector: %w", err)
	}
	if q.Words, err = query.Parse(r.GetQuery()); err != nil {
		return q, fmt.Errorf("query: %w", err)
	}
	switch r.GetOrder() {
	case "", "desc":
		q.Newest = true
	case "asc":
	default:
		return q, fmt.Errorf("order: %q is neither asc nor desc", r.GetOrder())
	}
	switch {
	case q.Limit == 0:
		q.Limit = defaultLimit
	case q.Limit < 0 || q.Limit > maxLimit:
		return q, fmt.Errorf("limit: %d is not between 1 and %d", q.Limit, maxLimit)
	}
	if r.GetContinue() == "" {
		q.Window, err = query.ParseWindow(r.GetSince(), r.GetUntil(), now)
		return q, err
	}
	token, err := query.ParseToken(r.GetContinue())
	if err != nil {
		return q, fmt.Errorf("continue: %w", err)
	}
	q.Window, q.After = token.Window, &token.After
	return q, nil
}

func answer(q store.Search, page store.Page) *logsv1.SearchResponse {
	resp := &logsv1.SearchResponse{Scanned: page.Scanned}
	for i := range page.Lines {
		l := &page.Lines[i]
		resp.Lines = append(resp.Lines, &logsv1.Line{
			Time: timestamppb.New(l.Time), Namespace: l.Run.Namespace, Pod: l.Run.Pod, PodUid: l.Run.UID, Container: l.Run.Container, Node: l.Run.Node,
			RestartCount: l.Run.Restarts, Stream: stream(l.Source), Text: l.Text,
		})
	}
	if page.Next != nil {
		resp.Continue = query.Token{Window: q.Window, After: *page.Next}.String()
	}
	return resp
}

// stream is a source as users know it.
func stream(source int16) string {
	switch logsv1.Source(source) {
	case logsv1.Source_SOURCE_STDERR:
		return "stderr"
	case logsv1.Source_SOURCE_NOTE:
		return "howdah"
	}
	return "stdout"
}
