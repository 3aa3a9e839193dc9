package dra

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	drav1 "k8s.io/kubelet/pkg/apis/dra/v1"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
	"howdah.dev/nodeagent/internal/dra/dratest"
	"howdah.dev/nodeagent/internal/plugin"
)

// node is a Manager with an API.
type node struct {
	t      *testing.T
	dir    string
	client *object.Client
	gone   map[types.UID]bool
	m      *Manager
}

func newNode(t *testing.T) *node {
	t.Helper()
	_, client := objecttest.Start(t)
	dir, err := os.MkdirTemp("", "dra") // paths of sockets have to be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	n := &node{t: t, dir: dir, client: client, gone: map[types.UID]bool{}}
	n.restart()
	return n
}

// restart begins another life of the agent.
func (n *node) restart() {
	n.t.Helper()
	if n.m != nil {
		n.m.Drivers.close()
	}
	var err error
	if n.m, err = New(Config{
		NodeName: "n", Client: n.client, State: filepath.Join(n.dir, "dra_manager_state"), Clock: clock.RealClock{}, Registerer: prometheus.NewRegistry(),
		Here: func(context.Context) (func(types.UID) bool, error) {
			return func(uid types.UID) bool { return !n.gone[uid] }, nil
		},
	}); err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(n.m.Drivers.close)
}

func (n *node) drive(d *dratest.Driver) *dratest.Driver {
	n.t.Helper()
	d.Dir = n.dir
	d.Serve(n.t, "")
	n.register(d)
	return d
}

func (n *node) register(d *dratest.Driver) {
	n.t.Helper()
	if err := n.m.Drivers.Register(n.t.Context(), plugin.Plugin{Type: "DRAPlugin", Name: d.Name, Endpoint: d.Endpoint(), Versions: d.Services()}); err != nil {
		n.t.Fatal(err)
	}
}

// claim makes one that is allocated from drivers and reserved for pods.
func (n *node) claim(name string, drivers []string, pods ...string) *resourcev1.ResourceClaim {
	n.t.Helper()
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	if drivers != nil {
		c.Status.Allocation = &resourcev1.AllocationResult{}
	}
	for _, driver := range drivers {
		c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results, resourcev1.DeviceRequestAllocationResult{Request: "r", Driver: driver, Pool: "n", Device: "d"})
	}
	for _, pod := range pods {
		c.Status.ReservedFor = append(c.Status.ReservedFor, resourcev1.ResourceClaimConsumerReference{Resource: "pods", Name: pod, UID: types.UID("uid-" + pod)})
	}
	made, err := object.For(n.client, object.ResourceClaim).Create(n.t.Context(), c)
	if err != nil {
		n.t.Fatal(err)
	}
	return made
}

// podWith is one that claims, under the names of the claims, all of them in its container.
func podWith(name string, claims ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID("uid-" + name)}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}}}
	for _, claim := range claims {
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, corev1.PodResourceClaim{Name: claim, ResourceClaimName: &claim})
		p.Spec.Containers[0].Resources.Claims = append(p.Spec.Containers[0].Resources.Claims, corev1.ResourceClaim{Name: claim})
	}
	return p
}

func (n *node) prepare(p *corev1.Pod) {
	n.t.Helper()
	if err := n.m.Prepare(n.t.Context(), p); err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) unprepare(p *corev1.Pod) {
	n.t.Helper()
	if err := n.m.Unprepare(n.t.Context(), p.UID); err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) cdi(p *corev1.Pod) string {
	n.t.Helper()
	names, err := n.m.CDI(p, &p.Spec.Containers[0])
	if err != nil {
		n.t.Fatal(err)
	}
	return strings.Join(names, " ")
}

// eventually waits for what others do.
func eventually(t *testing.T, what string, check func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for !check() {
		select {
		case <-ctx.Done():
			t.Fatalf("not %s", what)
		case <-time.After(2 * time.Millisecond):
		}
	}
}

func wantCalls(t *testing.T, d *dratest.Driver, want ...string) {
	t.Helper()
	if got := d.Calls(); !slices.Equal(got, want) {
		t.Errorf("%s was asked %q, wanted %q", d.Name, got, want)
	}
}

func device(name string, requests []string, cdi ...string) *drav1.Device {
	return &drav1.Device{PoolName: "n", DeviceName: name, RequestNames: requests, CdiDeviceIds: cdi}
}

