package devicetainteviction

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	resourcev1beta2 "k8s.io/api/resource/v1beta2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
	"howdah.dev/kit/reconcile"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/controller/controllertest"
	"howdah.dev/services/internal/devicetaint"
)

// world is a cluster with the controller, the metrics of which it has.
type world struct {
	*controllertest.Cluster
	clock   *testclock.FakeClock
	metrics *prometheus.Registry
	memory  *memory
}

// start runs the controller in a cluster with a slice of the devices a and b; prepare, where not nil, sees the API before.
func start(t *testing.T, prepare func(*controllertest.Cluster)) *world {
	t.Helper()
	w := &world{clock: testclock.NewFakeClock(time.Unix(1_700_000_000, 0)), metrics: prometheus.NewRegistry()}
	w.Cluster = controllertest.Start(t, w.clock, func(c *controllertest.Cluster) {
		controllertest.Create(c, object.ResourceSlice, slice(1))
		if prepare != nil {
			prepare(c)
		}
	}, func(env *controller.Env) (controller.Unit, error) {
		c := build(env, NewMetrics(w.metrics))
		w.memory = c.memory
		return controller.Unit{Queues: []*reconcile.Controller{c.ofPod, c.ofRule}}, nil
	})
	return w
}

func slice(generation int64) *resourcev1.ResourceSlice {
	return &resourcev1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: resourcev1.ResourceSliceSpec{
		Driver: "d", Pool: resourcev1.ResourcePool{Name: "n", Generation: generation, ResourceSliceCount: 1}, Devices: []resourcev1.Device{{Name: "a"}, {Name: "b"}},
	}}
}

// user creates a pod on a node whose claim has a device.
func user(c *controllertest.Cluster, name, device string, tolerations ...resourcev1.DeviceToleration) *corev1.Pod {
	c.Helper()
	p := controllertest.Create(c, object.Pod, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PodSpec{NodeName: "n"}})
	claim := using(name, tolerations, device)
	claim.Name, claim.Status.ReservedFor[0].UID = name, p.UID
	controllertest.Create(c, object.ResourceClaim, claim)
	return p
}

// taint gives the device a a taint that ends pods, or takes it away.
func (w *world) taint(with bool) {
	w.Helper()
	s := controllertest.List(w.Cluster, object.ResourceSlice)[0]
	s.Spec.Devices[0].Taints = nil
	if with {
		s.Spec.Devices[0].Taints = []resourcev1.DeviceTaint{{Key: "broken", Effect: resourcev1.DeviceTaintEffectNoExecute, TimeAdded: ptr.To(metav1.NewTime(w.clock.Now()))}}
	}
	if _, err := object.For(w.Client, object.ResourceSlice).Update(w.Context(), s); err != nil {
		w.Fatal(err)
	}
}

// left awaits that these alone are left.
func (w *world) left(names ...string) {
	w.Helper()
	controllertest.Await(w.Cluster, object.Pod, "pods but "+strings.Join(names, " "), func(list []*corev1.Pod) bool {
		var left []string
		for _, p := range list {
			if p.DeletionTimestamp == nil {
				left = append(left, p.Name)
			}
		}
		return strings.Join(left, " ") == strings.Join(names, " ")
	})
}

func (w *world) event(want string) {
	w.Helper()
	select {
	case got := <-w.Events.Events:
		if got != want {
			w.Errorf("event %q, want %q", got, want)
		}
	case <-time.After(time.Minute):
		w.Fatalf("no event %q", want)
	}
}

// soon awaits what only looking tells.
func (w *world) soon(what string, is func() bool) {
	w.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			w.Fatalf("%s: not in time", what)
		}
	}
}

// tolerates awaits that the end of the pod's tolerance is awaited.
func (w *world) tolerates(p *corev1.Pod) {
	w.Helper()
	w.soon("a tolerance that ends", func() bool {
		w.memory.mu.Lock()
		defer w.memory.mu.Unlock()
		return w.memory.pods[p.UID] == tolerates
	})
}

