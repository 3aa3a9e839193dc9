package apiserver

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/services/apiserver/internal/cache"
	"howdah.dev/services/apiserver/internal/codec"
	"howdah.dev/services/apiserver/internal/expiry"
)

// expire makes the server delete Events whose time is up.
func (s *Server) expire() {
	events := s.known.Table.FindKind(corev1.SchemeGroupVersion.WithKind("Event"))
	if s.cfg.EventTTL < 0 || events == nil {
		return
	}
	sweeper := expiry.New(expiry.Config{
		TTL: s.cfg.EventTTL, Log: s.store, Write: s.store.Write, Clock: s.cfg.Clock, Registerer: s.cfg.Registerer,
		Items: func() []*codec.Item { return s.cache.For(events.Kind).List(cache.Query{}).Items },
	})
	s.background = append(s.background, func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.ready:
			return sweeper.Run(ctx)
		}
	})
}