// Two pods share a claim: it is prepared once, and taken back after both have ended; over a restart of the agent it stays known.
func TestSharedClaim(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	d := n.drive(&dratest.Driver{Name: "gpu.example.com", Devices: map[string][]*drav1.Device{
		"shared": {device("b", []string{"two"}, "example.com/gpu=b", "example.com/gpu=common"), device("a", []string{"one"}, "example.com/gpu=a", "example.com/gpu=common")},
	}})
	n.claim("shared", []string{"gpu.example.com"}, "p", "q")
	p, q := podWith("p", "shared"), podWith("q", "shared")
	if _, err := n.m.CDI(p, &p.Spec.Containers[0]); err == nil || err.Error() != "unable to get information for ResourceClaim shared" {
		t.Errorf("before it is prepared: %v", err)
	}
	n.prepare(p)
	n.prepare(q)
	n.prepare(p)
	wantCalls(t, d, "prepare shared")
	if got := n.cdi(p); got != "example.com/gpu=a example.com/gpu=b example.com/gpu=common" {
		t.Errorf("the container has %s", got)
	}
	q.Spec.Containers[0].Resources.Claims[0].Request = "two"
	if got := n.cdi(q); got != "example.com/gpu=b example.com/gpu=common" {
		t.Errorf("the container of one request has %s", got)
	}
	told := n.m.Of(p, &p.Spec.Containers[0])
	if len(told) != 1 || told[0].GetClaimName() != "shared" || told[0].GetClaimNamespace() != "ns" || len(told[0].GetClaimResources()) != 2 ||
		told[0].GetClaimResources()[1].GetDeviceName() != "a" || len(told[0].GetClaimResources()[1].GetCdiDevices()) != 2 {
		t.Errorf("programs of the node are told of %v", told)
	}
	if err := testutil.CollectAndCompare(inUseCollector(n.m.now), strings.NewReader(`
# HELP dra_resource_claims_in_use Claims that are prepared on the node, by driver; <any> counts each claim once.
# TYPE dra_resource_claims_in_use gauge
dra_resource_claims_in_use{driver_name="<any>"} 1
dra_resource_claims_in_use{driver_name="gpu.example.com"} 1
`)); err != nil {
		t.Error(err)
	}
	n.unprepare(p)
	wantCalls(t, d, "prepare shared")

	n.restart()
	if n.m.Holds(p.UID) || !n.m.Holds(q.UID) {
		t.Error("the next life does not know who uses the claim")
	}
	if got := n.cdi(q); got != "example.com/gpu=b example.com/gpu=common" {
		t.Errorf("after a restart the container has %s", got)
	}
	n.register(d)
	n.prepare(q) // its sandbox is made anew, after a reboot for all that is known
	wantCalls(t, d, "prepare shared", "prepare shared")
	n.unprepare(q)
	n.unprepare(q)
	wantCalls(t, d, "prepare shared", "prepare shared", "unprepare shared")
	if n.m.Holds(q.UID) {
		t.Error("it is not taken back")
	}
}

// One call per driver has all claims; an older driver is asked in its version.
func TestBatches(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	a := n.drive(&dratest.Driver{Name: "a.example.com", Devices: map[string][]*drav1.Device{"x": {device("x", nil, "a.example.com/c=x")}}})
	b := n.drive(&dratest.Driver{Name: "b.example.com", Beta: true, Devices: map[string][]*drav1.Device{"y": {device("y", nil, "b.example.com/c=y")}}})
	n.claim("x", []string{a.Name}, "p")
	n.claim("y", []string{a.Name, b.Name, b.Name}, "p")
	p := podWith("p", "x", "y")
	n.prepare(p)
	if got := n.cdi(p); got != "a.example.com/c=x b.example.com/c=y" {
		t.Errorf("the container has %s", got)
	}
	n.unprepare(p)
	wantCalls(t, a, "prepare x y", "unprepare x y")
	wantCalls(t, b, "prepare y", "unprepare y")
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	n.claim("others", []string{"gpu.example.com"}, "other")
	n.claim("unallocated", nil, "p")
	n.claim("undriven", []string{"nobody.example.com"}, "p")
	others, err := object.For(n.client, object.ResourceClaim).Get(t.Context(), "ns", "others")
	if err != nil {
		t.Fatal(err)
	}
	template, made, nobody := "t", "undriven", podWith("p")
	fromTemplate := podWith("p")
	fromTemplate.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "mine", ResourceClaimTemplateName: &template}}
	notMine := fromTemplate.DeepCopy()
	notMine.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "mine", ResourceClaimName: &made}}
	nothing := fromTemplate.DeepCopy()
	nothing.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "mine"}}
	for want, p := range map[string]*corev1.Pod{
		"pod p (uid-p) is not allowed to use ResourceClaim others (" + string(others.UID) + ")": podWith("p", "others"),
		"ResourceClaim unallocated: not allocated":                                              podWith("p", "unallocated"),
		"DRA driver nobody.example.com is not registered":                                       podWith("p", "undriven"),
		`fetch ResourceClaim missing: resourceclaims.resource.k8s.io "missing" not found`:       podWith("p", "missing"),
		`pod "ns/p": ResourceClaim not created yet`:                                             fromTemplate,
		"ResourceClaim ns/undriven was not created for Pod ns/p (Pod is not owner)":             notMine,
	} {
		if err := n.m.Prepare(t.Context(), p); err == nil || err.Error() != "prepare dynamic resources: "+want {
			t.Errorf("%v; wanted %s", err, want)
		}
		if n.m.Holds(p.UID) {
			t.Errorf("%s: the pod has to wait for drivers to go", want)
		}
	}
	n.prepare(nobody)
	n.prepare(nothing)
}

