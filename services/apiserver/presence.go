package apiserver

import (
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/release"
	"howdah.dev/services/apiserver/internal/cache"
	"howdah.dev/services/apiserver/internal/presence"
)

// announce makes the server show itself as a Lease in kube-system, if it has an identity.
func (s *Server) announce() {
	if s.cfg.Identity == "" {
		return
	}
	keeper := presence.New(presence.Config{
		API: s.objects, Hostname: s.cfg.Identity, Gateways: s.cfg.GatewayEndpoints, Version: release.Version(), Clock: s.cfg.Clock, Leases: s.leases(),
	})
	s.background = append(s.background, func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.ready:
			return keeper.Run(ctx)
		}
	})
}

// identified registers metrics that say by a hash, as Kubernetes' do, which server they are of; nil where nothing takes metrics.
func (cfg *Config) identified() prometheus.Registerer {
	if cfg.Registerer == nil {
		return nil
	}
	hash := ""
	if cfg.Identity != "" {
		hash = fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(presence.Name(cfg.Identity))))
	}
	return prometheus.WrapRegistererWith(prometheus.Labels{"apiserver_id_hash": hash}, cfg.Registerer)
}

// leases returns what lists the Leases of kube-system, as the cache has them.
func (s *Server) leases() func() []*coordinationv1.Lease {
	kind := s.known.Table.FindKind(coordinationv1.SchemeGroupVersion.WithKind("Lease")).Kind
	return func() []*coordinationv1.Lease {
		var all []*coordinationv1.Lease
		for _, item := range s.cache.For(kind).List(cache.Query{Namespace: metav1.NamespaceSystem}).Items {
			if obj, err := item.Object(); err == nil {
				all = append(all, obj.(*coordinationv1.Lease))
			}
		}
		return all
	}
}
