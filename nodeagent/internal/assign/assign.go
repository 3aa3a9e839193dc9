// Package assign gives pods what their containers have of the node for themselves. Others hand it out (Provider), each of its own kind; here they are asked one
// after the other, and where a policy of the topology says so, for what lies together.
package assign

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"howdah.dev/nodeagent/internal/pod"
	"howdah.dev/nodeagent/internal/topology"
)

// Provider hands out one kind of things.
type Provider interface {
	// Hints tells from which nodes a container could have what it asks for, PodHints the same of a pod as a whole.
	Hints(p *corev1.Pod, c *corev1.Container) topology.Hints
	PodHints(p *corev1.Pod) topology.Hints
	// Allocate gives a container what it asks for, from the hint's nodes as far as there is any. What it has already it keeps.
	Allocate(ctx context.Context, p *corev1.Pod, c *corev1.Container, near topology.Hint) error
	// Release takes back what a pod has.
	Release(uid types.UID)
}

// Config of an Assigner.
type Config struct {
	// Providers are asked in this order.
	Providers  []Provider
	Topology   topology.Merger
	Scope      topology.Scope
	Clock      clock.PassiveClock
	Registerer prometheus.Registerer
	// Aligned, which may be nil, hears of pods and containers that have to have all on one NUMA node.
	Aligned *topology.Aligned
}

// Assigner asks the providers for pods.
type Assigner struct {
	cfg     Config
	metrics *metrics
}

// New returns an Assigner.
func New(cfg Config) *Assigner { return &Assigner{cfg: cfg, metrics: newMetrics(cfg.Registerer)} }

// Admit gives the containers of a pod what they ask for, and returns why the node cannot, nil where it could. One pod comes after the other.
func (a *Assigner) Admit(ctx context.Context, p *corev1.Pod) *pod.Failure {
	began := a.cfg.Clock.Now()
	err := a.allocate(ctx, p)
	if a.cfg.Topology.Policy != topology.None {
		_, affine := errors.AsType[affinityError](err)
		a.metrics.admitted(a.cfg.Clock.Since(began), affine)
	}
	if err == nil {
		return nil
	}
	a.Release(p.UID)
	return refusal(err)
}

// Refusal is an error that bears the reason for which a pod is refused.
type Refusal interface {
	error
	Reason() string
}

type affinityError struct{}

func (affinityError) Error() string  { return "Resources cannot be allocated with Topology locality" }
func (affinityError) Reason() string { return "TopologyAffinityError" }

// refusal is what a pod is told. What nobody has foreseen is called so.
func refusal(err error) *pod.Failure {
	if known, ok := errors.AsType[Refusal](err); ok {
		return &pod.Failure{Reason: known.Reason(), Message: known.Error(), Rejected: true}
	}
	return &pod.Failure{Reason: "UnexpectedAdmissionError", Message: fmt.Sprintf("Allocate failed due to %v, which is unexpected", err), Rejected: true}
}

func (a *Assigner) allocate(ctx context.Context, p *corev1.Pod) error {
	var whole topology.Hint
	if a.cfg.Scope == topology.ScopePod && a.cfg.Topology.Policy != topology.None {
		var fits bool
		if whole, fits = a.merge(func(provider Provider) topology.Hints { return provider.PodHints(p) }); !fits {
			a.aligned(topology.ScopePod, false)
			return affinityError{}
		}
	}
	for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			c, near := &list[i], whole
			if a.cfg.Scope != topology.ScopePod && a.cfg.Topology.Policy != topology.None {
				var fits bool
				if near, fits = a.merge(func(provider Provider) topology.Hints { return provider.Hints(p, c) }); !fits {
					a.aligned(topology.ScopeContainer, false)
					return affinityError{}
				}
			}
			for _, provider := range a.cfg.Providers {
				if err := provider.Allocate(ctx, p, c, near); err != nil {
					return err
				}
			}
			if a.cfg.Scope != topology.ScopePod {
				a.aligned(topology.ScopeContainer, true)
			}
		}
	}
	if a.cfg.Scope == topology.ScopePod {
		a.aligned(topology.ScopePod, true)
	}
	return nil
}

// aligned counts what was placed where only one NUMA node will do.
func (a *Assigner) aligned(scope topology.Scope, ok bool) {
	if a.cfg.Topology.Policy == topology.SingleNode {
		a.cfg.Aligned.Count(scope, topology.NUMANode, ok)
	}
}

func (a *Assigner) merge(hints func(Provider) topology.Hints) (topology.Hint, bool) {
	var all []topology.Hints
	for _, provider := range a.cfg.Providers {
		all = append(all, hints(provider))
	}
	return a.cfg.Topology.Merge(all)
}

// Release takes back what a pod has.
func (a *Assigner) Release(uid types.UID) {
	for _, provider := range a.cfg.Providers {
		provider.Release(uid)
	}
}

type metrics struct {
	requests, errors prometheus.Counter
	duration         prometheus.Histogram
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	m := &metrics{
		requests: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "kubelet_topology_manager_admission_requests_total", Help: "Pods whose resources had to be aligned.",
		}),
		errors: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "kubelet_topology_manager_admission_errors_total", Help: "Pods whose resources could not be aligned.",
		}),
		duration: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "kubelet_topology_manager_admission_duration_ms", Help: "How long it took to give a pod its resources, in milliseconds.",
			Buckets: prometheus.ExponentialBuckets(0.05, 2, 15),
		}),
	}
	registerer.MustRegister(m.requests, m.errors, m.duration)
	return m
}

func (m *metrics) admitted(took time.Duration, refused bool) {
	m.requests.Inc()
	m.duration.Observe(float64(took) / float64(time.Millisecond))
	if refused {
		m.errors.Inc()
	}
}
