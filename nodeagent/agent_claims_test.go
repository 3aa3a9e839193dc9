package nodeagent_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	drahealth "k8s.io/kubelet/pkg/apis/dra-health/v1alpha1"
	drav1 "k8s.io/kubelet/pkg/apis/dra/v1"

	"howdah.dev/kit/object"
	"howdah.dev/nodeagent/internal/dra/dratest"
)

const tapDriver = "taps.example.com"

// claimTaps makes a claim of what the driver has, as the scheduler leaves it for pods.
func (n *node) claimTaps(name string, pods ...*corev1.Pod) {
	n.t.Helper()
	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	claim.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
		Results: []resourcev1.DeviceRequestAllocationResult{{Request: "tap", Driver: tapDriver, Pool: nodeName, Device: "left"}},
	}}
	for _, p := range pods {
		claim.Status.ReservedFor = append(claim.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: p.Name, UID: p.UID})
	}
	if _, err := object.For(n.client, object.ResourceClaim).Create(n.t.Context(), claim); err != nil {
		n.t.Fatal(err)
	}
}

// A driver that knows nothing of howdah prepares what two pods claim; the runtime gives it to their containers, over a restart of the agent, too; and it is
// taken back once the second of them has gone.
func TestRealNodeWithClaims(t *testing.T) {
	if !isolated(t) {
		return
	}
	n := startNode(t)
	// What the driver has, in the words of CDI; /var/run is the namespace's own.
	if err := os.MkdirAll("/var/run/cdi", 0o755); err != nil {
		t.Fatal(err)
	}
	spec := `{"cdiVersion": "0.5.0", "kind": "example.com/tap", "devices": [{"name": "left", "containerEdits": {"env": ["TAP=left"]}}]}`
	if err := os.WriteFile("/var/run/cdi/example.com-tap.json", []byte(spec), 0o600); err != nil {
		t.Fatal(err)
	}
	slice := func(name, driver string) {
		of := nodeName
		s := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: resourcev1.ResourceSliceSpec{Driver: driver, NodeName: &of}}
		if _, err := object.For(n.client, object.ResourceSlice).Create(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	driver := &dratest.Driver{Name: tapDriver, Tells: true, Dir: filepath.Join(n.dir, "kubelet", "plugins"), Devices: map[string][]*drav1.Device{
		"taps": {{PoolName: nodeName, DeviceName: "left", RequestNames: []string{"tap"}, CdiDeviceIds: []string{"example.com/tap=left"}}},
	}}
	pod := func(name string) *corev1.Pod {
		c, claim := shell("until [ -e /tmp/end ]; do sleep 0.1; done"), "taps"
		c.Resources.Claims = []corev1.ResourceClaim{{Name: "mine", Request: "tap"}}
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
			Containers: []corev1.Container{c}, ResourceClaims: []corev1.PodResourceClaim{{Name: "mine", ResourceClaimName: &claim}},
		}}
	}
	first, second := n.create(pod("first")), n.create(pod("second"))
	n.hasEvent("first", `Failed to prepare dynamic resources: prepare dynamic resources: fetch ResourceClaim taps: resourceclaims.resource.k8s.io "taps" not found`)
	n.claimTaps("taps", first, second)
	n.hasEvent("first", "Failed to prepare dynamic resources: prepare dynamic resources: DRA driver "+tapDriver+" is not registered")
	driver.Serve(t, filepath.Join(n.dir, "kubelet", "plugins_registry"))
	n.await("first", "ready", time.Minute, ready)
	n.await("second", "ready", time.Minute, ready)
	n.hasTap("first")
	n.hasTap("second")
	if c := n.podResources("first").GetContainers(); len(c) != 1 || len(c[0].GetDynamicResources()) != 1 || c[0].GetDynamicResources()[0].GetClaimName() != "taps" ||
		c[0].GetDynamicResources()[0].GetClaimResources()[0].GetCdiDevices()[0].GetName() != "example.com/tap=left" {
		t.Errorf("it is said to have %v", c)
	}
	sick := &drahealth.DeviceHealth{Device: &drahealth.DeviceIdentifier{PoolName: nodeName, DeviceName: "left"}, Health: drahealth.HealthStatus_UNHEALTHY, Message: "it drips"}
	driver.Report(sick)
	n.await("first", "known to have a device that is unhealthy", time.Minute, func(p *corev1.Pod) bool {
		s := p.Status.ContainerStatuses[0].AllocatedResourcesStatus
		return len(s) == 1 && s[0].Name == "claim:mine/tap" && s[0].Resources[0].ResourceID == "example.com/tap=left" &&
			s[0].Resources[0].Health == corev1.ResourceHealthStatusUnhealthy && *s[0].Resources[0].Message == "it drips"
	})

	n.stop()
	slice("left-behind", "gone.example.com")
	slice("used", tapDriver)
	n.startAgent()
	if !n.agent.Ready(t.Context()) {
		t.Fatal("the agent does not come back")
	}
	n.run("first", "touch /tmp/end", "")
	n.await("first", "started again", time.Minute, func(p *corev1.Pod) bool {
		return ready(p) && p.Status.ContainerStatuses[0].RestartCount == 1
	})
	n.hasTap("first")
	eventually(t, time.Minute, func() string {
		if _, err := object.For(n.client, object.ResourceSlice).Get(t.Context(), "", "left-behind"); err == nil {
			return "the slice of a driver that is gone is still there"
		}
		return ""
	})
	if _, err := object.For(n.client, object.ResourceSlice).Get(t.Context(), "", "used"); err != nil {
		t.Errorf("the slice of a driver that is there: %v", err)
	}
	n.remove("first")
	if calls := driver.Calls(); slices.Contains(calls, "unprepare taps") {
		t.Errorf("while a pod uses its device the driver was asked %v", calls)
	}
	n.remove("second")
	calls := strings.Join(driver.Calls(), ", ")
	if want := "registered true , prepare taps, registered true , unprepare taps"; calls != want {
		t.Errorf("the driver was asked %s; wanted %s", calls, want)
	}
}

// hasTap looks whether the container has what CDI says of the device.
func (n *node) hasTap(name string) {
	n.t.Helper()
	if version := n.runtimeVersion(); strings.HasPrefix(version, "v1.") || strings.HasPrefix(version, "1.") {
		n.t.Logf("containerd %s does not know CDI", version)
		return
	}
	if out, errs, _ := n.run(name, "echo $TAP", ""); out != "left\n" {
		n.t.Errorf("in the container of %s: %q %q", name, out, errs)
	}
}

// runtimeVersion is containerd's, as the Node tells it.
func (n *node) runtimeVersion() string {
	n.t.Helper()
	node, err := object.For(n.client, object.Node).Get(n.t.Context(), "", nodeName)
	if err != nil {
		n.t.Fatal(err)
	}
	_, version, found := strings.Cut(node.Status.NodeInfo.ContainerRuntimeVersion, "://")
	if !found {
		n.t.Fatalf("the Node tells of the runtime %q", node.Status.NodeInfo.ContainerRuntimeVersion)
	}
	return version
}
