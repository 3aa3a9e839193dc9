package nodeagent

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"maps"
	"net"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"howdah.dev/kit/release"
	"howdah.dev/kit/task"
	"howdah.dev/nodeagent/internal/access"
	"howdah.dev/nodeagent/internal/endpoint"
	"howdah.dev/nodeagent/internal/nodelog"
	"howdah.dev/nodeagent/internal/probe"
	"howdah.dev/nodeagent/internal/serving"
	"howdah.dev/nodeagent/internal/stream"
)

// newEndpoint joins what a kubelet's endpoint tells. Without an Endpoint in the configuration it opens no port, and answers API servers
// over the node API alone.
func (a *Agent) newEndpoint(probes *probeMetrics) *endpoint.Server {
	cfg := a.cfg
	config := endpoint.Config{
		NodeName: cfg.NodeName, Version: release.Version(), Streams: a.streams, Registerer: cfg.Registerer, Probes: []prometheus.Collector{probes.results, probes.seconds},
		Pods: func() []*corev1.Pod { return a.running.List() }, Pod: a.running.Get, Cores: runtime.NumCPU(), LogDir: "/var/log", Settings: cfg.settings(), Flags: cfg.Flags, Clock: cfg.Clock,
		Usage: a.usage,
		Healthy: func() error {
			select {
			case <-a.working:
				return nil
			default:
				return errors.New("the agent does not take care of its pods yet")
			}
		},
	}
	if cfg.SystemLogQuery {
		config.Journal = nodelog.Journalctl
	}
	config.Gatherer, _ = cfg.Registerer.(prometheus.Gatherer)
	if e := cfg.Endpoint; e != nil {
		config.Addresses, config.TLS, config.LogDir, config.Health = cfg.on(e.Port), e.TLS, e.LogDir, e.Health
		if e.RotateServerCertificates {
			config.TLS = a.rotating(e)
		}
		if e.ReadOnlyPort != 0 {
			config.ReadOnly = cfg.on(e.ReadOnlyPort)
		}
		decisions := prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "howdah_nodeagent_access_total", Help: "Callers of the HTTPS endpoint, by what was decided of them.",
		}, []string{"outcome"})
		cfg.Registerer.MustRegister(decisions)
		guard := access.Config{
			NodeName: cfg.NodeName, Authorities: func() *x509.CertPool { return e.Authorities.Now().Pool }, Trusted: stream.Callers, Anonymous: e.Anonymous, Reviewer: access.API{Client: cfg.Objects},
			Clock: cfg.Clock, Decided: func(outcome string) { decisions.WithLabelValues(outcome).Inc() },
		}
		if e.ClientCAs != nil {
			guard.Others = func() *x509.CertPool { return e.ClientCAs.Now().Pool }
		}
		config.Guard = access.New(guard)
	}
	return endpoint.New(config)
}

// runEndpoint serves, and keeps what it shows of itself.
func (a *Agent) runEndpoint(ctx context.Context) error {
	if a.serving == nil {
		return a.endpoint.Run(ctx)
	}
	return task.Run(ctx, a.endpoint.Run, a.serving.Run)
}

// rotating is a configuration that shows the certificate that the agent is given on request.
func (a *Agent) rotating(e *Endpoint) *tls.Config {
	own := e.TLS
	a.serving = serving.New(serving.Config{
		NodeName: a.cfg.NodeName, Dir: filepath.Join(a.cfg.KubeletDir, "pki"), Client: a.cfg.Objects, Clock: a.cfg.Clock, Registerer: a.cfg.Registerer, Authorities: e.Authorities,
		Otherwise: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			if own.GetCertificate != nil {
				return own.GetCertificate(hello)
			}
			if len(own.Certificates) == 0 {
				return nil, errors.New("the node has no certificate yet")
			}
			return &own.Certificates[0], nil
		},
	})
	a.nodes.AddHandler(func(_, now *corev1.Node) {
		if now != nil {
			a.serving.Update(now)
		}
	})
	out := own.Clone()
	out.Certificates, out.GetCertificate = nil, a.serving.Certificate
	return out
}

// on names a port on each of the node's addresses, and on its loopback, for programs of the node itself.
func (c Config) on(port int32) []string {
	var out []string
	for _, ip := range append(c.hostIPs(), "127.0.0.1") {
		if slices.Contains(out, net.JoinHostPort(ip, strconv.Itoa(int(port)))) {
			continue
		}
		out = append(out, net.JoinHostPort(ip, strconv.Itoa(int(port))))
	}
	return out
}

// fixedSettings are those of a kubelet that the agent has not as settings, but does as they say.
var fixedSettings = map[string]any{
	"cgroupsPerQOS": true, "contentType": "application/vnd.kubernetes.protobuf", "cpuCFSQuotaPeriod": "100ms",
	"enableControllerAttachDetach": true, "enableDebugFlagsHandler": true, "enableDebuggingHandlers": true, "enableProfilingHandler": true, "enableServer": true,
	"localStorageCapacityIsolation": true, "failCgroupV1": false, "failSwapOn": false, "makeIPTablesUtilChains": false,
}

