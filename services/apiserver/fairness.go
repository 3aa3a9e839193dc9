package apiserver

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"google.golang.org/grpc/metadata"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/kit/task"
	"howdah.dev/services/apiserver/internal/authz"
	"howdah.dev/services/apiserver/internal/flow"
	"howdah.dev/services/apiserver/internal/front"
	"howdah.dev/services/apiserver/internal/objects"
)

// share builds what stands before the services, and answers the limits that are left to the object service: none where
// requests are let in by priority and fairness.
func (s *Server) share(authenticator front.Authenticator, authorizer authz.Authorizer, metrics *objects.Metrics) (maxReads, maxWrites int) {
	source := flow.FromCache(s.known.Table, s.cache)
	s.keeper = flow.Keeper{Source: source, Fresh: s.cache.Fresh, Clock: s.cfg.Clock}
	maxReads, maxWrites = s.cfg.MaxReads, s.cfg.MaxWrites
	if !s.cfg.NoPriorityAndFairness {
		s.flow = flow.New(flow.Config{
			Seats: maxReads + maxWrites, RequestTimeout: s.cfg.RequestTimeout, Source: source, Clock: s.cfg.Clock, Metrics: flow.NewMetrics(s.cfg.Registerer),
		})
		maxReads, maxWrites = -1, -1
	}
	waits := promauto.With(s.cfg.Registerer).NewCounterVec(prometheus.CounterOpts{
		Name: "howdah_apiserver_decisive_waits_total", Help: "Calls that waited until what was decided before them was known here.",
	}, []string{"result"})
	s.front = front.New(front.Config{
		Know:          func(ctx context.Context) error { return s.know(ctx, waits) },
		Authenticator: authenticator, Flow: s.flow, Count: s.count, Audit: s.audit, Authorizer: authorizer, Panics: metrics.Panics, Other: s.counted(metrics), Document: metrics.Document,
	})
	return maxReads, maxWrites
}

// know waits until the caches have what was decided at a revision, as a call asks for that follows a write to another API server.
func (s *Server) know(ctx context.Context, waits *prometheus.CounterVec) error {
	values := metadata.ValueFromIncomingContext(ctx, objects.KnowKey)
	if len(values) == 0 {
		return nil
	}
	revision, err := strconv.ParseInt(values[0], 10, 64)
	if err != nil {
		return apierrors.NewBadRequest(objects.KnowKey + ": " + err.Error())
	}
	if s.cache.Applied() >= revision {
		return nil
	}
	if err := s.cache.WaitFor(ctx, revision); err != nil {
		waits.WithLabelValues("late").Inc()
		e := apierrors.NewServiceUnavailable(fmt.Sprintf("the API server does not know yet what was decided at revision %d, please try again", revision))
		e.ErrStatus.Details = &metav1.StatusDetails{RetryAfterSeconds: 1}
		return e
	}
	waits.WithLabelValues("known").Inc()
	return nil
}

// counted counts requests by labels that callers cannot make up.
func (s *Server) counted(metrics *objects.Metrics) func(verb, group, version, resource, subresource string, code int32) {
	verbs := map[string]string{"create": "POST", "update": "PUT"}
	return func(verb, group, version, resource, subresource string, code int32) {
		if s.known.Table.Find(schema.GroupVersionResource{Group: group, Version: version, Resource: resource}) == nil {
			group, version, resource, subresource = "", "", "", ""
		}
		metrics.Other(cmp.Or(verbs[verb], strings.ToUpper(verb)), group, version, resource, subresource, code)
	}
}

// count is the number of objects of a resource and of the bytes that they are stored as, 0 for one that is not served.
func (s *Server) count(group, version, resource string) (objects, bytes int) {
	res := s.known.Table.Find(schema.GroupVersionResource{Group: group, Version: version, Resource: resource})
	if res == nil {
		return 0, 0
	}
	if r := s.cache.For(res.Kind); r != nil {
		return r.Size()
	}
	return 0, 0
}

// runFlow looks after the flow schemas and divides the seats until ctx ends.
func (s *Server) runFlow(ctx context.Context) error {
	parts := []task.Func{s.keeper.Run}
	if s.flow != nil {
		parts = append(parts, s.flow.Run)
	}
	return task.Run(ctx, parts...)
}
