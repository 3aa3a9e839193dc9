// Package metrics finds out what nodes and pods use: it asks every node in rounds, and tells API servers, which make metrics.k8s.io of it.
package metrics

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/kit/task"
	metricsv1 "howdah.dev/proto/gen/howdah/metrics/v1"
	"howdah.dev/services/metrics/internal/sample"
	"howdah.dev/services/metrics/internal/scrape"
)

// DefaultResolution is how often nodes are asked, as metrics-server does.
const DefaultResolution = 15 * time.Second

// Bounds of Config.Resolution: below, what nodes measure is the same again; above, autoscalers act on what is long past.
const (
	minResolution = 5 * time.Second
	maxResolution = 2 * time.Minute
)

// Config is what the service needs.
type Config struct {
	// Objects tells which nodes there are.
	Objects *object.Client
	// NodeTLS is the certificate that nodes are shown, and how theirs are judged.
	NodeTLS *tls.Config
	// Resolution is how often each node is asked (15 s).
	Resolution time.Duration

	Clock      clock.WithTicker
	Registerer prometheus.Registerer
}

func (c Config) complete() (Config, error) {
	if c.Resolution == 0 {
		c.Resolution = DefaultResolution
	}
	if c.Clock == nil {
		c.Clock = clock.RealClock{}
	}
	var problems []error
	if c.Objects == nil {
		problems = append(problems, errors.New("the client of the apiserver is missing"))
	}
	if c.NodeTLS == nil {
		problems = append(problems, errors.New("the certificate for nodes is missing"))
	}
	if c.Resolution < minResolution || c.Resolution > maxResolution {
		problems = append(problems, fmt.Errorf("a resolution of %v is not between %v and %v", c.Resolution, minResolution, maxResolution))
	}
	return c, errors.Join(problems...)
}

// asked answers what a node uses.
type asked interface {
	Scrape(ctx context.Context, node *corev1.Node) (sample.Scrape, error)
	Close()
}

// Server is the service. Any number may run side by side; each asks the nodes for itself.
type Server struct {
	metricsv1.UnimplementedUsageServiceServer

	cfg       Config
	informers *object.Informers
	nodes     *object.Informer[*corev1.Node]
	client    asked
	known     *sample.Known
	metrics   *metrics
	first     chan struct{} // closed when the first round is over
}

// New returns a service; nothing runs until Run.
func New(cfg Config) (*Server, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	// A node may miss a round or two; then what it told says nothing about now.
	s := &Server{
		cfg: cfg, informers: object.NewInformers(cfg.Objects), client: scrape.NewClient(cfg.NodeTLS, cfg.Clock),
		known: sample.NewKnown(3 * cfg.Resolution), metrics: newMetrics(cfg.Registerer), first: make(chan struct{}),
	}
	s.nodes = object.InformerFor(s.informers, object.Node, object.Option{Slim: addressed})
	return s, nil
}

// addressed leaves of a node what it is asked by.
func addressed(o object.Object) {
	if node, ok := o.(*corev1.Node); ok {
		node.ManagedFields, node.Annotations, node.Spec = nil, nil, corev1.NodeSpec{}
		node.Status = corev1.NodeStatus{Addresses: node.Status.Addresses, DaemonEndpoints: node.Status.DaemonEndpoints}
	}
}

// Register adds the service's API to a server.
func (s *Server) Register(r grpc.ServiceRegistrar) { metricsv1.RegisterUsageServiceServer(r, s) }

// Ready waits until every node has been asked once; false says that ctx has ended before.
func (s *Server) Ready(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-s.first:
		return true
	}
}

// Run asks the nodes until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	defer s.client.Close()
	return task.Run(ctx, s.informers.Run, func(ctx context.Context) error {
		if !s.informers.Wait(ctx) {
			return ctx.Err()
		}
		return s.rounds(ctx)
	})
}
