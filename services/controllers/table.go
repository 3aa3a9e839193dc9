package controllers

import (
	"fmt"
	"slices"
	"strings"

	"howdah.dev/services/controllers/internal/accounttoken"
	"howdah.dev/services/controllers/internal/attachdetach"
	"howdah.dev/services/controllers/internal/bootstraptoken"
	"howdah.dev/services/controllers/internal/certificate"
	"howdah.dev/services/controllers/internal/cloudnode"
	"howdah.dev/services/controllers/internal/cloudnodelifecycle"
	"howdah.dev/services/controllers/internal/clusterroleaggregation"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/cronjob"
	"howdah.dev/services/controllers/internal/daemonset"
	"howdah.dev/services/controllers/internal/deployment"
	"howdah.dev/services/controllers/internal/devicetainteviction"
	"howdah.dev/services/controllers/internal/disruption"
	"howdah.dev/services/controllers/internal/endpoints"
	"howdah.dev/services/controllers/internal/endpointslice"
	"howdah.dev/services/controllers/internal/endpointslicemirroring"
	"howdah.dev/services/controllers/internal/ephemeralvolume"
	"howdah.dev/services/controllers/internal/garbage"
	"howdah.dev/services/controllers/internal/job"
	"howdah.dev/services/controllers/internal/layer2"
	"howdah.dev/services/controllers/internal/legacytoken"
	"howdah.dev/services/controllers/internal/localpath"
	"howdah.dev/services/controllers/internal/namespace"
	"howdah.dev/services/controllers/internal/nodeipam"
	"howdah.dev/services/controllers/internal/nodelifecycle"
	"howdah.dev/services/controllers/internal/nodettl"
	"howdah.dev/services/controllers/internal/persistentvolume"
	"howdah.dev/services/controllers/internal/podautoscaler"
	"howdah.dev/services/controllers/internal/podgc"
	"howdah.dev/services/controllers/internal/podgroup"
	"howdah.dev/services/controllers/internal/policystatus"
	"howdah.dev/services/controllers/internal/replicaset"
	"howdah.dev/services/controllers/internal/replicationcontroller"
	"howdah.dev/services/controllers/internal/resourceclaim"
	"howdah.dev/services/controllers/internal/resourcequota"
	"howdah.dev/services/controllers/internal/rootca"
	"howdah.dev/services/controllers/internal/serviceaccount"
	"howdah.dev/services/controllers/internal/serviceaddress"
	"howdah.dev/services/controllers/internal/servicecidr"
	"howdah.dev/services/controllers/internal/servicelb"
	"howdah.dev/services/controllers/internal/statefulset"
	"howdah.dev/services/controllers/internal/storagemigration"
	"howdah.dev/services/controllers/internal/storageversion"
	"howdah.dev/services/controllers/internal/tainteviction"
	"howdah.dev/services/controllers/internal/ttlafterfinished"
	"howdah.dev/services/controllers/internal/volumeexpand"
	"howdah.dev/services/controllers/internal/volumeprotection"
	"howdah.dev/services/controllers/internal/volumerecycler"
)

// row is one controller.
type row struct {
	group string // workloads, network, nodes, storage, identity, lifecycle or cloud
	name  string
	alias string // Kubernetes' name for --controllers
	build func(env *controller.Env, s *Server) (controller.Unit, error)
}

