package worker

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	drav1 "k8s.io/kubelet/pkg/apis/dra/v1"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
	"howdah.dev/nodeagent/internal/dra"
	"howdah.dev/nodeagent/internal/dra/dratest"
	"howdah.dev/nodeagent/internal/plugin"
)

// claimed lets pods of a world claim devices of a driver, and makes a claim that is given to the pod p.
func (w *world) claimed() (*dra.Manager, *dratest.Driver) {
	w.t.Helper()
	_, client := objecttest.Start(w.t)
	dir, err := os.MkdirTemp("", "dra") // paths of sockets have to be short
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = os.RemoveAll(dir) })
	m, err := dra.New(dra.Config{
		NodeName: "n", Client: client, State: filepath.Join(dir, "state"), Clock: clock.RealClock{}, Registerer: prometheus.NewRegistry(),
		Here: func(context.Context) (func(types.UID) bool, error) { return func(types.UID) bool { return true }, nil },
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.claims, w.cdi = m, m.CDI
	d := &dratest.Driver{Name: "gpu.example.com", Dir: dir, Devices: map[string][]*drav1.Device{
		"gpus": {{PoolName: "n", DeviceName: "1", CdiDeviceIds: []string{"example.com/gpu=1", "example.com/gpu=all"}}, {PoolName: "n", DeviceName: "0", CdiDeviceIds: []string{"example.com/gpu=0", "example.com/gpu=all"}}},
	}}
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "gpus"}}
	claim.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{{Request: "r", Driver: d.Name}}}}
	claim.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{Resource: "pods", Name: "p", UID: "uid-p"}}
	if _, err := object.For(client, object.ResourceClaim).Create(w.t.Context(), claim); err != nil {
		w.t.Fatal(err)
	}
	return m, d
}

// Nothing of a pod is made before its claims are prepared, the runtime is told of the devices, and the pod has not ended before they are taken back.
func TestPodWithClaim(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	claims, driver := w.claimed()
	m, _ := w.start()
	p, name := newPod("p", "a", "b"), "gpus"
	p.Spec.RestartPolicy = corev1.RestartPolicyNever
	p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "mine", ResourceClaimName: &name}}
	p.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "mine"}}
	m.Update(p)
	w.eventually("refused without its driver", func() bool {
		return w.told(" FailedPrepareDynamicResources: Failed to prepare dynamic resources: prepare dynamic resources: DRA driver gpu.example.com is not registered")
	})
	if s := w.status(p.UID); s.Phase != corev1.PodPending || s.ContainerStatuses[0].State.Waiting == nil || s.ContainerStatuses[0].State.Waiting.Reason != "ContainerCreating" {
		t.Errorf("it waits as %+v", s)
	}
	if calls := w.runtime.Calls(); len(calls) > 0 {
		t.Errorf("something was made of it: %v", calls)
	}

	driver.Fail("unprepare", "in use")
	driver.Serve(t, "")
	if err := claims.Drivers.Register(t.Context(), plugin.Plugin{Name: driver.Name, Endpoint: driver.Endpoint(), Versions: driver.Services()}); err != nil {
		t.Fatal(err)
	}
	w.eventually("ready", w.ready(p.UID))
	var names []string
	for _, d := range w.runtime.Config("a").GetCDIDevices() {
		names = append(names, d.GetName())
	}
	if got := strings.Join(names, " "); got != "example.com/gpu=0 example.com/gpu=1 example.com/gpu=all" {
		t.Errorf("the runtime is told of %s", got)
	}
	if others := w.runtime.Config("b").GetCDIDevices(); len(others) > 0 {
		t.Errorf("the container that claims nothing has %v", others)
	}

	told := p.DeepCopy()
	told.Status = w.status(p.UID)
	m.Update(told)
	w.runtime.Exit("a", 0)
	w.runtime.Exit("b", 0)
	w.eventually("asked to be taken back twice", func() bool { return len(driver.Calls()) >= 3 })
	if s := w.status(p.UID); s.Phase != corev1.PodRunning || s.ContainerStatuses[0].State.Terminated == nil {
		t.Errorf("before its claim is taken back it is told as %+v", s)
	}
	driver.Fail("unprepare", "")
	w.eventually("ended", func() bool { return w.status(p.UID).Phase == corev1.PodSucceeded })
	if claims.Holds(p.UID) {
		t.Error("it has ended before its claim was taken back")
	}
}

// A pod that is deleted stays in the API until its claims are taken back.
func TestDeletedPodWithClaim(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	claims, driver := w.claimed()
	driver.Serve(t, "")
	if err := claims.Drivers.Register(t.Context(), plugin.Plugin{Name: driver.Name, Endpoint: driver.Endpoint(), Versions: driver.Services()}); err != nil {
		t.Fatal(err)
	}
	m, _ := w.start()
	p, name := newPod("p", "a"), "gpus"
	p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "mine", ResourceClaimName: &name}}
	m.Update(p)
	w.eventually("ready", w.ready(p.UID))
	driver.Fail("unprepare", "in use")
	m.Update(endingPod(p, 1))
	w.eventually("asked to be taken back twice", func() bool { return len(driver.Calls()) >= 3 })
	w.mu.Lock()
	if len(w.deleted) > 0 {
		t.Error("it is gone before its claim was taken back")
	}
	w.mu.Unlock()
	driver.Fail("unprepare", "")
	w.eventually("gone", func() bool { w.mu.Lock(); defer w.mu.Unlock(); return len(w.deleted) == 1 })
	if got := driver.Calls(); got[0] != "prepare gpus" || slices.Index(got, "unprepare gpus") != 1 {
		t.Errorf("the driver was asked %v", got)
	}
}
