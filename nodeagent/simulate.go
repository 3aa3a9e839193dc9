package nodeagent

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/kit/object"
	"howdah.dev/kit/release"
	"howdah.dev/kit/task"
	"howdah.dev/nodeagent/internal/simulate"
	"howdah.dev/nodeagent/internal/status"
)

// Defaults of hollow nodes.
const (
	hollowStart  = 20 * time.Millisecond
	hollowStop   = 10 * time.Millisecond
	hollowCPU    = 32
	hollowMemory = 256 << 30
)

// Hollow says what simulated nodes are like; zero values get the defaults.
type Hollow struct {
	// StartDelay is how long a pod takes to be ready (default 20 ms), StopDelay to end (10 ms).
	StartDelay, StopDelay time.Duration
	// CPU is in cores (32), Memory in bytes (256 GiB).
	CPU, Memory int64
	// Labels of the i-th node, beside those that every node has.
	Labels func(i int) map[string]string
}

// Simulation is a number of hollow nodes in one process.
type Simulation struct {
	informers *object.Informers
	writer    *status.Writer
	fleet     *simulate.Fleet
}

// NewSimulation builds n hollow nodes named <NodeName>-0000 and on, which
// follow pods by one watch and write by shared calls; it starts nothing. Of
// the configuration it uses NodeName, Objects, MaxPods, Clock and Registerer.
func NewSimulation(cfg Config, n int, hollow Hollow) (*Simulation, error) {
	cfg, err := cfg.complete()
	if err != nil {
		return nil, fmt.Errorf("simulated nodes: %w", err)
	}
	if n < 1 {
		return nil, fmt.Errorf("simulated nodes: %d is no number of nodes", n)
	}
	byDefault := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	byDefault(&hollow.StartDelay, hollowStart)
	byDefault(&hollow.StopDelay, hollowStop)
	if hollow.CPU == 0 {
		hollow.CPU = hollowCPU
	}
	if hollow.Memory == 0 {
		hollow.Memory = hollowMemory
	}
	m := newMetrics(cfg.Registerer)
	s := &Simulation{informers: object.NewInformers(cfg.Objects), writer: status.New(cfg.Objects, cfg.Clock, m.wrote, m.synced)}
	pods := object.InformerFor(s.informers, object.Pod, object.Option{FieldSelector: "spec.nodeName!=", Slim: slim})
	known := object.InformerFor(s.informers, object.Node, object.Option{LabelSelector: simulate.Label + "=true", Slim: bare})
	s.fleet = simulate.New(simulate.Config{
		Prefix: cfg.NodeName, Nodes: n, Labels: hollow.Labels, Client: cfg.Objects, Pods: pods, Known: known, Status: s.writer, Clock: cfg.Clock,
		Version: release.Version(), StartDelay: hollow.StartDelay, StopDelay: hollow.StopDelay, CPU: hollow.CPU, Memory: hollow.Memory, MaxPods: cfg.MaxPods,
	})
	return s, nil
}

// slim drops from cached pods what is only the API's.
func slim(p object.Object) { p.SetManagedFields(nil) }

// bare leaves of cached nodes their conditions.
func bare(o object.Object) {
	o.SetManagedFields(nil)
	if node, ok := o.(*corev1.Node); ok {
		node.Spec, node.Status = corev1.NodeSpec{}, corev1.NodeStatus{Conditions: node.Status.Conditions}
	}
}

// Run lives the nodes' lives until ctx ends.
func (s *Simulation) Run(ctx context.Context) error {
	return task.Run(ctx, s.informers.Run, s.writer.Run, s.fleet.Run, s.fleet.RunPods)
}

// Simulate runs n hollow nodes until ctx ends.
func Simulate(ctx context.Context, cfg Config, n int) error {
	s, err := NewSimulation(cfg, n, Hollow{})
	if err != nil {
		return err
	}
	return s.Run(ctx)
}