// table lists every controller, with what it measures. A new one is a folder and a row.
func table(m *measures) []row {
	return []row{
		{"workloads", "deployment", "deployment-controller", simple(deployment.New)},
		{"workloads", "replicaset", "replicaset-controller", measured(replicaset.New, m.replicas)},
		{"workloads", "replicationcontroller", "replicationcontroller-controller", measured(replicationcontroller.New, m.replicas)},
		{"workloads", "statefulset", "statefulset-controller", measured(statefulset.New, m.sets)},
		{"workloads", "cronjob", "cronjob-controller", measured(cronjob.New, m.skew)},
		{"workloads", "daemonset", "daemonset-controller", measured(daemonset.New, m.daemons)},
		{"workloads", "job", "job-controller", measured(job.New, m.jobs)},
		{"workloads", "ttlafterfinished", "ttl-after-finished-controller", measured(ttlafterfinished.New, m.late)},
		{"network", "endpoints", "endpoints-controller", simple(endpoints.New)},
		{"network", "endpointslice", "endpointslice-controller", measured(endpointslice.New, m.slices)},
		{"network", "endpointslicemirroring", "endpointslice-mirroring-controller", measured(endpointslicemirroring.New, m.mirrors)},
		{"network", "servicecidr", "service-cidr-controller", simple(servicecidr.New)},
		{"network", "serviceaddress", "ipallocator-repair-controller", simple(serviceaddress.New)},
		{"nodes", "nodeipam", "node-ipam-controller", func(env *controller.Env, s *Server) (controller.Unit, error) {
			if len(s.cidrs) == 0 {
				return controller.Unit{}, nil
			}
			return nodeipam.New(env, s.cidrs, s.masks, m.ranges)
		}},
		{"nodes", "nodelifecycle", "node-lifecycle-controller", func(env *controller.Env, s *Server) (controller.Unit, error) {
			return nodelifecycle.New(env, s.cfg.nodes(), m.nodes), nil
		}},
		{"nodes", "nodettl", "ttl-controller", simple(nodettl.New)},
		{"nodes", "tainteviction", "taint-eviction-controller", measured(tainteviction.New, m.taints)},
		{"workloads", "disruption", "disruption-controller", simple(disruption.New)},
		{"storage", "persistentvolume", "persistentvolume-binder-controller", func(env *controller.Env, s *Server) (controller.Unit, error) {
			return persistentvolume.New(env, m.volumes, s.runs("volumerecycler")), nil
		}},
		{"storage", "ephemeralvolume", "ephemeral-volume-controller", measured(ephemeralvolume.New, m.ephemeral)},
		{"storage", "localpath", "local-path-provisioner", simple(localpath.New)},
		{"storage", "volumerecycler", "persistentvolume-recycler-controller", func(env *controller.Env, s *Server) (controller.Unit, error) {
			return volumerecycler.New(env, s.cfg.RecyclerImage)
		}},
		{"storage", "attachdetach", "persistentvolume-attach-detach-controller", measured(attachdetach.New, m.attached)},
		{"storage", "volumeexpand", "persistentvolume-expander-controller", simple(volumeexpand.New)},
		{"workloads", "podautoscaler", "horizontal-pod-autoscaler-controller", func(env *controller.Env, s *Server) (controller.Unit, error) {
			return podautoscaler.New(env, s.cfg.Autoscaling.internal(), m.scaling)
		}},
		{"storage", "volumeprotection", "persistentvolumeclaim-protection-controller", simple(volumeprotection.New)},
		{"workloads", "podgroup", "podgroup-protection-controller", simple(podgroup.New)},
		{"workloads", "resourceclaim", "resourceclaim-controller", measured(resourceclaim.New, m.claims)},
		{"workloads", "devicetainteviction", "device-taint-eviction-controller", measured(devicetainteviction.New, m.devices)},
		{"storage", "storagemigration", "storage-version-migrator-controller", simple(storagemigration.New)},
		{"storage", "storageversion", "storageversion-garbage-collector-controller", simple(storageversion.New)},
		{"lifecycle", "podgc", "pod-garbage-collector-controller", func(env *controller.Env, s *Server) (controller.Unit, error) {
			return podgc.New(env, s.cfg.TerminatedPodGCThreshold, m.leftovers), nil
		}},
		{"lifecycle", "namespace", "namespace-controller", simple(namespace.New)},
		{"lifecycle", "garbagecollector", "garbage-collector-controller", measured(garbage.New, m.garbage)},
		{"lifecycle", "resourcequota", "resourcequota-controller", simple(resourcequota.New)},
		{"lifecycle", "policystatus", "validatingadmissionpolicy-status-controller", simple(policystatus.New)},
		{"identity", "serviceaccount", "serviceaccount-controller", simple(serviceaccount.New)},
		{"identity", "rootca", "root-ca-certificate-publisher-controller", func(env *controller.Env, s *Server) (controller.Unit, error) {
			if s.cfg.RootCA == nil {
				return controller.Unit{}, nil
			}
			return rootca.New(env, s.cfg.RootCA, m.rootCA), nil
		}},
		{"identity", "trustbundle", "kube-apiserver-serving-clustertrustbundle-publisher-controller", func(env *controller.Env, s *Server) (controller.Unit, error) {
			if s.cfg.RootCA == nil || !s.cfg.TrustBundles {
				return controller.Unit{}, nil
			}
			return rootca.NewBundle(env, s.cfg.RootCA, m.trust), nil
		}},
		{"identity", "accounttoken", "serviceaccount-token-controller", func(env *controller.Env, s *Server) (controller.Unit, error) {
			return accounttoken.New(env, s.cfg.RootCA), nil
		}},
		{"identity", "legacytoken", "legacy-serviceaccount-token-cleaner-controller", func(env *controller.Env, s *Server) (controller.Unit, error) {
			return legacytoken.New(env, s.cfg.LegacyTokenPeriod), nil
		}},
		{"identity", "bootstrapsigner", "bootstrap-signer-controller", simple(bootstraptoken.NewSigner)},
		{"identity", "tokencleaner", "token-cleaner-controller", simple(bootstraptoken.NewCleaner)},
		{"identity", "csrsigning", "certificatesigningrequest-signing-controller", func(env *controller.Env, s *Server) (controller.Unit, error) {
			if s.cfg.Signing == nil {
				return controller.Unit{}, nil
			}
			return certificate.NewSigning(env, s.cfg.Signing, s.cfg.SigningDuration), nil
		}},
		{"identity", "csrapproving", "certificatesigningrequest-approving-controller", simple(certificate.NewApproving)},
		{"identity", "csrcleaner", "certificatesigningrequest-cleaner-controller", simple(certificate.NewCleaning)},
		{"identity", "podcertificatecleaner", "podcertificaterequest-cleaner-controller", simple(certificate.NewPodCleaning)},
		{"identity", "clusterroleaggregation", "clusterrole-aggregation-controller", simple(clusterroleaggregation.New)},
		{"cloud", "servicelb", "service-lb-controller", func(env *controller.Env, s *Server) (controller.Unit, error) {
			if len(s.cfg.LoadBalancerCIDRs) == 0 {
				return controller.Unit{}, nil
			}
			return servicelb.New(env, layer2.NewProvider(env, s.addresses), layer2.Owns, m.balancers), nil
		}},
		{"cloud", "loadbalancerannouncer", "load-balancer-announcer", func(env *controller.Env, s *Server) (controller.Unit, error) {
			if len(s.cfg.LoadBalancerCIDRs) == 0 {
				return controller.Unit{}, nil
			}
			return layer2.NewAnnouncer(env), nil
		}},
		{"cloud", "cloudnode", "cloud-node-controller", func(env *controller.Env, s *Server) (controller.Unit, error) {
			if len(s.cfg.LoadBalancerCIDRs) == 0 {
				return controller.Unit{}, nil
			}
			return cloudnode.New(env, layer2.Machines{Networks: layer2.Networks}, m.machines), nil
		}},
		{"cloud", "cloudnodelifecycle", "cloud-node-lifecycle-controller", func(env *controller.Env, s *Server) (controller.Unit, error) {
			if len(s.cfg.LoadBalancerCIDRs) == 0 {
				return controller.Unit{}, nil
			}
			return cloudnodelifecycle.New(env, layer2.Machines{Networks: layer2.Networks}), nil
		}},
	}
}

