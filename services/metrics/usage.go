package metrics

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/kit/rpc"
	metricsv1 "howdah.dev/proto/gen/howdah/metrics/v1"
	"howdah.dev/services/metrics/internal/sample"
)

// apiserversGroup are those who may call: they know who may see which pod.
const apiserversGroup = "howdah:apiservers"

// ListNodeUsage implements metricsv1.UsageServiceServer.
func (s *Server) ListNodeUsage(ctx context.Context, req *metricsv1.ListNodeUsageRequest) (*metricsv1.ListNodeUsageResponse, error) {
	if err := s.admit(ctx); err != nil {
		return nil, err
	}
	resp := &metricsv1.ListNodeUsageResponse{}
	for _, n := range s.known.Nodes(req.GetName(), s.cfg.Clock.Now()) {
		resp.Nodes = append(resp.Nodes, &metricsv1.NodeUsage{Name: n.Name, Time: timestamppb.New(n.Time), Window: durationpb.New(n.Window), Usage: usageOf(n.Usage)})
	}
	return resp, nil
}

// ListPodUsage implements metricsv1.UsageServiceServer.
func (s *Server) ListPodUsage(ctx context.Context, req *metricsv1.ListPodUsageRequest) (*metricsv1.ListPodUsageResponse, error) {
	if err := s.admit(ctx); err != nil {
		return nil, err
	}
	resp := &metricsv1.ListPodUsageResponse{}
	for _, p := range s.known.Pods(req.GetNamespace(), req.GetName(), s.cfg.Clock.Now()) {
		pod := &metricsv1.PodUsage{Namespace: p.Namespace, Name: p.Name, Time: timestamppb.New(p.Time), Window: durationpb.New(p.Window)}
		for _, name := range slices.Sorted(maps.Keys(p.Containers)) {
			pod.Containers = append(pod.Containers, &metricsv1.ContainerUsage{Name: name, Usage: usageOf(p.Containers[name])})
		}
		resp.Pods = append(resp.Pods, pod)
	}
	return resp, nil
}

// admit refuses callers that are no API server, and all until the nodes have been asked once.
func (s *Server) admit(ctx context.Context) error {
	if peer, ok := rpc.Peer(ctx); !ok || !peer.In(apiserversGroup) {
		return apierrors.NewForbidden(schema.GroupResource{Group: "metrics.k8s.io", Resource: "usage"}, "", errors.New("only API servers may ask what is used"))
	}
	select {
	case <-s.first:
		return nil
	default:
		return apierrors.NewServiceUnavailable("the nodes have not been asked yet")
	}
}

func usageOf(u sample.Usage) *metricsv1.Usage {
	return &metricsv1.Usage{CpuNanocores: uint64(max(math.Round(u.CPU*1e9), 0)), MemoryBytes: u.Memory}
}
