package podresources

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"

	podresourcesapi "k8s.io/kubelet/pkg/apis/podresources/v1"
	alphaapi "k8s.io/kubelet/pkg/apis/podresources/v1alpha1"
)

type assigned struct{}

func (assigned) Of(p *corev1.Pod, c *corev1.Container) *podresourcesapi.ContainerResources {
	return &podresourcesapi.ContainerResources{Devices: []*podresourcesapi.ContainerDevices{{ResourceName: "r", DeviceIds: []string{string(p.UID) + "/" + c.Name}}}}
}
func (assigned) All() *podresourcesapi.AllocatableResourcesResponse {
	return &podresourcesapi.AllocatableResourcesResponse{CpuIds: []int64{2, 3}}
}

func TestServer(t *testing.T) {
	dir, err := os.MkdirTemp("", "pods")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	always := corev1.ContainerRestartPolicyAlways
	runs := &corev1.Pod{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "init"}, {Name: "sidecar", RestartPolicy: &always}}, Containers: []corev1.Container{{Name: "main"}},
	}}
	runs.Name, runs.Namespace, runs.UID = "runs", "ns", "u1"
	ended := runs.DeepCopy()
	ended.Name, ended.UID, ended.Status.Phase = "ended", "u2", corev1.PodSucceeded
	if err := os.WriteFile(filepath.Join(dir, "kubelet.sock"), nil, 0o600); err != nil { // an agent that was killed leaves its own
		t.Fatal(err)
	}
	s := New(Config{Dir: dir, Pods: func() []*corev1.Pod { return []*corev1.Pod{ended, runs} }, Assigned: assigned{}, Registerer: prometheus.NewRegistry()})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	conn, err := grpc.NewClient("unix://"+filepath.Join(dir, "kubelet.sock"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	client := podresourcesapi.NewPodResourcesListerClient(conn)
	callCtx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()

	list, err := client.List(callCtx, &podresourcesapi.ListPodResourcesRequest{}, grpc.WaitForReady(true))
	if err != nil || len(list.GetPodResources()) != 1 {
		t.Fatalf("%v %v", list, err)
	}
	one := list.GetPodResources()[0]
	if one.GetName() != "runs" || one.GetNamespace() != "ns" || len(one.GetContainers()) != 2 || one.GetContainers()[0].GetName() != "sidecar" ||
		one.GetContainers()[1].GetDevices()[0].GetDeviceIds()[0] != "u1/main" {
		t.Errorf("%v", one)
	}
	got, err := client.Get(callCtx, &podresourcesapi.GetPodResourcesRequest{PodName: "runs", PodNamespace: "ns"})
	if err != nil || len(got.GetPodResources().GetContainers()) != 2 {
		t.Errorf("%v %v", got, err)
	}
	if _, err := client.Get(callCtx, &podresourcesapi.GetPodResourcesRequest{PodName: "ended", PodNamespace: "ns"}); status.Code(err) != codes.NotFound {
		t.Errorf("of a pod that has ended: %v", err)
	}
	all, err := client.GetAllocatableResources(callCtx, &podresourcesapi.AllocatableResourcesRequest{})
	if err != nil || len(all.GetCpuIds()) != 2 {
		t.Errorf("%v %v", all, err)
	}
	old, err := alphaapi.NewPodResourcesListerClient(conn).List(callCtx, &alphaapi.ListPodResourcesRequest{})
	if err != nil || len(old.GetPodResources()) != 1 || old.GetPodResources()[0].GetContainers()[1].GetDevices()[0].GetDeviceIds()[0] != "u1/main" {
		t.Errorf("in the first version: %v %v", old, err)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
