// Package controllers runs the control loops that bring the cluster to what
// its objects ask for: a folder a controller, a row a controller in table.go.
package controllers

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"k8s.io/utils/clock"

	"howdah.dev/kit/leading"
	"howdah.dev/kit/object"
	"howdah.dev/kit/reconcile"
	controllersv1 "howdah.dev/proto/gen/howdah/controllers/v1"
	"howdah.dev/services/controllers/internal/certificate"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/layer2"
	"howdah.dev/services/controllers/internal/nodelifecycle"
	"howdah.dev/services/controllers/internal/podautoscaler"
)

// Role is the name under which controllers elect their leader, unless
// Config.Role says otherwise.
const Role = "controllers"

// Config is what the controllers need. Zero durations, counts and rates mean
// Kubernetes' defaults.
type Config struct {
	Objects    *object.Client
	Leadership leading.Leadership
	Clock      clock.WithTicker
	Registerer prometheus.Registerer

	// Role is what Leadership elects for, Role where empty. Processes that run
	// different controllers need different roles, or all but one would stand by.
	Role string

	// Enabled selects controllers, as in "*,-podgc" or "workloads,nodeipam":
	// names, groups, "*", each with an optional + or -. Empty is "*".
	Enabled string

	// ClusterCIDR is the range of pod addresses, or one of each IP family
	// with a comma between. Empty leaves pod ranges to others.
	ClusterCIDR string
	// NodeCIDRMaskSize is the prefix length of a node's IPv4 range (24 where
	// 0), NodeCIDRMaskSizeIPv6 of its IPv6 range (64).
	NodeCIDRMaskSize, NodeCIDRMaskSizeIPv6 int

	// RootCA are the cluster's certificate authorities: pki.Bundle, or pki.Authorities that do not change. nil publishes none.
	RootCA controller.Authorities
	// TrustBundles has RootCA published as a ClusterTrustBundle, too; the feature gate ClusterTrustBundle.
	TrustBundles bool

	// Signing returns the certificates and the key, in PEM, of the authority that signs CertificateSigningRequests, as they are now; nil leaves that to
	// others. SigningDuration is how long their certificates last at most (8760 h).
	Signing         func() (certificates, key []byte, err error)
	SigningDuration time.Duration

	// LegacyTokenPeriod is how long a token in a Secret that people did not make may be unused before it is refused, and then before it
	// is removed (8760 h).
	LegacyTokenPeriod time.Duration

	// NodeHealth is how nodes that are silent are dealt with; DefaultNodeHealth where nothing of it is set.
	NodeHealth NodeHealth
	// TerminatedPodGCThreshold is how many ended pods are kept (12500); negative keeps all.
	TerminatedPodGCThreshold int

	// Autoscaling is how HorizontalPodAutoscalers are carried out.
	Autoscaling Autoscaling

	// RecyclerImage is the image of the pods that wipe volumes, which the controller volumerecycler needs.
	RecyclerImage string

	// LoadBalancerCIDRs are ranges of the nodes' network that nobody else hands out: Services of the type LoadBalancer get addresses of them, for which
	// the nodes answer. Without any there is no provider, and these Services wait.
	LoadBalancerCIDRs []netip.Prefix
}

// NodeHealth is how nodes that are silent are dealt with.
type NodeHealth struct {
	// MonitorPeriod is how often nodes' signs of life are checked, MonitorGracePeriod how long one may be silent, StartupGracePeriod how long a new one may.
	MonitorPeriod, MonitorGracePeriod, StartupGracePeriod time.Duration
	// EvictionRate is how many nodes a second are tainted NoExecute in a healthy zone; SecondaryEvictionRate where UnhealthyZoneThreshold of a zone or
	// more is not ready, or none in zones of up to LargeClusterSizeThreshold nodes.
	EvictionRate, SecondaryEvictionRate, UnhealthyZoneThreshold float64
	LargeClusterSizeThreshold                                   int
}

// DefaultNodeHealth has the defaults of kube-controller-manager.
var DefaultNodeHealth = NodeHealth{
	MonitorPeriod: 5 * time.Second, MonitorGracePeriod: 50 * time.Second, StartupGracePeriod: time.Minute,
	EvictionRate: 0.1, SecondaryEvictionRate: 0.01, UnhealthyZoneThreshold: 0.55, LargeClusterSizeThreshold: 50,
}

// Autoscaling is how HorizontalPodAutoscalers are carried out.
type Autoscaling struct {
	// SyncPeriod is how often each is looked at (15 s); Workers, how many at the same time (5).
	SyncPeriod time.Duration
	Workers    int
	// DownscaleStabilization is for how long no fewer replicas are taken than were recommended (5 min).
	DownscaleStabilization time.Duration
	// Tolerance is by which share of its target a metric may be off (0.1).
	Tolerance float64
	// CPUInitializationPeriod is how long after its start a pod's CPU may be that of its start (5 min), InitialReadinessDelay how long
	// its readiness may change without it having been ready (30 s).
	CPUInitializationPeriod, InitialReadinessDelay time.Duration
	// ToZero lets targets have no replicas that are scaled by metrics of objects or from outside.
	ToZero bool
}

func (a *Autoscaling) applyDefaults() {
	defaultTo(&a.SyncPeriod, 15*time.Second)
	defaultTo(&a.Workers, 5)
	defaultTo(&a.DownscaleStabilization, 5*time.Minute)
	defaultTo(&a.Tolerance, 0.1)
	defaultTo(&a.CPUInitializationPeriod, 5*time.Minute)
	defaultTo(&a.InitialReadinessDelay, 30*time.Second)
}