// What a driver refuses is asked again, and taken back in any case; what another one has taken back it is asked for again, which does it no harm.
func TestFailures(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	a, b := n.drive(&dratest.Driver{Name: "a.example.com"}), n.drive(&dratest.Driver{Name: "b.example.com"})
	claim := n.claim("x", []string{a.Name, b.Name}, "p", "q")
	p := podWith("p", "x")
	b.Fail("prepare", "no power")
	if err := n.m.Prepare(t.Context(), p); err == nil || err.Error() != "prepare dynamic resources: NodePrepareResources failed for ResourceClaim x: no power" {
		t.Error(err)
	}
	if !n.m.Holds(p.UID) {
		t.Error("nobody knows of what was half prepared")
	}
	b.Fail("prepare", "")
	n.prepare(p)
	wantCalls(t, a, "prepare x", "prepare x")

	a.Fail("unprepare", "in use")
	if err := n.m.Unprepare(t.Context(), p.UID); err == nil || err.Error() != "unprepare dynamic resources: NodeUnprepareResources failed for ResourceClaim x: in use" {
		t.Error(err)
	}
	if err := object.For(n.client, object.ResourceClaim).Delete(t.Context(), "ns", "x", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	n.claim("x", []string{a.Name}, "q")
	if err := n.m.Prepare(t.Context(), podWith("q", "x")); err == nil ||
		err.Error() != "prepare dynamic resources: old ResourceClaim with same name x and different UID "+string(claim.UID)+" still exists (previous pod force-deleted?!)" {
		t.Error(err)
	}
	a.Fail("unprepare", "")
	n.unprepare(p)
	wantCalls(t, a, "prepare x", "prepare x", "unprepare x", "unprepare x")
	wantCalls(t, b, "prepare x", "prepare x", "unprepare x", "unprepare x")
	n.prepare(podWith("q", "x"))
}

// The claims of pods that went while the agent was down are taken back once their driver is there.
func TestPodsThatWentMeanwhile(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	d := n.drive(&dratest.Driver{Name: "gpu.example.com"})
	n.claim("x", []string{d.Name}, "p")
	p := podWith("p", "x")
	n.prepare(p)
	n.restart()
	n.gone[p.UID] = true
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- n.m.Run(ctx) }()
	n.register(d)
	eventually(t, "taken back", func() bool { return !n.m.Holds(p.UID) })
	cancel()
	<-done
	wantCalls(t, d, "prepare x", "unprepare x")
}

// A checkpoint that is broken is told, and not taken for an empty one.
func TestBrokenCheckpoint(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "dra_manager_state")
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Config{State: path, Clock: clock.RealClock{}, Registerer: prometheus.NewRegistry()}); err == nil || !strings.Contains(err.Error(), "drain the node") {
		t.Error(err)
	}
}

// What the scheduler has given for extended resources is in the containers that the pod's status names.
func TestExtendedResources(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	d := n.drive(&dratest.Driver{Name: "gpu.example.com", Devices: map[string][]*drav1.Device{"extended": {device("a", []string{"r0"}, "example.com/gpu=a"), device("b", []string{"r1"}, "example.com/gpu=b")}}})
	n.claim("extended", []string{d.Name}, "p")
	p := podWith("p")
	p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"example.com/gpu": resource.MustParse("1")}
	p.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{ResourceClaimName: "extended", RequestMappings: []corev1.ContainerExtendedResourceRequest{
		{ContainerName: "other", ResourceName: "example.com/gpu", RequestName: "r0"}, {ContainerName: "c", ResourceName: "example.com/gpu", RequestName: "r1"},
	}}
	n.prepare(p)
	if got := n.cdi(p); got != "example.com/gpu=b" {
		t.Errorf("the container has %s", got)
	}
}

// Pods that come at the same time, and name their claims in another order, do not ask for anything twice, nor wait for each other for ever.
func TestPodsAtOnce(t *testing.T) {
	t.Parallel()
	n := newNode(t)
	d := n.drive(&dratest.Driver{Name: "gpu.example.com"})
	names := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	n.claim("x", []string{d.Name}, names...)
	n.claim("y", []string{d.Name}, names...)
	var pods []*corev1.Pod
	for i, name := range names {
		claims := []string{"x", "y"}
		if i%2 == 1 {
			slices.Reverse(claims)
		}
		pods = append(pods, podWith(name, claims...))
	}
	all := func(do func(p *corev1.Pod) error) {
		t.Helper()
		failed := make(chan error, len(pods))
		for _, p := range pods {
			go func() { failed <- do(p) }()
		}
		for range pods {
			if err := <-failed; err != nil {
				t.Error(err)
			}
		}
	}
	all(func(p *corev1.Pod) error { return n.m.Prepare(t.Context(), p) })
	wantCalls(t, d, "prepare x y")
	all(func(p *corev1.Pod) error { return n.m.Unprepare(t.Context(), p.UID) })
	wantCalls(t, d, "prepare x y", "unprepare x y")
	if left := n.m.now(); len(left) > 0 {
		t.Errorf("%d claims are left", len(left))
	}
}
