package scheduler

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/kit/leading/leadingtest"
	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"

	schedulerv1 "howdah.dev/proto/gen/howdah/scheduler/v1"
)

func gpuClass() *resourcev1.DeviceClass {
	return &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "gpu"}, Spec: resourcev1.DeviceClassSpec{Selectors: []resourcev1.DeviceSelector{
		{CEL: &resourcev1.CELDeviceSelector{Expression: `device.driver == "gpu.example.com"`}}}}}
}

func gpuClaim(name string) *resourcev1.ResourceClaim {
	c := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
	c.Spec.Devices.Requests = []resourcev1.DeviceRequest{{Name: "r", Exactly: &resourcev1.ExactDeviceRequest{
		DeviceClassName: "gpu", AllocationMode: resourcev1.DeviceAllocationModeExactCount, Count: 1,
	}}}
	return c
}

// gpus are as many devices of a node.
func gpus(node string, count int) *resourcev1.ResourceSlice {
	s := &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "gpus-" + node}, Spec: resourcev1.ResourceSliceSpec{
		Driver: "gpu.example.com", NodeName: &node, Pool: resourcev1.ResourcePool{Name: node, Generation: 1, ResourceSliceCount: 1},
	}}
	for i := range count {
		s.Spec.Devices = append(s.Spec.Devices, resourcev1.Device{Name: fmt.Sprint("gpu", i)})
	}
	return s
}

func podClaiming(name string, claims ...string) *corev1.Pod {
	p := pod(name, "10m")
	for _, c := range claims {
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, corev1.PodResourceClaim{Name: c, ResourceClaimName: ptr.To(c)})
	}
	return p
}

func (w *world) claim(name string) *resourcev1.ResourceClaim {
	w.Helper()
	c, err := object.For(w.client, object.ResourceClaim).Get(context.Background(), "shop", name)
	if err != nil {
		w.Fatal(err)
	}
	return c
}

// change changes a claim, as drivers and controllers do.
func (w *world) change(c *resourcev1.ResourceClaim) {
	w.Helper()
	if _, err := object.For(w.client, object.ResourceClaim).UpdateStatus(context.Background(), c); err != nil {
		w.Fatal(err)
	}
}

func usedBy(c *resourcev1.ResourceClaim) string {
	var users []string
	for _, r := range c.Status.ReservedFor {
		users = append(users, r.Name)
	}
	slices.Sort(users)
	return strings.Join(users, " ")
}

// TestAPodGetsItsDevice: before it is bound, its claim is protected, has a device of the node, and is reserved for it.
func TestAPodGetsItsDevice(t *testing.T) {
	t.Parallel()
	w := start(t, leadingtest.New(), func(w *world) {
		w.addNode(node("n1", "1"))
		w.addNode(node("n2", "1"))
		create(w, object.DeviceClass, gpuClass())
		create(w, object.ResourceSlice, gpus("n2", 1))
		create(w, object.ResourceClaim, gpuClaim("x"))
	})
	p := w.addPod(t.Context(), podClaiming("p", "x"))
	pods := w.awaitPods("the pod to be bound", bound(1))
	if pods["p"].Spec.NodeName != "n2" {
		t.Errorf("the pod is on %s", pods["p"].Spec.NodeName)
	}
	c := w.claim("x")
	if !slices.Contains(c.Finalizers, resourcev1.Finalizer) || c.Status.Allocation == nil || c.Status.Allocation.AllocationTimestamp == nil || len(c.Status.ReservedFor) != 1 {
		t.Fatalf("the claim is %+v", c)
	}
	d, r := c.Status.Allocation.Devices.Results[0], c.Status.ReservedFor[0]
	if d.Pool != "n2" || d.Device != "gpu0" || r.UID != p.UID || r.Resource != "pods" || r.Name != "p" || r.APIGroup != "" {
		t.Errorf("it has %+v for %+v", d, r)
	}

	create(w, object.ResourceClaim, gpuClaim("y"))
	w.addPod(t.Context(), podClaiming("q", "y"))
	pods = w.awaitPods("the other to be refused", func(pods map[string]*corev1.Pod) bool { return condition(pods["q"]) != nil })
	if got := condition(pods["q"]).Message; !strings.HasPrefix(got, "0/2 nodes are available: 2 cannot allocate all claims. still not schedulable, preemption: ") {
		t.Errorf("it is refused with %q", got)
	}
	e := explain(t, w, "q")
	for _, n := range e.GetNodes() {
		i := slices.IndexFunc(n.GetFilters(), func(f *schedulerv1.FilterVerdict) bool { return f.GetFilter() == "DynamicResources" })
		if n.GetFeasible() || i < 0 || !slices.Equal(n.GetFilters()[i].GetReasons(), []string{"cannot allocate all claims"}) {
			t.Errorf("explained as %v", n)
		}
	}
	// The first ends, and the controller of claims gives its device back.
	c.Status.Allocation, c.Status.ReservedFor = nil, nil
	w.change(c)
	w.awaitPods("the other to have its device", bound(2))
}

