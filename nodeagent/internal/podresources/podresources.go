// Package podresources tells programs of the node, at a socket as the kubelet has it, what containers have for themselves: agents that measure GPUs ask for
// whose they are. Its API is podresources/v1, and what v1alpha1 had of it.
package podresources

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"

	"howdah.dev/nodeagent/internal/pod"
	podresourcesapi "k8s.io/kubelet/pkg/apis/podresources/v1"
	alphaapi "k8s.io/kubelet/pkg/apis/podresources/v1alpha1"
)

// maxStreams is how many questions of one caller are answered at a time.
const maxStreams = 16

// Assigned knows what containers have for themselves, and what there is for them.
type Assigned interface {
	Of(p *corev1.Pod, c *corev1.Container) *podresourcesapi.ContainerResources
	All() *podresourcesapi.AllocatableResourcesResponse
}

// Config of a Server.
type Config struct {
	// Dir is the folder of the socket.
	Dir string
	// Pods are those of the node.
	Pods       func() []*corev1.Pod
	Assigned   Assigned
	Registerer prometheus.Registerer
}

// Server answers.
type Server struct {
	podresourcesapi.UnimplementedPodResourcesListerServer
	cfg     Config
	metrics *metrics
}

// New returns a Server; it listens once it runs.
func New(cfg Config) *Server { return &Server{cfg: cfg, metrics: newMetrics(cfg.Registerer)} }

// Run answers until ctx ends.
func (s *Server) Run(ctx context.Context) error {
	if err := os.MkdirAll(s.cfg.Dir, 0o750); err != nil {
		return fmt.Errorf("pod resources: %w", err)
	}
	path := filepath.Join(s.cfg.Dir, "kubelet.sock")
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) { // of an earlier agent
		return fmt.Errorf("pod resources: %w", err)
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		return fmt.Errorf("pod resources: %w", err)
	}
	server := grpc.NewServer(grpc.MaxConcurrentStreams(maxStreams))
	podresourcesapi.RegisterPodResourcesListerServer(server, s)
	alphaapi.RegisterPodResourcesListerServer(server, alpha{Server: s})
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	defer server.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-failed:
		return fmt.Errorf("pod resources: %w", err)
	}
}

// List tells of all pods that have not ended.
func (s *Server) List(context.Context, *podresourcesapi.ListPodResourcesRequest) (*podresourcesapi.ListPodResourcesResponse, error) {
	s.metrics.asked("list", "v1")
	return &podresourcesapi.ListPodResourcesResponse{PodResources: s.all()}, nil
}

// all describes the pods that have not ended.
func (s *Server) all() []*podresourcesapi.PodResources {
	var out []*podresourcesapi.PodResources
	for _, p := range s.cfg.Pods() {
		if !pod.Finished(p) {
			out = append(out, s.describe(p))
		}
	}
	return out
}

// Get tells of one pod.
func (s *Server) Get(_ context.Context, req *podresourcesapi.GetPodResourcesRequest) (*podresourcesapi.GetPodResourcesResponse, error) {
	s.metrics.asked("get", "v1")
	for _, p := range s.cfg.Pods() {
		if p.Name == req.GetPodName() && p.Namespace == req.GetPodNamespace() && !pod.Finished(p) {
			return &podresourcesapi.GetPodResourcesResponse{PodResources: s.describe(p)}, nil
		}
	}
	s.metrics.failed("get")
	return nil, status.Errorf(codes.NotFound, "pod %s in namespace %s not found", req.GetPodName(), req.GetPodNamespace())
}

// GetAllocatableResources tells what the node has for containers.
func (s *Server) GetAllocatableResources(context.Context, *podresourcesapi.AllocatableResourcesRequest) (*podresourcesapi.AllocatableResourcesResponse, error) {
	s.metrics.asked("get_allocatable", "v1")
	return s.cfg.Assigned.All(), nil
}

// describe tells of the containers that run as long as the pod does.
func (s *Server) describe(p *corev1.Pod) *podresourcesapi.PodResources {
	out := &podresourcesapi.PodResources{Name: p.Name, Namespace: p.Namespace}
	add := func(c *corev1.Container) {
		row := s.cfg.Assigned.Of(p, c)
		row.Name = c.Name
		out.Containers = append(out.Containers, row)
	}
	for i := range p.Spec.InitContainers {
		if pod.Sidecar(&p.Spec.InitContainers[i]) {
			add(&p.Spec.InitContainers[i])
		}
	}
	for i := range p.Spec.Containers {
		add(&p.Spec.Containers[i])
	}
	return out
}

// metrics are the kubelet's, which has one for each method.
type metrics struct {
	total            *prometheus.CounterVec
	requests, errors map[string]*prometheus.CounterVec
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	counter := func(name, help string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "kubelet_pod_resources_endpoint_" + name, Help: help}, []string{"server_api_version"})
		registerer.MustRegister(c)
		return c
	}
	m := &metrics{
		total: counter("requests_total", "Questions about what containers have for themselves."), requests: map[string]*prometheus.CounterVec{}, errors: map[string]*prometheus.CounterVec{},
	}
	for method, name := range map[string]string{"list": "List", "get": "Get", "get_allocatable": "GetAllocatableResources"} {
		m.requests[method] = counter("requests_"+method, "Calls of "+name+".")
		m.errors[method] = counter("errors_"+method, "Calls of "+name+" that failed.")
	}
	return m
}

func (m *metrics) asked(method, version string) {
	m.total.WithLabelValues(version).Inc()
	m.requests[method].WithLabelValues(version).Inc()
}

func (m *metrics) failed(method string) { m.errors[method].WithLabelValues("v1").Inc() }
