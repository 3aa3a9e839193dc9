package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/kit/leading/leadingtest"
	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
	"howdah.dev/services/scheduler/internal/device"
)

// gpuNamed is the class with an extended resource.
func gpuNamed() *resourcev1.DeviceClass {
	c := gpuClass()
	c.Spec.ExtendedResourceName = ptr.To("example.com/gpu")
	return c
}

// podAsking asks for so many GPUs as an extended resource.
func podAsking(name, count string) *corev1.Pod {
	p := pod(name, "10m")
	p.Spec.Containers[0].Resources.Requests["example.com/gpu"] = resource.MustParse(count)
	return p
}

// writes remembers what is written, and refuses what it is told to.
type writes struct {
	mu     sync.Mutex
	log    []string // verb and resource, as in "patch pods/status"
	refuse string
	times  int // how often, at most
}

func (w *writes) intercept(wr objecttest.Write) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	what := wr.Verb + " " + strings.TrimSuffix(wr.Resource+"/"+wr.Subresource, "/")
	w.log = append(w.log, what)
	if what != w.refuse || w.times == 0 {
		return nil
	}
	w.times--
	return apierrors.NewForbidden(resourcev1.Resource(wr.Resource), "it", fmt.Errorf("not today"))
}

func (w *writes) all() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.log)
}

// specials are the claims for extended resources.
func (w *world) specials() []*resourcev1.ResourceClaim {
	w.Helper()
	all, _, err := object.For(w.client, object.ResourceClaim).List(w.Context(), "shop", metav1.ListOptions{})
	if err != nil {
		w.Fatal(err)
	}
	return slices.DeleteFunc(all, func(c *resourcev1.ResourceClaim) bool { return !device.IsSpecial(c) })
}

// hasDevices checks that a pod that is bound has its special claim, and that both say so.
func (w *world) hasDevices(p *corev1.Pod, count int) {
	w.Helper()
	s := p.Status.ExtendedResourceClaimStatus
	if s == nil {
		w.Fatalf("the status of %s names no claim", p.Name)
		return
	}
	c := w.claim(s.ResourceClaimName)
	if !device.IsSpecial(c) || !metav1.IsControlledBy(c, p) || !slices.Contains(c.Finalizers, resourcev1.Finalizer) || usedBy(c) != p.Name || c.Status.Allocation == nil {
		w.Fatalf("the claim of %s is %+v", p.Name, c)
	}
	if got := c.Status.Allocation.Devices.Results; len(got) != count || got[0].Pool != p.Spec.NodeName || got[0].Request != s.RequestMappings[0].RequestName {
		w.Errorf("%s has %+v for %+v", p.Name, got, s.RequestMappings)
	}
}

// TestAPodGetsDevicesByAnExtendedResource: the claim first, then what the pod's status says of it, then the binding.
func TestAPodGetsDevicesByAnExtendedResource(t *testing.T) {
	t.Parallel()
	w := &world{TB: t, api: objecttest.New()}
	log := &writes{}
	w.api.Intercept = log.intercept
	w.client = w.api.Serve(t)
	w.addNode(node("n1", "1"))
	create(w, object.DeviceClass, gpuNamed())
	create(w, object.ResourceSlice, gpus("n1", 2))
	w.s = w.scheduler(leadingtest.New())
	w.addPod(t.Context(), podAsking("p", "2"))
	p := w.awaitPods("the pod to be bound", bound(1))["p"]
	w.hasDevices(p, 2)
	if m := p.Status.ExtendedResourceClaimStatus.RequestMappings; len(m) != 1 || m[0].ContainerName != "c" || m[0].ResourceName != "example.com/gpu" || m[0].RequestName != "container-0-request-1" {
		t.Errorf("mappings %+v", m)
	}
	got := log.all()
	from, to := slices.Index(got, "create resourceclaims"), slices.IndexFunc(got, func(s string) bool { return strings.HasSuffix(s, "pods/binding") })
	want := []string{"create resourceclaims", "patch resourceclaims", "patch resourceclaims/status", "patch pods/status"}
	if from < 0 || to < from || !slices.Equal(got[from:to], want) {
		t.Errorf("written: %v", got)
	}
	if e := explain(t, w, "p").GetNodes()[0]; !e.GetFeasible() {
		t.Errorf("explained as %v", e)
	}

	w.addPod(t.Context(), podAsking("q", "1"))
	pods := w.awaitPods("the other to be refused", func(pods map[string]*corev1.Pod) bool { return condition(pods["q"]) != nil })
	if got := condition(pods["q"]).Message; !strings.HasPrefix(got, "0/1 nodes are available: 1 cannot allocate all claims. still not schedulable, preemption: ") {
		t.Errorf("it is refused with %q", got)
	}
	if len(w.specials()) != 1 {
		t.Errorf("claims: %v", w.specials())
	}
	// What the controller of claims does when the first has ended.
	c := w.claim(p.Status.ExtendedResourceClaimStatus.ResourceClaimName)
	c.Status.Allocation, c.Status.ReservedFor = nil, nil
	w.change(c)
	w.hasDevices(w.awaitPods("the other to have its device", bound(2))["q"], 1)
}