// TestAPodWaitsForItsClaims: it is not tried before; then at once.
func TestAPodWaitsForItsClaims(t *testing.T) {
	t.Parallel()
	w := start(t, leadingtest.New(), func(w *world) {
		w.addNode(node("n1", "1"))
		create(w, object.DeviceClass, gpuClass())
		create(w, object.ResourceSlice, gpus("n1", 2))
	})
	p := pod("p", "10m")
	p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "mine", ResourceClaimTemplateName: ptr.To("t")}, {Name: "shared", ResourceClaimName: ptr.To("shared")}}
	p = w.addPod(t.Context(), p)
	w.soon("the pod to be known", func() bool { state, _ := w.s.queue.Lookup(p.UID); return state != "" })
	if got := explain(t, w, "p"); got.GetMessage() != `0/1 nodes are available: pod "shop/p": ResourceClaim not created yet.` || got.GetQueue() != "unschedulable" || got.GetAttempts() != 0 {
		t.Errorf("explained as %v", got)
	}
	mine := gpuClaim("p-mine")
	mine.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "p", UID: p.UID, Controller: ptr.To(true)}}
	create(w, object.ResourceClaim, mine)
	p.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "mine", ResourceClaimName: ptr.To("p-mine")}}
	if _, err := object.For(w.client, object.Pod).UpdateStatus(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	create(w, object.ResourceClaim, gpuClaim("shared"))
	pods := w.awaitPods("the pod to be bound", bound(1))
	if condition(pods["p"]) != nil && condition(pods["p"]).Status == corev1.ConditionFalse {
		t.Errorf("it was tried without its claims: %s", condition(pods["p"]).Message)
	}
	if usedBy(w.claim("p-mine")) != "p" || usedBy(w.claim("shared")) != "p" {
		t.Error("its claims are not reserved for it")
	}
}

// TestWhatWakesAPodThatClaims: it was refused, and a change lets it in.
func TestWhatWakesAPodThatClaims(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct{ prepare, change func(w *world) }{
		"a class": {func(w *world) { create(w, object.ResourceSlice, gpus("n1", 1)) }, func(w *world) { create(w, object.DeviceClass, gpuClass()) }},
		"a slice": {func(w *world) { create(w, object.DeviceClass, gpuClass()) }, func(w *world) { create(w, object.ResourceSlice, gpus("n1", 1)) }},
		"a driver that offers more": {func(w *world) {
			create(w, object.DeviceClass, gpuClass())
			create(w, object.ResourceSlice, gpus("n1", 0))
		}, func(w *world) { replace(w, object.ResourceSlice, gpus("n1", 1)) }},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := start(t, leadingtest.New(), func(w *world) {
				w.addNode(node("n1", "1"))
				create(w, object.ResourceClaim, gpuClaim("x"))
				test.prepare(w)
			})
			w.addPod(t.Context(), podClaiming("p", "x"))
			w.awaitPods("the pod to be refused", func(pods map[string]*corev1.Pod) bool { return condition(pods["p"]) != nil })
			test.change(w)
			w.awaitPods("the pod to be bound", bound(1))
		})
	}
}