func (a *Autoscaling) internal() podautoscaler.Config {
	return podautoscaler.Config{
		Period: a.SyncPeriod, Workers: a.Workers, Stabilization: a.DownscaleStabilization, Tolerance: a.Tolerance, ToZero: a.ToZero,
		Readiness: podautoscaler.Readiness{CPUInitialization: a.CPUInitializationPeriod, InitialDelay: a.InitialReadinessDelay},
	}
}

// Server is the controllers and their API.
type Server struct {
	controllersv1.UnimplementedControllerServiceServer

	cfg       Config
	rows      []row // the enabled ones
	cidrs     []netip.Prefix
	masks     []int
	metrics   *reconcile.Metrics
	addresses layer2.Pool // of load balancers
	life      atomic.Pointer[life]
}

// New checks the configuration and reports all its problems at once.
// Nothing runs until Run.
func New(cfg Config) (*Server, error) {
	cfg.applyDefaults()
	s := &Server{cfg: cfg, metrics: reconcile.NewMetrics(cfg.Registerer)}
	var err error
	if s.rows, err = selectRows(table(newMeasures(cfg.Registerer)), cfg.Enabled); err != nil {
		return nil, fmt.Errorf("controllers: %w", err)
	}
	if s.cidrs, s.masks, err = cfg.ranges(); err != nil {
		return nil, fmt.Errorf("controllers: cluster CIDR: %w", err)
	}
	s.addresses = layer2.NewPool(cfg.LoadBalancerCIDRs)
	if cfg.Signing != nil {
		if _, err := certificate.Read(cfg.Signing); err != nil {
			return nil, fmt.Errorf("controllers: signing authority: %w", err)
		}
	}
	cfg.Registerer.MustRegister(collector{s})
	first, err := s.newLife()
	if err != nil {
		return nil, err
	}
	s.life.Store(first)
	return s, nil
}

func (cfg *Config) applyDefaults() {
	defaultTo(&cfg.Role, Role)
	defaultTo(&cfg.Clock, clock.WithTicker(clock.RealClock{}))
	defaultTo(&cfg.NodeCIDRMaskSize, 24)
	defaultTo(&cfg.NodeCIDRMaskSizeIPv6, 64)
	defaultTo(&cfg.NodeHealth, DefaultNodeHealth)
	defaultTo(&cfg.TerminatedPodGCThreshold, 12500)
	defaultTo(&cfg.SigningDuration, 365*24*time.Hour)
	defaultTo(&cfg.LegacyTokenPeriod, 365*24*time.Hour)
	cfg.Autoscaling.applyDefaults()
}

func defaultTo[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// nodes is what the node lifecycle controller needs to know.
func (cfg *Config) nodes() nodelifecycle.Config {
	h := cfg.NodeHealth
	return nodelifecycle.Config{
		Period: h.MonitorPeriod, Grace: h.MonitorGracePeriod, Startup: h.StartupGracePeriod,
		Rates: nodelifecycle.Rates{Normal: h.EvictionRate, Secondary: h.SecondaryEvictionRate, Unhealthy: h.UnhealthyZoneThreshold, Large: h.LargeClusterSizeThreshold},
	}
}

// ranges parses the cluster's ranges and pairs each with its node mask.
func (cfg *Config) ranges() ([]netip.Prefix, []int, error) {
	if cfg.ClusterCIDR == "" {
		return nil, nil, nil
	}
	var (
		cidrs []netip.Prefix
		masks []int
	)
	for _, text := range strings.Split(cfg.ClusterCIDR, ",") {
		p, err := netip.ParsePrefix(strings.TrimSpace(text))
		if err != nil {
			return nil, nil, err
		}
		if len(cidrs) > 0 && (len(cidrs) > 1 || cidrs[0].Addr().Is4() == p.Addr().Is4()) {
			return nil, nil, fmt.Errorf("%q: at most one range of each IP family", cfg.ClusterCIDR)
		}
		mask := cfg.NodeCIDRMaskSize
		if p.Addr().Is6() {
			mask = cfg.NodeCIDRMaskSizeIPv6
		}
		cidrs, masks = append(cidrs, p.Masked()), append(masks, mask)
	}
	return cidrs, masks, nil
}

// Register adds the controllers' API to a server.
func (s *Server) Register(r grpc.ServiceRegistrar) {
	controllersv1.RegisterControllerServiceServer(r, s)
}

// Ready waits until the caches are filled; false when ctx ends before.
func (s *Server) Ready(ctx context.Context) bool { return s.life.Load().wait(ctx) }

// Run follows the cluster until ctx ends, and controls it while it leads. A
// standby keeps its caches and queues filled, so that it takes over at once.
func (s *Server) Run(ctx context.Context) error {
	for {
		if err := s.life.Load().run(ctx); err != nil || ctx.Err() != nil {
			return err
		}
		// Leadership was lost: what the controllers remember of their own writes
		// may be untrue when it comes back. Begin again from what the API says.
		next, err := s.newLife()
		if err != nil {
			return err
		}
		s.life.Store(next)
	}
}

// ListQueues tells of every controller's queue.
func (s *Server) ListQueues(context.Context, *controllersv1.ListQueuesRequest) (*controllersv1.ListQueuesResponse, error) {
	l := s.life.Load()
	response := &controllersv1.ListQueuesResponse{Leader: l.leading.Load()}
	for _, q := range l.queues {
		queue := &controllersv1.Queue{Controller: q.Name()}
		if response.Leader {
			queue.Waiting, queue.Running, queue.Failures = int32(q.Waiting()), int32(q.Running()), q.Failures()
		}
		response.Queues = append(response.Queues, queue)
	}
	return response, nil
}
