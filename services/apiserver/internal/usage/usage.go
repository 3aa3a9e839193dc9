// Package usage makes metrics.k8s.io/v1beta1 of what the metrics service has found out: what nodes and pods use
// (https://kubernetes.io/docs/reference/external-api/metrics.v1beta1/).
package usage

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
	"k8s.io/utils/clock"

	"howdah.dev/kit/apistatus"
	metricsv1 "howdah.dev/proto/gen/howdah/metrics/v1"
	"howdah.dev/services/apiserver/internal/registry"
)

// timeout bounds a question to the metrics service, which answers from memory.
const timeout = 5 * time.Second

// Metadata returns the metadata of a node or a pod, by the name of its resource; nil where there is none.
type Metadata func(resource, namespace, name string) *metav1.PartialObjectMetadata

// Maker makes the objects.
type Maker struct {
	service  metricsv1.UsageServiceClient
	metadata Metadata
	clock    clock.PassiveClock
}

// New returns what makes objects of the answers of the service on conn, with the labels that metadata tells.
func New(conn grpc.ClientConnInterface, metadata Metadata, c clock.PassiveClock) *Maker {
	return &Maker{service: metricsv1.NewUsageServiceClient(conn), metadata: metadata, clock: c}
}

func (m *Maker) nodes(ctx context.Context, _, name string) ([]registry.Object, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	resp, err := m.service.ListNodeUsage(ctx, &metricsv1.ListNodeUsageRequest{Name: name})
	if err != nil {
		return nil, apistatus.FromGRPC(err)
	}
	var all []registry.Object
	for _, n := range resp.GetNodes() {
		of := m.metadata("nodes", "", n.GetName())
		if of == nil {
			continue
		}
		all = append(all, &metricsv1beta1.NodeMetrics{
			TypeMeta: typeOf(nodeKind), ObjectMeta: m.about(of), Timestamp: timeOf(n.GetTime()), Window: windowOf(n.GetWindow()), Usage: usageOf(n.GetUsage()),
		})
	}
	if name != "" && len(all) == 0 {
		return nil, m.missing("nodes", nodeKind, "", name)
	}
	return all, nil
}

func (m *Maker) pods(ctx context.Context, namespace, name string) ([]registry.Object, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	resp, err := m.service.ListPodUsage(ctx, &metricsv1.ListPodUsageRequest{Namespace: namespace, Name: name})
	if err != nil {
		return nil, apistatus.FromGRPC(err)
	}
	var all []registry.Object
	for _, p := range resp.GetPods() {
		of := m.metadata("pods", p.GetNamespace(), p.GetName())
		if of == nil {
			continue
		}
		pod := &metricsv1beta1.PodMetrics{TypeMeta: typeOf(podKind), ObjectMeta: m.about(of), Timestamp: timeOf(p.GetTime()), Window: windowOf(p.GetWindow())}
		for _, c := range p.GetContainers() {
			pod.Containers = append(pod.Containers, metricsv1beta1.ContainerMetrics{Name: c.GetName(), Usage: usageOf(c.GetUsage())})
		}
		all = append(all, pod)
	}
	if name != "" && len(all) == 0 {
		return nil, m.missing("pods", podKind, namespace, name)
	}
	return all, nil
}

// missing says of what nothing is told whether it is there at all, in the words of metrics-server.
func (m *Maker) missing(of, kind, namespace, name string) error {
	key := name
	if namespace != "" {
		key = namespace + "/" + name
	}
	if m.metadata(of, namespace, name) == nil {
		return apierrors.NewNotFound(corev1.Resource(of), key)
	}
	return apierrors.NewNotFound(metricsv1beta1.Resource(singular[kind]), key)
}

// about is the metadata of what is made: the name and the labels of what it is about, and the time when it was made.
func (m *Maker) about(of *metav1.PartialObjectMetadata) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: of.Name, Namespace: of.Namespace, Labels: of.Labels, CreationTimestamp: metav1.NewTime(m.clock.Now())}
}

func typeOf(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{Kind: kind, APIVersion: metricsv1beta1.SchemeGroupVersion.String()}
}

func timeOf(t *timestamppb.Timestamp) metav1.Time { return metav1.NewTime(t.AsTime()) }

func windowOf(d *durationpb.Duration) metav1.Duration {
	return metav1.Duration{Duration: d.AsDuration().Round(time.Millisecond)}
}

// usageOf gives processors in billionths and memory in Ki, as metrics-server does.
func usageOf(u *metricsv1.Usage) corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU:    *resource.NewScaledQuantity(int64(u.GetCpuNanocores()), resource.Nano), //nolint:gosec // no machine has 9 billion processors
		corev1.ResourceMemory: *resource.NewQuantity(int64(u.GetMemoryBytes()), resource.BinarySI),    //nolint:gosec // nor so many bytes
	}
}