// settings are what /configz tells, by a kubelet's names.
func (c Config) settings() map[string]any {
	s := map[string]any{
		"kind": "KubeletConfiguration", "apiVersion": "kubelet.config.k8s.io/v1beta1", "address": c.NodeIP, "clusterDNS": c.ClusterDNS,
		"clusterDomain": c.ClusterDomain, "maxPods": c.MaxPods, "allowedUnsafeSysctls": c.AllowedUnsafeSysctls, "evictionHard": byName(c.EvictionHard, "<"),
		"evictionSoft": byName(c.Eviction.Soft, "<"), "evictionSoftGracePeriod": byName(c.Eviction.SoftGrace, "="), "evictionMaxPodGracePeriod": c.Eviction.MaxPodGrace,
		"evictionMinimumReclaim": byName(c.Eviction.MinimumReclaim, "="), "evictionPressureTransitionPeriod": c.Eviction.Transition.String(),
		"mergeDefaultEvictionSettings": c.Eviction.MergeDefaults,
		"containerRuntimeEndpoint":     c.RuntimeEndpoint, "cgroupDriver": "cgroupfs", "podLogsDir": c.LogDir, "resolvConf": c.ResolvConf,
		"imageGCHighThresholdPercent": c.KeepImages.High, "imageGCLowThresholdPercent": c.KeepImages.Low,
		"imageMinimumGCAge": c.KeepImages.Least.String(), "imageMaximumGCAge": c.KeepImages.Most.String(),
		"crashLoopBackOff":       map[string]any{"maxContainerRestartPeriod": c.MaxContainerRestartPeriod.String()},
		"enableSystemLogHandler": true, "enableSystemLogQuery": c.SystemLogQuery,
		"memorySwap": map[string]any{"swapBehavior": c.SwapBehavior}, "syncFrequency": c.RefreshEvery.String(), "volumeStatsAggPeriod": c.VolumeStatsEvery.String(),
	}
	s["kubeReserved"], s["systemReserved"], s["enforceNodeAllocatable"] = c.Reserve.Kube, c.Reserve.System, c.Reserve.Enforcing()
	s["podPidsLimit"], s["podsPerCore"], s["cpuCFSQuota"], s["seccompDefault"] = cmp.Or(c.PodPIDs, -1), c.PodsPerCore, !c.NoCPUQuota, c.SeccompDefault
	s["containerLogMaxSize"], s["containerLogMaxFiles"] = resource.NewQuantity(c.LogBounds.Size, resource.BinarySI).String(), c.LogBounds.Files
	s["containerLogMaxWorkers"], s["containerLogMonitorInterval"] = c.LogBounds.Workers, c.LogBounds.Every.String()
	s["nodeStatusUpdateFrequency"], s["nodeStatusReportFrequency"], s["nodeStatusMaxImages"] = c.Pace.Look.String(), c.Pace.Tell.String(), c.Pace.Images
	s["nodeLeaseDurationSeconds"] = int(c.Pace.Lease / time.Second)
	s["protectKernelDefaults"] = c.Kernel == ProtectKernel
	s["serializeImagePulls"], s["registerNode"], s["registerWithTaints"] = c.ParallelPulls == 1, true, c.Taints
	if c.ParallelPulls > 0 {
		s["maxParallelImagePulls"] = c.ParallelPulls
	}
	maps.Copy(s, fixedSettings)
	c.Manifests.settings(s)
	c.Managers.settings(s)
	if e := c.Endpoint; e != nil {
		s["port"], s["readOnlyPort"], s["serverTLSBootstrap"] = e.Port, e.ReadOnlyPort, e.RotateServerCertificates
		s["authentication"] = map[string]any{
			"anonymous": map[string]any{"enabled": e.Anonymous}, "webhook": map[string]any{"enabled": true, "cacheTTL": "2m0s"},
		}
		s["authorization"] = map[string]any{
			"mode": "Webhook", "webhook": map[string]any{"cacheAuthorizedTTL": "5m0s", "cacheUnauthorizedTTL": "30s"},
		}
		if host, port, err := net.SplitHostPort(e.Health); err == nil {
			number, _ := strconv.Atoi(port)
			s["healthzBindAddress"], s["healthzPort"] = host, number
		}
		var suites []string
		for _, id := range e.TLS.CipherSuites {
			suites = append(suites, tls.CipherSuiteName(id))
		}
		s["tlsCipherSuites"] = suites
		s["tlsMinVersion"] = "Version" + strings.NewReplacer(" ", "", ".", "").Replace(tls.VersionName(max(e.TLS.MinVersion, tls.VersionTLS12)))
	}
	return s
}

// byName takes a list of name, sign, and value apart.
func byName(list, sign string) map[string]string {
	out := map[string]string{}
	for item := range strings.SplitSeq(list, ",") {
		if name, value, ok := strings.Cut(item, sign); ok {
			out[name] = value
		}
	}
	return out
}

// probeMetrics are those of /metrics/probes: by container, while its pod is there.
type probeMetrics struct {
	results *prometheus.CounterVec
	seconds *prometheus.HistogramVec
}

func newProbeMetrics() *probeMetrics {
	return &probeMetrics{
		results: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "prober_probe_total", Help: "Probes, by container, type and result.",
		}, []string{"probe_type", "result", "container", "pod", "namespace", "pod_uid"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "prober_probe_duration_seconds", Help: "How long probes took that did not fail, by container and type.", Buckets: prometheus.DefBuckets,
		}, []string{"probe_type", "container", "pod", "namespace"}),
	}
}

func (m *probeMetrics) probed(t probe.Target, kind probe.Kind, result string, took time.Duration) {
	if result != "failed" { // as a kubelet does
		m.seconds.WithLabelValues(string(kind), t.Container.Name, t.Pod.Name, t.Pod.Namespace).Observe(took.Seconds())
	}
	m.results.WithLabelValues(string(kind), result, t.Container.Name, t.Pod.Name, t.Pod.Namespace, string(t.Pod.UID)).Inc()
}

func (m *probeMetrics) forget(p *corev1.Pod) {
	m.results.DeletePartialMatch(prometheus.Labels{"pod_uid": string(p.UID)})
	m.seconds.DeletePartialMatch(prometheus.Labels{"namespace": p.Namespace, "pod": p.Name})
}
