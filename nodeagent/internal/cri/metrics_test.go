package cri

import (
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// server is a runtime that can do little.
type server struct {
	runtimeapi.UnimplementedRuntimeServiceServer
	runtimeapi.UnimplementedImageServiceServer
}

func (server) RunPodSandbox(_ context.Context, in *runtimeapi.RunPodSandboxRequest) (*runtimeapi.RunPodSandboxResponse, error) {
	if in.GetRuntimeHandler() == "broken" {
		return nil, status.Error(codes.Internal, "no")
	}
	return &runtimeapi.RunPodSandboxResponse{PodSandboxId: "s"}, nil
}

func (server) ListImages(context.Context, *runtimeapi.ListImagesRequest) (*runtimeapi.ListImagesResponse, error) {
	return &runtimeapi.ListImagesResponse{}, nil
}

func (server) GetContainerEvents(_ *runtimeapi.GetEventsRequest, stream grpc.ServerStreamingServer[runtimeapi.ContainerEventResponse]) error {
	return stream.Send(&runtimeapi.ContainerEventResponse{})
}

func dialed(t *testing.T, registry prometheus.Registerer) *Client {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	runtimeapi.RegisterRuntimeServiceServer(s, server{})
	runtimeapi.RegisterImageServiceServer(s, server{})
	go func() { _ = s.Serve(listener) }()
	t.Cleanup(s.Stop)
	client, err := Dial("unix://"+socket, registry)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func TestCallsOfTheRuntimeAreMeasured(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		call      func(ctx context.Context, c *Client) error
		operation string
		handler   string
		fails     bool
	}{
		"a sandbox": {operation: "run_podsandbox", handler: "runc", call: func(ctx context.Context, c *Client) error {
			_, err := c.Runtime.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{RuntimeHandler: "runc"})
			return err
		}},
		"a sandbox that cannot be": {operation: "run_podsandbox", handler: "broken", fails: true, call: func(ctx context.Context, c *Client) error {
			_, err := c.Runtime.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{RuntimeHandler: "broken"})
			return err
		}},
		"images": {operation: "list_images", call: func(ctx context.Context, c *Client) error {
			_, err := c.Images.ListImages(ctx, &runtimeapi.ListImagesRequest{})
			return err
		}},
		"what the runtime does not know": {operation: "update_container", fails: true, call: func(ctx context.Context, c *Client) error {
			_, err := c.Runtime.UpdateContainerResources(ctx, &runtimeapi.UpdateContainerResourcesRequest{})
			return err
		}},
		"events": {operation: "get_container_events", call: func(ctx context.Context, c *Client) error {
			stream, err := c.Runtime.GetContainerEvents(ctx, &runtimeapi.GetEventsRequest{})
			for err == nil {
				_, err = stream.Recv()
			}
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			registry := prometheus.NewRegistry()
			if err := c.call(t.Context(), dialed(t, registry)); (err != nil) != c.fails {
				t.Fatal(err)
			}
			failures := 0.0
			if c.fails {
				failures = 1
			}
			operation := map[string]string{"operation_type": c.operation}
			want(t, registry, "kubelet_runtime_operations_total", operation, 1)
			want(t, registry, "kubelet_runtime_operations_duration_seconds", operation, 1)
			want(t, registry, "kubelet_runtime_operations_errors_total", operation, failures)
			if c.handler != "" {
				want(t, registry, "kubelet_run_podsandbox_duration_seconds", map[string]string{"runtime_handler": c.handler}, 1)
				want(t, registry, "kubelet_run_podsandbox_errors_total", map[string]string{"runtime_handler": c.handler}, failures)
			}
		})
	}
}

// want checks a counter, or how often a histogram was told of something. One that is not there is 0.
func want(t *testing.T, registry *prometheus.Registry, name string, labels map[string]string, want float64) {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := 0.0
	for _, family := range families {
		if family.GetName() != name {
			continue
		}
		for _, m := range family.GetMetric() {
			matches := true
			for _, l := range m.GetLabel() {
				matches = matches && labels[l.GetName()] == l.GetValue()
			}
			if matches {
				got += m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	if got != want {
		t.Errorf("%s%v is %v, not %v", name, labels, got, want)
	}
}

func TestOtherCallsOfTheConnectionAreNotMeasured(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	client := dialed(t, registry)
	_ = client.Conn().Invoke(t.Context(), "/containerd.services.images.v1.Images/List", &runtimeapi.VersionRequest{}, &runtimeapi.VersionResponse{})
	if n, err := testutil.GatherAndCount(registry); n != 0 || err != nil {
		t.Errorf("%d metrics, %v", n, err)
	}
}
