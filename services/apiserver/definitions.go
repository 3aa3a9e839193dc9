package apiserver

import (
	"context"

	"howdah.dev/services/apiserver/internal/custom"
	"howdah.dev/services/apiserver/internal/definitions"
	"howdah.dev/services/apiserver/internal/registry"
)

// define makes the table and the cache follow the custom resource definitions.
func (s *Server) define(table *registry.Table) {
	s.follower = definitions.NewFollower(table, custom.Config{Now: s.cfg.Clock.Now, Meta: s.documents.Meta})
	s.cache.Define(s.follower)
}

// keepDefinitions writes the status of the definitions, and deletes the objects of those that are deleted.
func (s *Server) keepDefinitions(ctx context.Context) error {
	return (&definitions.Keeper{Follower: s.follower, API: s.objects, Cache: s.cache, Clock: s.cfg.Clock}).Run(ctx)
}