// simple is the build of a controller that needs only its environment.
func simple(new func(*controller.Env) controller.Unit) func(*controller.Env, *Server) (controller.Unit, error) {
	return func(env *controller.Env, _ *Server) (controller.Unit, error) { return new(env), nil }
}

// measured is the build of a controller that needs its metrics besides.
func measured[M any](new func(*controller.Env, M) controller.Unit, metrics M) func(*controller.Env, *Server) (controller.Unit, error) {
	return func(env *controller.Env, _ *Server) (controller.Unit, error) { return new(env, metrics), nil }
}

// selectRows returns the rows that the text enables. Items apply in order:
// "*" is every row, a name or group adds, with a leading "-" it removes. A
// text that begins by removing starts from every row. Optional rows take
// their own name, or Kubernetes'.
func selectRows(all []row, text string) ([]row, error) {
	items := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
	on := map[string]bool{}
	set := func(selects func(row) bool, value bool) bool {
		found := false
		for _, r := range all {
			if selects(r) {
				on[r.name], found = value, true
			}
		}
		return found
	}
	everything := func(r row) bool { return !optional(r.name) }
	if len(items) == 0 || strings.HasPrefix(items[0], "-") {
		set(everything, true)
	}
	var unknown []string
	for _, item := range items {
		name := strings.TrimLeft(item, "+-")
		selects := func(r row) bool {
			return r.name == name || r.alias == name || (name == "*" || r.group == name) && !optional(r.name)
		}
		if !set(selects, !strings.HasPrefix(item, "-")) {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		return nil, fmt.Errorf("no such controllers: %s (there are %s)", strings.Join(unknown, ", "), strings.Join(names(all), ", "))
	}
	return slices.DeleteFunc(slices.Clone(all), func(r row) bool { return !on[r.name] }), nil
}

// runs reports whether a controller is enabled.
func (s *Server) runs(name string) bool {
	return slices.ContainsFunc(s.rows, func(r row) bool { return r.name == name })
}

func names(rows []row) []string {
	var names []string
	for _, r := range rows {
		names = append(names, r.name)
	}
	return names
}
