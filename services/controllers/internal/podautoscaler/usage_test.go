package podautoscaler

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/kit/rpc"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/controllers/internal/discovery"
)

// madeUsage is an API without extension API servers, which makes the usage of one pod itself, or nothing.
type madeUsage struct {
	apiv1.UnimplementedObjectServiceServer
	none bool
}

func (m *madeUsage) Connect(grpc.BidiStreamingServer[apiv1.ConnectRequest, apiv1.ConnectResponse]) error {
	if m.none {
		return apierrors.NewNotFound(schema.GroupResource{}, "the server")
	}
	return apierrors.NewMethodNotSupported(schema.GroupResource{}, "connect") // as the API says of what it serves itself
}

func (m *madeUsage) List(r *apiv1.ListRequest, stream grpc.ServerStreamingServer[apiv1.ListResponse]) error {
	if m.none || r.GetGroup() != "metrics.k8s.io" || r.GetLabelSelector() != "app=web" || r.GetNamespace() != "ns" {
		return apierrors.NewNotFound(schema.GroupResource{Group: r.GetGroup(), Resource: r.GetResource()}, "made")
	}
	return stream.Send(&apiv1.ListResponse{ContentType: "application/json", Object: []byte(`{"kind":"PodMetricsList","apiVersion":"metrics.k8s.io/v1beta1","items":[
		{"metadata":{"name":"web-1","namespace":"ns"},"timestamp":"2026-01-02T12:00:00Z","window":"15s","containers":[{"name":"c","usage":{"cpu":"250m","memory":"64Mi"}}]}]}`)})
}

// TestUsageMadeByTheAPI: where no extension API server serves metrics.k8s.io, what the API makes of it counts.
func TestUsageMadeByTheAPI(t *testing.T) {
	t.Parallel()
	wire, server, service := rpc.NewLocal(), rpc.NewServer(nil, nil), &madeUsage{}
	apiv1.RegisterObjectServiceServer(server, service)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- server.ServeLocal(ctx, wire) }()
	defer func() { cancel(); <-served }()
	client := object.NewClient(wire.Dial(rpc.User{Name: "u"}), "test")
	apis, err := newMetricsAPIs(client, discovery.NewKinds(client, clock.RealClock{}), clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	got := apis.readResource(ctx, "ns", labels.SelectorFromSet(labels.Set{"app": "web"}), corev1.ResourceCPU, "")
	if sample := got.Samples["web-1"]; got.Err != nil || sample.Value != 250 || sample.Window != 15*time.Second {
		t.Errorf("%+v", got)
	}
	service.none = true
	got = apis.readResource(ctx, "ns", labels.SelectorFromSet(labels.Set{"app": "web"}), corev1.ResourceCPU, "")
	if got.Err == nil || !strings.Contains(got.Err.Error(), "unable to fetch metrics from resource metrics API") {
		t.Errorf("%+v", got)
	}
}