// TestNoTwoPodsHaveADevice: more pods than devices, each with its own claim, and pods that share one.
func TestNoTwoPodsHaveADevice(t *testing.T) {
	t.Parallel()
	const devices, own, sharing = 8, 12, 30
	w := start(t, leadingtest.New(), func(w *world) {
		create(w, object.DeviceClass, gpuClass())
		for i := range 2 {
			n := numbered("n", i)
			w.addNode(node(n, "8"))
			create(w, object.ResourceSlice, gpus(n, devices/2))
		}
		create(w, object.ResourceClaim, gpuClaim("shared"))
		addMany(w, object.ResourceClaim, own, func(i int) *resourcev1.ResourceClaim { return gpuClaim(numbered("own", i)) })
	})
	addMany(w, object.Pod, sharing, func(i int) *corev1.Pod { return podClaiming(numbered("sharing", i), "shared") })
	w.awaitPods("those that share to be bound", bound(sharing))
	addMany(w, object.Pod, own, func(i int) *corev1.Pod { n := numbered("own", i); return podClaiming(n, n) })
	pods := w.awaitPods("all that find a device to be bound", bound(sharing+devices-1))
	w.awaitPods("the rest to be refused", func(pods map[string]*corev1.Pod) bool {
		refused := 0
		for _, p := range pods {
			if c := condition(p); p.Spec.NodeName == "" && c != nil && strings.Contains(c.Message, "cannot allocate all claims") {
				refused++
			}
		}
		return refused == own-devices+1
	})
	claims, _, err := object.For(w.client, object.ResourceClaim).List(t.Context(), "shop", metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	taken := map[string]string{}
	for _, c := range claims {
		if c.Status.Allocation == nil {
			continue
		}
		r := c.Status.Allocation.Devices.Results[0]
		if id := r.Pool + "/" + r.Device; taken[id] != "" {
			t.Errorf("%s and %s have %s", c.Name, taken[id], id)
		} else {
			taken[id] = c.Name
		}
		for _, u := range c.Status.ReservedFor {
			if p := pods[u.Name]; p == nil || p.Spec.NodeName != r.Pool {
				t.Errorf("%s is used by %s, which is not on %s", c.Name, u.Name, r.Pool)
			}
		}
	}
	if len(taken) != devices || len(w.claim("shared").Status.ReservedFor) != sharing {
		t.Errorf("%d devices are taken; the shared one by %s", len(taken), usedBy(w.claim("shared")))
	}
}

// TestAConflictIsTriedAgain: somebody else writes the claim between the scheduler's look at it and its write.
func TestAConflictIsTriedAgain(t *testing.T) {
	t.Parallel()
	w := &world{TB: t, api: objecttest.New()}
	var conflicts atomic.Int32
	w.api.Intercept = func(wr objecttest.Write) error {
		if wr.Verb == "patch" && wr.Resource == "resourceclaims" && conflicts.Add(1)%2 == 1 {
			return apierrors.NewConflict(resourcev1.Resource("resourceclaims"), wr.Name, fmt.Errorf("it has changed"))
		}
		return nil
	}
	w.client = w.api.Serve(t)
	w.addNode(node("n1", "1"))
	create(w, object.DeviceClass, gpuClass())
	create(w, object.ResourceSlice, gpus("n1", 1))
	create(w, object.ResourceClaim, gpuClaim("x"))
	w.s = w.scheduler(leadingtest.New())
	w.addPod(t.Context(), podClaiming("p", "x"))
	pods := w.awaitPods("the pod to be bound", bound(1))
	if condition(pods["p"]) != nil && condition(pods["p"]).Status == corev1.ConditionFalse {
		t.Errorf("it was refused: %s", condition(pods["p"]).Message)
	}
}

// TestAClaimThatCannotBeWritten: the pod says so, its device is free for others, and it is tried again.
func TestAClaimThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	w := &world{TB: t, api: objecttest.New()}
	var refuse atomic.Bool
	refuse.Store(true)
	w.api.Intercept = func(wr objecttest.Write) error {
		if refuse.Load() && wr.Verb == "patch" && wr.Resource == "resourceclaims" && wr.Subresource == "status" && wr.Name == "x" {
			return apierrors.NewForbidden(resourcev1.Resource("resourceclaims"), wr.Name, fmt.Errorf("not today"))
		}
		return nil
	}
	w.client = w.api.Serve(t)
	w.addNode(node("n1", "1"))
	create(w, object.DeviceClass, gpuClass())
	create(w, object.ResourceSlice, gpus("n1", 2))
	create(w, object.ResourceClaim, gpuClaim("x"), gpuClaim("y"))
	w.s = w.scheduler(leadingtest.New())
	w.addPod(t.Context(), podClaiming("p", "y", "x"))
	pods := w.awaitPods("the condition", func(pods map[string]*corev1.Pod) bool { return condition(pods["p"]) != nil })
	want := `running PreBind plugin "DynamicResources": add reservation to claim shop/x: resourceclaims.resource.k8s.io "x" is forbidden: not today`
	if got := condition(pods["p"]); got.Message != want || got.Reason != corev1.PodReasonSchedulerError {
		t.Errorf("got %q", got.Message)
	}
	await(w, object.ResourceClaim, "the other claim to be let go", func(c *resourcev1.ResourceClaim) bool {
		return c.Name == "y" && c.Status.Allocation != nil && len(c.Status.ReservedFor) == 0
	})
	refuse.Store(false)
	w.awaitPods("the pod to be bound", bound(1))
}