// passing lets time pass while do waits, for so long at most.
func (w *world) passing(most time.Duration, do func()) {
	end, stop, done := w.clock.Now().Add(most), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for w.clock.Now().Before(end) {
			select {
			case <-stop:
				return
			case <-time.After(2 * time.Millisecond):
				w.clock.Step(time.Second)
			}
		}
	}()
	defer func() { close(stop); <-done }()
	do()
}

// measured returns the sum of a metric's samples.
func (w *world) measured(name string) (count float64) {
	w.Helper()
	families, err := w.metrics.Gather()
	if err != nil {
		w.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name && f.GetType() == dto.MetricType_HISTOGRAM {
			count += float64(f.GetMetric()[0].GetHistogram().GetSampleCount())
		} else if f.GetName() == name {
			count += f.GetMetric()[0].GetCounter().GetValue()
		}
	}
	return count
}

const marking, cancelling = "Normal DeviceTaintManagerEviction Marking for deletion", "Normal DeviceTaintManagerEviction Cancelling deletion"

// TestABrokenDeviceEndsItsPods: of those that do not tolerate it, and of no other; each is told of, and deleted under its uid.
func TestABrokenDeviceEndsItsPods(t *testing.T) {
	t.Parallel()
	disrupted := make(chan corev1.PodCondition, 10)
	w := start(t, func(c *controllertest.Cluster) {
		c.API.Intercept = func(write objecttest.Write) error {
			if p, ok := write.Object.(*corev1.Pod); ok && write.Subresource == "status" {
				disrupted <- p.Status.Conditions[0]
			}
			return nil
		}
	})
	user(w.Cluster, "breaks", "a")
	user(w.Cluster, "sound", "b")
	user(w.Cluster, "tolerant", "a", tolerate("broken", resourcev1.DeviceTaintEffectNoExecute, nil))
	w.taint(true)
	w.left("sound", "tolerant")
	w.event(marking)
	if c := <-disrupted; c.Type != corev1.DisruptionTarget || c.Status != corev1.ConditionTrue || c.Reason != "DeletionByDeviceTaintManager" ||
		c.Message != "Device Taint manager: deleting due to NoExecute taint" {
		t.Errorf("condition %+v", c)
	}
	// One that gets the device later goes, too.
	user(w.Cluster, "late", "a")
	w.event(marking)
	w.left("sound", "tolerant")
	w.soon("two evictions measured", func() bool { return w.measured("device_taint_eviction_controller_pod_deletion_duration_seconds") == 2 })
	if got := w.measured("device_taint_eviction_controller_pod_deletions_total"); got != 2 {
		t.Errorf("%v evictions counted", got)
	}
}

// TestATaintIsToleratedForAWhile: the pod stays while the taint is young, and for good when it is taken away before.
func TestATaintIsToleratedForAWhile(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	p := user(w.Cluster, "p", "a", tolerate("broken", resourcev1.DeviceTaintEffectNoExecute, ptr.To[int64](60)))
	w.taint(true)
	w.tolerates(p)
	w.taint(false)
	w.event(cancelling)
	w.clock.Step(time.Hour)
	w.taint(true)
	w.tolerates(p)
	w.left("p")
	since := w.clock.Now()
	w.passing(time.Hour, func() { w.left() })
	w.event(marking)
	if after := w.clock.Since(since); after < time.Minute {
		t.Errorf("the pod goes after %s", after)
	}
}

