// Package federation carries objects of one API to several clusters, and brings back what becomes of them there. Its cluster has no nodes: what its users create are
// templates, policies say which clusters get what of them, and this role sees to it.
package federation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"k8s.io/utils/clock"

	"howdah.dev/kit/leading"
	"howdah.dev/kit/object"
	"howdah.dev/kit/reconcile"
	"howdah.dev/services/federation/api"
)

// Role is the name under which the federation elects its leader.
const Role = "federation"

// Config is what the role needs. Zero durations and counts mean the defaults.
type Config struct {
	Objects    *object.Client
	Leadership leading.Leadership
	Clock      clock.WithTicker
	Registerer prometheus.Registerer
	// Probe is how often a member is asked whether it is ready (10 s), ProbeTimeout how long it may take (5 s), and ProbeFailures how often in succession it has
	// to fail before it is not (3).
	Probe, ProbeTimeout time.Duration
	ProbeFailures       int
	// Inspect is how often a member is asked about its nodes, pods and kinds (30 s).
	Inspect time.Duration
	// Workers are how many objects are carried to one member at the same time (4).
	Workers int
}

// Server is the role.
type Server struct {
	cfg     Config
	metrics *metrics
	life    atomic.Pointer[life]
	ready   chan struct{} // closed when the definitions are there
}

// New returns the role; nothing runs until Run.
func New(cfg Config) (*Server, error) {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	for field, value := range map[*time.Duration]time.Duration{&cfg.Probe: 10 * time.Second, &cfg.ProbeTimeout: 5 * time.Second, &cfg.Inspect: 30 * time.Second} {
		if *field == 0 {
			*field = value
		}
	}
	for field, value := range map[*int]int{&cfg.ProbeFailures: 3, &cfg.Workers: 4} {
		if *field == 0 {
			*field = value
		}
	}
	if cfg.Probe < 0 || cfg.ProbeTimeout < 0 || cfg.Inspect < 0 || cfg.ProbeFailures < 0 || cfg.Workers < 0 {
		return nil, errors.New("federation: times and counts are positive")
	}
	s := &Server{cfg: cfg, metrics: newMetrics(cfg.Registerer), ready: make(chan struct{})}
	s.life.Store(newLife(&s.cfg, s.metrics))
	cfg.Registerer.MustRegister(collector{s})
	return s, nil
}

// Register implements what roles serve over gRPC: health alone.
func (s *Server) Register(grpc.ServiceRegistrar) {}

// Ready waits until the definitions are there and the caches are filled; false when ctx ends before.
func (s *Server) Ready(ctx context.Context) bool {
	select {
	case <-s.ready:
		return s.life.Load().informers.Wait(ctx)
	case <-ctx.Done():
		return false
	}
}

// installAgain is how long after a failure the definitions are applied again.
const installAgain = time.Second

// Run installs the definitions, follows the API until ctx ends, and carries while it leads.
func (s *Server) Run(ctx context.Context) error {
	for {
		err := s.install(ctx)
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		slog.WarnContext(ctx, "the federation's definitions cannot be installed yet", "err", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.cfg.Clock.After(installAgain):
		}
	}
	close(s.ready)
	for {
		if err := s.life.Load().run(ctx); err != nil || ctx.Err() != nil {
			return err
		}
		// Leadership was lost. Begin again from what the API says.
		s.life.Store(newLife(&s.cfg, s.metrics))
	}
}

// installTimeout bounds one try to install the definitions.
const installTimeout = time.Minute

func (s *Server) install(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, installTimeout)
	defer cancel()
	if err := api.Install(ctx, s.cfg.Objects); err != nil {
		return fmt.Errorf("install the definitions: %w", err)
	}
	return nil
}

// metrics measure the role.
type metrics struct {
	queues    *reconcile.Metrics
	calls     *prometheus.CounterVec
	failovers *prometheus.CounterVec
	probes    *prometheus.HistogramVec
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	m := &metrics{
		queues: reconcile.NewMetrics(registerer),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "howdah_federation_carried_total", Help: "Objects that were applied, deleted, released or refused in members, by result.",
		}, []string{"cluster", "verb", "result"}),
		failovers: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "howdah_federation_failovers_total", Help: "Objects whose share of a cluster went to others since it was not ready.",
		}, []string{"cluster"}),
		probes: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "howdah_federation_probe_seconds", Help: "How long members took to say that they are ready, or not to.", Buckets: prometheus.ExponentialBuckets(0.001, 2, 14),
		}, []string{"cluster", "result"}),
	}
	registerer.MustRegister(m.calls, m.failovers, m.probes)
	return m
}

func (m *metrics) count(cluster, verb string, err error) {
	m.calls.WithLabelValues(cluster, verb, result(err)).Inc()
}

func result(err error) string {
	if err != nil {
		return "error"
	}
	return "success"
}

// collector tells how members and placements are when it is asked.
type collector struct{ s *Server }

var (
	clusterReady = prometheus.NewDesc("howdah_federation_cluster_ready", "Whether a member is ready, as its Cluster says.", []string{"cluster"}, nil)
	placed       = prometheus.NewDesc("howdah_federation_placed_objects", "Objects that are in a member, or on the way, by state.", []string{"cluster", "state"}, nil)
)

// Describe implements prometheus.Collector.
func (c collector) Describe(ch chan<- *prometheus.Desc) { ch <- clusterReady; ch <- placed }

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	l := c.s.life.Load()
	for _, cluster := range l.clusters.List("") {
		value := 0.0
		if ready, _ := cluster.ReadySince(); ready {
			value = 1
		}
		ch <- prometheus.MustNewConstMetric(clusterReady, prometheus.GaugeValue, value, cluster.Name)
	}
	counts := map[[2]string]float64{}
	for _, p := range l.allPlacements() {
		for _, c := range p.Status.Clusters {
			counts[[2]string{c.Name, c.State}]++
		}
	}
	for labels, n := range counts {
		ch <- prometheus.MustNewConstMetric(placed, prometheus.GaugeValue, n, labels[0], labels[1])
	}
}