// TestARefusedBindingLetsTheClaimGo: the pod is not on its node, and does not use the claim; another try reserves it again.
func TestARefusedBindingLetsTheClaimGo(t *testing.T) {
	t.Parallel()
	w := &world{TB: t, api: objecttest.New()}
	var refuse atomic.Bool
	refuse.Store(true)
	w.api.Intercept = func(wr objecttest.Write) error {
		if refuse.Load() && wr.Subresource == "binding" {
			return apierrors.NewForbidden(corev1.Resource("pods"), wr.Name, fmt.Errorf("not today"))
		}
		return nil
	}
	w.client = w.api.Serve(t)
	w.addNode(node("n1", "1"))
	create(w, object.DeviceClass, gpuClass())
	create(w, object.ResourceSlice, gpus("n1", 1))
	create(w, object.ResourceClaim, gpuClaim("x"))
	w.s = w.scheduler(leadingtest.New())
	w.addPod(t.Context(), podClaiming("p", "x"))
	await(w, object.ResourceClaim, "the claim to be reserved", func(c *resourcev1.ResourceClaim) bool { return len(c.Status.ReservedFor) == 1 })
	await(w, object.ResourceClaim, "the claim to be let go", func(c *resourcev1.ResourceClaim) bool {
		return c.Status.Allocation != nil && len(c.Status.ReservedFor) == 0
	})
	refuse.Store(false)
	w.awaitPods("the pod to be bound", bound(1))
	if usedBy(w.claim("x")) != "p" {
		t.Error("the claim is not reserved")
	}
}

// TestDevicesAreGivenBackForAnotherNode: the claim's devices are on a node that is full, nobody uses them, and another node has some.
func TestDevicesAreGivenBackForAnotherNode(t *testing.T) {
	t.Parallel()
	w := start(t, leadingtest.New(), func(w *world) {
		w.addNode(node("n1", "1"))
		create(w, object.DeviceClass, gpuClass())
		create(w, object.ResourceSlice, gpus("n1", 1))
		x := gpuClaim("x")
		x.Finalizers = []string{resourcev1.Finalizer}
		x.Status.Allocation = &resourcev1.AllocationResult{
			Devices: resourcev1.DeviceAllocationResult{Results: []resourcev1.DeviceRequestAllocationResult{{Request: "r", Driver: "gpu.example.com", Pool: "gone", Device: "gpu0"}}},
			NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"gone"}}},
			}}},
		}
		create(w, object.ResourceClaim, x)
	})
	w.addPod(t.Context(), podClaiming("p", "x"))
	w.awaitPods("the pod to be bound", bound(1))
	if c := w.claim("x"); c.Status.Allocation.Devices.Results[0].Pool != "n1" || usedBy(c) != "p" {
		t.Errorf("the claim is %+v", c.Status)
	}
}

// TestAPodWaitsForItsDevicesToBeReady: what their driver says of them decides; a device that fails is given back, and another one is chosen.
func TestAPodWaitsForItsDevicesToBeReady(t *testing.T) {
	t.Parallel()
	w := start(t, leadingtest.New(), func(w *world) {
		w.addNode(node("n1", "1"))
		create(w, object.DeviceClass, gpuClass())
		s := gpus("n1", 1)
		s.Spec.Devices[0].BindingConditions, s.Spec.Devices[0].BindingFailureConditions = []string{"attached"}, []string{"broken"}
		create(w, object.ResourceSlice, s)
		create(w, object.ResourceClaim, gpuClaim("x"))
	})
	tell := func(c *resourcev1.ResourceClaim, condition string) {
		c.Status.Devices = []resourcev1.AllocatedDeviceStatus{{Driver: "gpu.example.com", Pool: "n1", Device: "gpu0",
			Conditions: []metav1.Condition{{Type: condition, Status: metav1.ConditionTrue, Reason: "Told", Message: "it is so"}}}}
		w.change(c)
	}
	reserved := func(c *resourcev1.ResourceClaim) bool {
		return len(c.Status.ReservedFor) == 1 && len(c.Status.Devices) == 0
	}
	p := w.addPod(t.Context(), podClaiming("p", "x"))
	first := await(w, object.ResourceClaim, "the claim to be reserved", reserved)
	w.soon("the pod to wait", func() bool { return w.s.volumes.node(p.UID) == "n1" })
	if got := explain(t, w, "p").GetMessage(); got != "Waiting for the devices to be ready, on node n1" {
		t.Errorf("explained as %q", got)
	}
	tell(first, "broken")
	pods := w.awaitPods("the pod to be refused", func(pods map[string]*corev1.Pod) bool { return condition(pods["p"]) != nil })
	want := `running PreBind plugin "DynamicResources": device binding failed: claim=x, reason=Told, message="it is so"`
	if got := condition(pods["p"]); got.Message != want {
		t.Errorf("got %q", got.Message)
	}
	second := await(w, object.ResourceClaim, "the claim to be reserved anew", reserved)
	w.soon("the pod to wait again", func() bool { return w.s.volumes.node(p.UID) == "n1" })
	tell(second, "attached")
	w.awaitPods("the pod to be bound", bound(1))
	of := func(name, status string) string {
		return fmt.Sprintf(`scheduler_dra_bindingconditions_%s{driver="gpu.example.com",profile="default-scheduler",status=%q}`, name, status)
	}
	w.awaitSeries(map[string]float64{
		of("allocations_total", "failure"): 1, of("wait_duration_seconds", "failure"): 1,
		of("allocations_total", "success"): 1, of("wait_duration_seconds", "success"): 1,
	})
}
