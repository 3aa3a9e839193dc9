package apiserver

import (
	"cmp"
	"context"
	"strings"

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
	s.front = front.New(front.Config{Authenticator: authenticator, Flow: s.flow, Count: s.count, Audit: s.audit, Authorizer: authorizer, Panics: metrics.Panics, Other: s.counted(metrics), Document: metrics.Document})
	return maxReads, maxWrites
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