// TestWhatWakesAPodThatAsksForDevices: it was refused, and a change lets it in.
func TestWhatWakesAPodThatAsksForDevices(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct{ prepare, change func(w *world) }{
		"a class": {func(w *world) { create(w, object.ResourceSlice, gpus("n1", 1)) }, func(w *world) { create(w, object.DeviceClass, gpuNamed()) }},
		"a class that gets the name": {func(w *world) {
			create(w, object.ResourceSlice, gpus("n1", 1))
			create(w, object.DeviceClass, gpuClass())
		}, func(w *world) { replace(w, object.DeviceClass, gpuNamed()) }},
		"a newer class without devices that goes": {func(w *world) {
			create(w, object.ResourceSlice, gpus("n1", 1))
			newer := gpuNamed()
			newer.Name, newer.Spec.Selectors[0].CEL.Expression = "aaa", "false" // as old, and first by its name
			create(w, object.DeviceClass, gpuNamed(), newer)
		}, func(w *world) {
			if err := object.For(w.client, object.DeviceClass).Delete(w.Context(), "", "aaa", metav1.DeleteOptions{}); err != nil {
				w.Fatal(err)
			}
		}},
		"a slice": {func(w *world) { create(w, object.DeviceClass, gpuNamed()) }, func(w *world) { create(w, object.ResourceSlice, gpus("n1", 1)) }},
		"the node's own": {func(w *world) { create(w, object.DeviceClass, gpuNamed()) }, func(w *world) {
			n := node("n1", "1")
			n.Status.Allocatable["example.com/gpu"] = resource.MustParse("1")
			if _, err := object.For(w.client, object.Node).UpdateStatus(w.Context(), n); err != nil {
				w.Fatal(err)
			}
		}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			now := time.Now()
			w := &world{TB: t, api: objecttest.New()}
			w.api.Now = func() time.Time { return now } // classes are of one age
			w.client = w.api.Serve(t)
			w.addNode(node("n1", "1"))
			test.prepare(w)
			w.s = w.scheduler(leadingtest.New())
			w.addPod(t.Context(), podAsking("p", "1"))
			w.awaitPods("the pod to be refused", func(pods map[string]*corev1.Pod) bool { return condition(pods["p"]) != nil })
			test.change(w)
			p := w.awaitPods("the pod to be bound", bound(1))["p"]
			if what != "the node's own" {
				w.hasDevices(p, 1)
			} else if len(w.specials()) != 0 || p.Status.ExtendedResourceClaimStatus != nil {
				t.Errorf("it has a claim: %v", w.specials())
			}
		})
	}
}

