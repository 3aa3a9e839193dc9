// Package kind is the table of the kinds that the API serves. A kind is one
// small file here, or a package below where it is big.
package kind

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/services/apiserver/internal/kind/admissionregistration"
	"howdah.dev/services/apiserver/internal/kind/apiservice"
	"howdah.dev/services/apiserver/internal/kind/autoscaler"
	"howdah.dev/services/apiserver/internal/kind/beta"
	"howdah.dev/services/apiserver/internal/kind/claim"
	"howdah.dev/services/apiserver/internal/kind/daemonset"
	"howdah.dev/services/apiserver/internal/kind/definition"
	"howdah.dev/services/apiserver/internal/kind/deployment"
	"howdah.dev/services/apiserver/internal/kind/device"
	"howdah.dev/services/apiserver/internal/kind/endpointslice"
	"howdah.dev/services/apiserver/internal/kind/event"
	"howdah.dev/services/apiserver/internal/kind/flowcontrol"
	"howdah.dev/services/apiserver/internal/kind/job"
	"howdah.dev/services/apiserver/internal/kind/networking"
	"howdah.dev/services/apiserver/internal/kind/node"
	"howdah.dev/services/apiserver/internal/kind/pod"
	"howdah.dev/services/apiserver/internal/kind/preview"
	"howdah.dev/services/apiserver/internal/kind/quota"
	"howdah.dev/services/apiserver/internal/kind/rbac"
	"howdah.dev/services/apiserver/internal/kind/replicaset"
	"howdah.dev/services/apiserver/internal/kind/service"
	"howdah.dev/services/apiserver/internal/kind/statefulset"
	"howdah.dev/services/apiserver/internal/kind/storage"
	"howdah.dev/services/apiserver/internal/registry"
)

// Config is what the kinds need to know of the cluster.
type Config struct {
	// Now is the clock, for ages in tables and for the times of bindings.
	Now func() time.Time
	// ServiceFamilies are the address families of Services, the default one
	// first; empty is IPv4 alone.
	ServiceFamilies []corev1.IPFamily
	// Features are the feature gates that are on.
	Features map[string]bool
}

// All returns every kind, in the order of discovery.
func All(cfg Config) []*registry.Kind {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	now := cfg.Now
	return gate(orphan(answer(beta.Add(slices.Concat([]*registry.Kind{
		namespace(now),
		node.Kind(now),
		pod.Kind(now),
		service.Kind(service.Config{Now: now, Families: cfg.ServiceFamilies}),
		endpoints(now),
		configMap(now),
		secret(now),
		serviceAccount(now),
		event.Kind(now),
		deployment.Kind(now),
		replicaset.Kind(now),
		endpointslice.Kind(now),
		lease(now),
		priorityClass(now),
		replicationController(now),
		podTemplate(),
		claim.Kind(now),
		statefulset.Kind(now),
		daemonset.Kind(now),
		controllerRevision(now),
		job.Kind(now),
		job.Cron(now),
		autoscaler.Kind(now, cfg.Features[autoscaler.FeatureToZero]),
		disruptionBudget(now),
		quota.Kind(now),
		quota.LimitRange(),
		runtimeClass(now),
		certificateSigningRequest(now),
		apiservice.Kind(now),
		definition.Kind(now),
	},
		admissionregistration.Kinds(now),
		rbac.Kinds(now),
		networking.Kinds(now),
		storage.Kinds(now),
		flowcontrol.Kinds(now),
		device.Kinds(now),
		preview.Kinds(now),
	)))), cfg.Features)
}
