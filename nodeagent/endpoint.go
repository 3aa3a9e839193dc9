package nodeagent

import (
	"crypto/tls"
	"errors"
	"net"
	"path/filepath"
	"runtime"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"howdah.dev/nodeagent/internal/access"
	"howdah.dev/nodeagent/internal/cgroup"
	"howdah.dev/nodeagent/internal/endpoint"
	"howdah.dev/nodeagent/internal/probe"
	"howdah.dev/nodeagent/internal/stream"
	"howdah.dev/nodeagent/internal/usage"
)

// newEndpoint joins what a kubelet's endpoint tells. Without an Endpoint in the configuration it opens no port, and answers API servers
// over the node API alone.
func (a *Agent) newEndpoint(groups *cgroup.Tree, probes *probeMetrics) *endpoint.Server {
	cfg := a.cfg
	config := endpoint.Config{
		NodeName: cfg.NodeName, Version: Version, Streams: a.streams, Registerer: cfg.Registerer, Probes: []prometheus.Collector{probes.results},
		Pods: func() []*corev1.Pod { return a.pods.List("") }, Pod: a.pods.Get, Cores: runtime.NumCPU(), LogDir: "/var/log", Settings: cfg.settings(),
		Usage: usage.New(usage.Config{
			Runtime: a.runtime.Runtime, Images: a.runtime.Images, Groups: groups, Pod: a.pods.Get, Proc: "/proc", RootDir: cfg.RootDir, LogDir: cfg.LogDir,
			Root: "/", Pods: filepath.Join("/", cfg.CgroupPrefix, "kubepods"), Clock: cfg.Clock,
		}),
		Healthy: func() error {
			select {
			case <-a.working:
				return nil
			default:
				return errors.New("the agent does not take care of its pods yet")
			}
		},
	}
	config.Gatherer, _ = cfg.Registerer.(prometheus.Gatherer)
	if e := cfg.Endpoint; e != nil {
		config.Addresses, config.TLS, config.LogDir = cfg.on(e.Port), e.TLS, e.LogDir
		if e.ReadOnlyPort != 0 {
			config.ReadOnly = cfg.on(e.ReadOnlyPort)
		}
		decisions := prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "howdah_nodeagent_access_total", Help: "Callers of the HTTPS endpoint, by what was decided of them.",
		}, []string{"outcome"})
		cfg.Registerer.MustRegister(decisions)
		config.Guard = access.New(access.Config{
			NodeName: cfg.NodeName, Authorities: e.TLS.ClientCAs, Trusted: stream.Callers, Anonymous: e.Anonymous, Reviewer: access.API{Client: cfg.Objects},
			Clock: cfg.Clock, Decided: func(outcome string) { decisions.WithLabelValues(outcome).Inc() },
		})
	}
	return endpoint.New(config)
}

// on names a port on each of the node's addresses.
func (c Config) on(port int32) []string {
	var out []string
	for _, ip := range c.hostIPs() {
		out = append(out, net.JoinHostPort(ip, strconv.Itoa(int(port))))
	}
	return out
}

// settings are what /configz tells, by a kubelet's names.
func (c Config) settings() map[string]any {
	s := map[string]any{
		"kind": "KubeletConfiguration", "apiVersion": "kubelet.config.k8s.io/v1beta1", "address": c.NodeIP, "clusterDNS": c.ClusterDNS,
		"clusterDomain": c.ClusterDomain, "maxPods": c.MaxPods, "allowedUnsafeSysctls": c.AllowedUnsafeSysctls, "evictionHardThresholds": c.EvictionHard,
		"containerRuntimeEndpoint": c.RuntimeEndpoint, "cgroupDriver": "cgroupfs", "podLogsDir": c.LogDir, "resolvConf": c.ResolvConf,
		"nodeStatusUpdateFrequency": "10s", "syncFrequency": c.RefreshEvery.String(),
	}
	if e := c.Endpoint; e != nil {
		s["port"], s["readOnlyPort"] = e.Port, e.ReadOnlyPort
		s["authentication"] = map[string]any{
			"anonymous": map[string]any{"enabled": e.Anonymous}, "webhook": map[string]any{"enabled": true, "cacheTTL": "2m0s"},
		}
		s["authorization"] = map[string]any{
			"mode": "Webhook", "webhook": map[string]any{"cacheAuthorizedTTL": "5m0s", "cacheUnauthorizedTTL": "30s"},
		}
		s["tlsMinVersion"] = tls.VersionName(max(e.TLS.MinVersion, tls.VersionTLS12))
	}
	return s
}

// probeMetrics are those of /metrics/probes: by container, while its pod is there.
type probeMetrics struct{ results *prometheus.CounterVec }

func newProbeMetrics() *probeMetrics {
	return &probeMetrics{prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "prober_probe_total", Help: "Probes, by container, type and result.",
	}, []string{"probe_type", "result", "container", "pod", "namespace", "pod_uid"})}
}

func (m *probeMetrics) probed(t probe.Target, kind probe.Kind, result string) {
	m.results.WithLabelValues(string(kind), result, t.Container.Name, t.Pod.Name, t.Pod.Namespace, string(t.Pod.UID)).Inc()
}

func (m *probeMetrics) forget(p *corev1.Pod) {
	m.results.DeletePartialMatch(prometheus.Labels{"pod_uid": string(p.UID)})
}