// TestANewLeaderGoesOn: what was tainted before it leads counts, and since when.
func TestANewLeaderGoesOn(t *testing.T) {
	t.Parallel()
	w := start(t, func(c *controllertest.Cluster) {
		s := controllertest.List(c, object.ResourceSlice)[0]
		s.Spec.Devices[0].Taints = []resourcev1.DeviceTaint{{Key: "broken", Effect: resourcev1.DeviceTaintEffectNoExecute, TimeAdded: ptr.To(metav1.NewTime(time.Unix(1_700_000_000-30, 0)))}}
		if _, err := object.For(c.Client, object.ResourceSlice).Update(c.Context(), s); err != nil {
			c.Fatal(err)
		}
		user(c, "over", "a", tolerate("broken", resourcev1.DeviceTaintEffectNoExecute, ptr.To[int64](30)))
		user(c, "stays", "a", tolerate("broken", resourcev1.DeviceTaintEffectNoExecute, ptr.To[int64](90)))
	})
	w.left("stays")
	w.passing(time.Hour, func() { w.left() })
}

// TestANewerSliceCounts: the taints of a generation that was are no more.
func TestANewerSliceCounts(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	p := user(w.Cluster, "p", "a", tolerate("broken", resourcev1.DeviceTaintEffectNoExecute, ptr.To[int64](60)))
	w.taint(true)
	w.tolerates(p)
	newer := slice(2)
	newer.Name = "newer"
	controllertest.Create(w.Cluster, object.ResourceSlice, newer)
	w.event(cancelling)
	w.left("p")
}

func newRule(device string, effect resourcev1beta2.DeviceTaintEffect, added time.Time) *devicetaint.Rule {
	return &devicetaint.Rule{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Spec: resourcev1beta2.DeviceTaintRuleSpec{
		DeviceSelector: &resourcev1beta2.DeviceTaintSelector{Driver: ptr.To("d"), Device: &device},
		Taint:          resourcev1beta2.DeviceTaint{Key: "broken", Effect: effect, TimeAdded: ptr.To(metav1.NewTime(added))},
	}}
}

// says awaits what the rule's condition tells.
func (w *world) says(reason, message string) {
	w.Helper()
	controllertest.Await(w.Cluster, devicetaint.Kind, reason+" "+message, func(rules []*devicetaint.Rule) bool {
		return len(rules) == 1 && len(rules[0].Status.Conditions) == 1 && rules[0].Status.Conditions[0].Reason == reason && rules[0].Status.Conditions[0].Message == message
	})
}

// TestARuleEndsPods: first it tells what would be, then it does so, and tells how far that has come.
func TestARuleEndsPods(t *testing.T) {
	t.Parallel()
	w := start(t, func(c *controllertest.Cluster) {
		user(c, "p", "a", tolerate("broken", resourcev1.DeviceTaintEffectNoExecute, ptr.To[int64](60)))
		user(c, "q", "a")
		user(c, "sound", "b")
	})
	controllertest.Create(w.Cluster, devicetaint.Kind, newRule("a", resourcev1beta2.DeviceTaintEffectNone, w.clock.Now()))
	w.says("NoEffect", "1 published device selected. 2 allocated devices selected. 2 pods would be evicted in 1 namespace "+
		"if the effect was NoExecute. This information will not be updated again. Recreate the DeviceTaintRule to trigger an update.")
	w.left("p", "q", "sound")
	r := controllertest.List(w.Cluster, devicetaint.Kind)[0]
	r.Spec.Taint.Effect = resourcev1beta2.DeviceTaintEffectNoExecute
	if _, err := object.For(w.Client, devicetaint.Kind).Update(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	w.left("p", "sound")
	w.event(marking)
	w.passing(50*time.Second, func() {
		w.says("PodsPendingEviction", "1 pod needs to be evicted in 1 namespace. 1 pod evicted since starting the controller.")
	})
	w.passing(time.Hour, func() { w.left("sound") })
	w.event(marking)
	w.passing(time.Hour, func() { w.says("Completed", "2 pods evicted since starting the controller.") })
	if got := controllertest.List(w.Cluster, devicetaint.Kind)[0].Status.Conditions[0]; got.Status != metav1.ConditionFalse || got.Type != "EvictionInProgress" {
		t.Errorf("condition %+v", got)
	}
}
