package apiserver

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"howdah.dev/services/apiserver/internal/discovery"
)

// steps are what has to be done before the server is ready, under the names that Kubernetes has for the like.
var steps = []string{
	"poststarthook/start-apiserver-admission-initializer", "poststarthook/generic-apiserver-start-informers",
	"poststarthook/priority-and-fairness-config-consumer", "poststarthook/priority-and-fairness-filter",
	"poststarthook/storage-object-count-tracker-hook", "poststarthook/start-apiextensions-informers", "poststarthook/start-apiextensions-controllers", "poststarthook/crd-informer-synced",
	"poststarthook/start-system-namespaces-controller", "poststarthook/start-cluster-authentication-info-controller",
	"poststarthook/start-kube-apiserver-identity-lease-controller", "poststarthook/start-kube-apiserver-identity-lease-garbage-collector",
	"poststarthook/storage-readiness", "poststarthook/start-legacy-token-tracking-controller", "poststarthook/start-service-ip-repair-controllers", "poststarthook/rbac/bootstrap-roles", "poststarthook/scheduling/bootstrap-system-priority-classes",
	"poststarthook/priority-and-fairness-config-producer", "poststarthook/bootstrap-controller",
	"poststarthook/start-kubernetes-service-cidr-controller", "poststarthook/start-kube-aggregator-informers",
	"poststarthook/apiservice-status-local-available-controller", "poststarthook/apiservice-status-remote-available-controller",
	"poststarthook/apiservice-registration-controller", "poststarthook/apiservice-discovery-controller",
	"poststarthook/kube-apiserver-autoregistration", "autoregister-completion",
	"poststarthook/apiservice-openapi-controller", "poststarthook/apiservice-openapiv3-controller",
}

// checks are the parts of the server's health, by the names that Kubernetes' probes ask for: etcd is the database, informer-sync the cache.
func (s *Server) checks(more []discovery.Check, database func(context.Context) error) []discovery.Check {
	good := func(context.Context) error { return nil }
	ready := func(context.Context) error { return s.notReady() }
	all := []discovery.Check{
		{Name: "ping", Live: true, Run: good}, {Name: "log", Live: true, Run: good},
		{Name: "etcd", Live: true, Run: database}, {Name: "etcd-readiness", Ready: true, Run: database}, {Name: "informer-sync", Ready: true, Run: ready},
	}
	for _, step := range steps {
		if s.does(step) { // a start that takes its time is no reason for another one
			all = append(all, discovery.Check{Name: step, Live: true, Run: ready, Alive: good})
		}
	}
	return slices.Concat(more, all, []discovery.Check{{Name: "shutdown", Ready: true, Run: s.stopping}})
}

// does reports whether the step is one of this server's.
func (s *Server) does(step string) bool {
	switch {
	case strings.Contains(step, "/rbac/"):
		return slices.Contains(s.cfg.AuthorizationModes, "RBAC")
	case strings.Contains(step, "identity-lease"):
		return s.cfg.Identity != ""
	case strings.Contains(step, "priority-and-fairness"):
		return !s.cfg.NoPriorityAndFairness
	}
	return true
}

// stopping fails once the server is being stopped, so that nobody new is sent here.
func (s *Server) stopping(context.Context) error {
	select {
	case <-s.stopped:
		return errors.New("process is shutting down")
	default:
		return nil
	}
}

// gatherer is where the metrics can be read again; nil where they cannot.
func (cfg *Config) gatherer() prometheus.Gatherer {
	g, _ := cfg.Registerer.(prometheus.Gatherer)
	return g
}

// tellBuild tells which version this is, under Kubernetes' name.
func (cfg *Config) tellBuild() {
	if cfg.Registerer == nil {
		return
	}
	v := discovery.Version
	build := prometheus.NewGauge(prometheus.GaugeOpts{Name: "kubernetes_build_info", Help: "The version, always 1.", ConstLabels: prometheus.Labels{
		"major": v.Major, "minor": v.Minor, "git_version": v.GitVersion, "git_commit": v.GitCommit, "git_tree_state": v.GitTreeState,
		"build_date": v.BuildDate, "go_version": v.GoVersion, "compiler": v.Compiler, "platform": v.Platform,
	}})
	build.Set(1)
	compatibility := prometheus.NewGauge(prometheus.GaugeOpts{Name: "version_info", Help: "The versions that the API is compatible with, always 1.", ConstLabels: prometheus.Labels{
		"component": "kube", "binary": strings.TrimSuffix(strings.TrimPrefix(v.GitVersion, "v"), "+howdah"),
		"emulation": v.EmulationMajor + "." + v.EmulationMinor, "min_compat": v.MinCompatibilityMajor + "." + v.MinCompatibilityMinor,
	}})
	compatibility.Set(1)
	cfg.Registerer.MustRegister(build, compatibility, newBorrowed())
}