// TestASpecialClaimThatCannotBe: whatever write fails, nothing is left of it, the pod says so, and the next attempt succeeds.
func TestASpecialClaimThatCannotBe(t *testing.T) {
	t.Parallel()
	for refused, want := range map[string]string{
		"create resourceclaims":       "create claim for extended resources shop/",
		"patch resourceclaims":        "add reservation to claim shop/",
		"patch resourceclaims/status": "add reservation to claim shop/",
		"patch pods/status":           "update extendedResourceClaimStatus of pod shop/p: ",
		"create pods/binding":         "",
	} {
		t.Run(refused, func(t *testing.T) {
			t.Parallel()
			w := &world{TB: t, api: objecttest.New()}
			log := &writes{refuse: refused, times: 1}
			w.api.Intercept = log.intercept
			w.client = w.api.Serve(t)
			w.addNode(node("n1", "1"))
			create(w, object.DeviceClass, gpuNamed())
			create(w, object.ResourceSlice, gpus("n1", 1))
			w.s = w.scheduler(leadingtest.New())
			w.addPod(t.Context(), podAsking("p", "1"))
			p := w.awaitPods("the pod to be bound", bound(1))["p"]
			if want != "" {
				e := await(w, object.Event, "an event of it", func(e *corev1.Event) bool { return e.Reason == "FailedScheduling" })
				if !strings.HasPrefix(e.Message, `running PreBind plugin "DynamicResources": `+want) || !strings.HasSuffix(e.Message, "not today") {
					t.Errorf("it said %q", e.Message)
				}
			}
			w.hasDevices(p, 1)
			if len(w.specials()) != 1 {
				t.Errorf("claims: %v", w.specials())
			}
			if deleted := slices.Contains(log.all(), "delete resourceclaims"); deleted != (refused != "create resourceclaims") {
				t.Errorf("written: %v", log.all())
			}
		})
	}
}

// TestWhatIsLeftOfASpecialClaim: an earlier scheduler has made it and got no further, or the pod's devices are elsewhere now.
func TestWhatIsLeftOfASpecialClaim(t *testing.T) {
	t.Parallel()
	for what, test := range map[string]struct {
		count  int64 // devices that were asked for then
		resume bool
	}{
		"the same devices": {1, true},
		"others":           {2, false},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			turn := leadingtest.Closed()
			w := start(t, turn, func(w *world) {
				w.addNode(node("n1", "1"))
				create(w, object.DeviceClass, gpuNamed())
				create(w, object.ResourceSlice, gpus("n1", 1))
			})
			p := w.addPod(t.Context(), podAsking("p", "1"))
			left := gpuClaim(device.SpecialName(p))
			left.Spec.Devices.Requests[0].Name, left.Spec.Devices.Requests[0].Exactly.Count = "container-0-request-1", test.count
			left.Annotations, left.Finalizers = map[string]string{resourcev1.ExtendedResourceClaimAnnotation: "true"}, []string{resourcev1.Finalizer}
			left.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(p, corev1.SchemeGroupVersion.WithKind("Pod"))}
			create(w, object.ResourceClaim, left)
			was := w.specials()[0].UID
			w.soon("the claim to be known", func() bool { return w.s.cache.Devices.Shown("shop", left.Name) != nil })
			turn.Open()
			w.hasDevices(w.awaitPods("the pod to be bound", bound(1))["p"], 1)
			if got := w.specials(); len(got) != 1 || (got[0].UID == was) != test.resume {
				t.Errorf("claims: %v", got)
			}
		})
	}
}

// TestNoTwoPodsHaveADeviceByResources: claims and extended resources of more pods than there are devices.
func TestNoTwoPodsHaveADeviceByResources(t *testing.T) {
	t.Parallel()
	const devices, each = 8, 10
	w := start(t, leadingtest.New(), func(w *world) {
		create(w, object.DeviceClass, gpuNamed())
		for i := range 2 {
			n := numbered("n", i)
			w.addNode(node(n, "8"))
			create(w, object.ResourceSlice, gpus(n, devices/2))
		}
		addMany(w, object.ResourceClaim, each, func(i int) *resourcev1.ResourceClaim { return gpuClaim(numbered("own", i)) })
	})
	addMany(w, object.Pod, 2*each, func(i int) *corev1.Pod {
		if n := numbered("own", i/2); i%2 == 0 {
			return podClaiming(n, n)
		}
		return podAsking(numbered("asks", i/2), "1")
	})
	pods := w.awaitPods("all that find a device to be bound", bound(devices))
	w.awaitPods("the rest to be refused", func(pods map[string]*corev1.Pod) bool {
		refused := 0
		for _, p := range pods {
			if c := condition(p); p.Spec.NodeName == "" && c != nil && strings.Contains(c.Message, "cannot allocate all claims") {
				refused++
			}
		}
		return refused == 2*each-devices
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
	}
	if len(taken) != devices {
		t.Errorf("taken: %v", taken)
	}
	for _, p := range pods {
		if p.Spec.NodeName != "" && strings.HasPrefix(p.Name, "asks") {
			w.hasDevices(p, 1)
		}
	}
}
