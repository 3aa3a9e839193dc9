package cri

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// operations are the runtime's methods by a kubelet's names for them. Others that go over the same connection are not CRI's.
var operations = map[string]string{
	runtimeapi.RuntimeService_Version_FullMethodName:                   "version",
	runtimeapi.RuntimeService_Status_FullMethodName:                    "status",
	runtimeapi.RuntimeService_RuntimeConfig_FullMethodName:             "runtime_config",
	runtimeapi.RuntimeService_UpdateRuntimeConfig_FullMethodName:       "update_runtime_config",
	runtimeapi.RuntimeService_RunPodSandbox_FullMethodName:             "run_podsandbox",
	runtimeapi.RuntimeService_StopPodSandbox_FullMethodName:            "stop_podsandbox",
	runtimeapi.RuntimeService_RemovePodSandbox_FullMethodName:          "remove_podsandbox",
	runtimeapi.RuntimeService_PodSandboxStatus_FullMethodName:          "podsandbox_status",
	runtimeapi.RuntimeService_ListPodSandbox_FullMethodName:            "list_podsandbox",
	runtimeapi.RuntimeService_PodSandboxStats_FullMethodName:           "podsandbox_stats",
	runtimeapi.RuntimeService_ListPodSandboxStats_FullMethodName:       "list_podsandbox_stats",
	runtimeapi.RuntimeService_UpdatePodSandboxResources_FullMethodName: "update_podsandbox_resources",
	runtimeapi.RuntimeService_CreateContainer_FullMethodName:           "create_container",
	runtimeapi.RuntimeService_StartContainer_FullMethodName:            "start_container",
	runtimeapi.RuntimeService_StopContainer_FullMethodName:             "stop_container",
	runtimeapi.RuntimeService_RemoveContainer_FullMethodName:           "remove_container",
	runtimeapi.RuntimeService_ListContainers_FullMethodName:            "list_containers",
	runtimeapi.RuntimeService_ContainerStatus_FullMethodName:           "container_status",
	runtimeapi.RuntimeService_ContainerStats_FullMethodName:            "container_stats",
	runtimeapi.RuntimeService_ListContainerStats_FullMethodName:        "list_container_stats",
	runtimeapi.RuntimeService_UpdateContainerResources_FullMethodName:  "update_container",
	runtimeapi.RuntimeService_CheckpointContainer_FullMethodName:       "checkpoint_container",
	runtimeapi.RuntimeService_ReopenContainerLog_FullMethodName:        "reopen_container_log",
	runtimeapi.RuntimeService_GetContainerEvents_FullMethodName:        "get_container_events",
	runtimeapi.RuntimeService_ExecSync_FullMethodName:                  "exec_sync",
	runtimeapi.RuntimeService_Exec_FullMethodName:                      "exec",
	runtimeapi.RuntimeService_Attach_FullMethodName:                    "attach",
	runtimeapi.RuntimeService_PortForward_FullMethodName:               "port_forward",
	runtimeapi.ImageService_ListImages_FullMethodName:                  "list_images",
	runtimeapi.ImageService_ImageStatus_FullMethodName:                 "image_status",
	runtimeapi.ImageService_PullImage_FullMethodName:                   "pull_image",
	runtimeapi.ImageService_RemoveImage_FullMethodName:                 "remove_image",
	runtimeapi.ImageService_ImageFsInfo_FullMethodName:                 "image_fs_info",
}

// metrics of the runtime's calls, under a kubelet's names.
type metrics struct {
	calls, errors *prometheus.CounterVec
	seconds       *prometheus.HistogramVec

	sandboxErrors  *prometheus.CounterVec
	sandboxSeconds *prometheus.HistogramVec
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	m := &metrics{
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubelet_runtime_operations_total", Help: "Calls of the container runtime, by operation.",
		}, []string{"operation_type"}),
		errors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubelet_runtime_operations_errors_total", Help: "Calls of the container runtime that failed, by operation.",
		}, []string{"operation_type"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "kubelet_runtime_operations_duration_seconds", Help: "How long calls of the container runtime took, by operation.",
			Buckets: prometheus.ExponentialBuckets(.005, 2.5, 14),
		}, []string{"operation_type"}),
		sandboxErrors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "kubelet_run_podsandbox_errors_total", Help: "Sandboxes that the runtime could not make, by its handler.",
		}, []string{"runtime_handler"}),
		sandboxSeconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "kubelet_run_podsandbox_duration_seconds", Help: "How long the runtime took to make a sandbox, by its handler.",
			Buckets: prometheus.DefBuckets,
		}, []string{"runtime_handler"}),
	}
	if registerer != nil {
		registerer.MustRegister(m.calls, m.errors, m.seconds, m.sandboxErrors, m.sandboxSeconds)
	}
	return m
}

func (m *metrics) observe(operation string, took time.Duration, err error) {
	m.calls.WithLabelValues(operation).Inc()
	m.seconds.WithLabelValues(operation).Observe(took.Seconds())
	if err != nil {
		m.errors.WithLabelValues(operation).Inc()
	}
}

// unary measures a call.
func (m *metrics) unary(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	operation, ok := operations[method]
	if !ok {
		return invoke(ctx, method, req, reply, conn, opts...)
	}
	began := time.Now()
	err := invoke(ctx, method, req, reply, conn, opts...)
	took := time.Since(began)
	m.observe(operation, took, err)
	if run, ok := req.(*runtimeapi.RunPodSandboxRequest); ok {
		m.sandboxSeconds.WithLabelValues(run.GetRuntimeHandler()).Observe(took.Seconds())
		if err != nil {
			m.sandboxErrors.WithLabelValues(run.GetRuntimeHandler()).Inc()
		}
	}
	return err
}

// stream measures a stream from its begin to its end.
func (m *metrics) stream(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	operation, ok := operations[method]
	if !ok {
		return streamer(ctx, desc, conn, method, opts...)
	}
	began := time.Now()
	opened, err := streamer(ctx, desc, conn, method, opts...)
	if err != nil {
		m.observe(operation, time.Since(began), err)
		return nil, err
	}
	return &measured{ClientStream: opened, ended: func(err error) { m.observe(operation, time.Since(began), err) }}, nil
}

// measured is a stream that says once how it ended.
type measured struct {
	grpc.ClientStream
	once  sync.Once
	ended func(err error)
}

// RecvMsg implements grpc.ClientStream.
func (s *measured) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	switch {
	case errors.Is(err, io.EOF):
		s.once.Do(func() { s.ended(nil) })
	case err != nil:
		s.once.Do(func() { s.ended(err) })
	}
	return err
}
