package scheduler

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/leading/leadingtest"
	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
)

func TestPodsAreBoundInBatches(t *testing.T) {
	t.Parallel()
	w := start(t, leadingtest.New(), func(w *world) {
		addMany(w, object.Node, 10, func(i int) *corev1.Node { return node(numbered("node", i), "16") })
		addMany(w, object.Pod, 500, func(i int) *corev1.Pod { return pod(numbered("web", i), "100m") })
	})
	before := w.api.Calls("batch")
	pods := w.awaitPods("500 pods to be bound", bound(500))
	perNode := map[string]int{}
	for _, p := range pods {
		perNode[p.Spec.NodeName]++
		if c := condition(p); c == nil || c.Status != corev1.ConditionTrue {
			t.Fatalf("%s has the condition %v", p.Name, c)
		}
	}
	for name, n := range perNode {
		if len(perNode) != 10 || n < 45 || n > 55 {
			t.Errorf("%s has %d pods: 500 identical pods must spread over 10 equal nodes", name, n)
		}
	}
	// How many fit into one depends on how fast the pods come: one call each would be 1,000.
	if calls := w.api.Calls("batch") - before; calls > 100 {
		t.Errorf("%d calls for 500 bindings and their events", calls)
	}
}

func TestOnlyItsOwnPods(t *testing.T) {
	t.Parallel()
	other, gated, placed := pod("other", "1"), pod("gated", "1"), pod("placed", "1")
	other.Spec.SchedulerName = "my-scheduler"
	gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/wait"}}
	placed.Spec.NodeName = "elsewhere"
	w := start(t, leadingtest.New(), func(w *world) { w.addNode(node("n", "4")) })
	for _, p := range []*corev1.Pod{other, gated, placed, pod("mine", "1")} {
		w.addPod(t.Context(), p)
	}
	pods := w.awaitPods("its pod to be bound", func(pods map[string]*corev1.Pod) bool {
		return pods["mine"] != nil && pods["mine"].Spec.NodeName == "n"
	})
	if pods["other"].Spec.NodeName != "" || pods["gated"].Spec.NodeName != "" || pods["placed"].Spec.NodeName != "elsewhere" {
		t.Error("a pod that is not the scheduler's was touched")
	}
	if _, err := object.For(w.client, object.Pod).Patch(t.Context(), "shop", "gated", "application/merge-patch+json", []byte(`{"spec":{"schedulingGates":null}}`), ""); err != nil {
		t.Fatal(err)
	}
	w.awaitPods("the pod whose gate went", func(pods map[string]*corev1.Pod) bool { return pods["gated"].Spec.NodeName == "n" })
}

func TestUnschedulablePodsSayWhyAndAreTriedAgain(t *testing.T) {
	t.Parallel()
	w := start(t, leadingtest.New(), func(w *world) {
		w.addNode(node("small", "1"))
		cordoned := node("cordoned", "16")
		cordoned.Spec.Unschedulable = true
		w.addNode(cordoned)
	})
	w.addPod(t.Context(), pod("big", "4"))
	const message = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were unschedulable. " +
		"no new claims to deallocate, preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
	pods := w.awaitPods("the condition", func(pods map[string]*corev1.Pod) bool { return condition(pods["big"]) != nil })
	if c := condition(pods["big"]); c.Status != corev1.ConditionFalse || c.Reason != corev1.PodReasonUnschedulable || c.Message != message {
		t.Errorf("the condition is %+v", c)
	}
	e := w.awaitEvent("FailedScheduling")
	if e.Message != message || e.Type != corev1.EventTypeWarning || e.InvolvedObject.Name != "big" || e.ReportingController != "default-scheduler" || e.Action != "Scheduling" {
		t.Errorf("the event is %+v", e)
	}

	w.addNode(node("large", "8"))
	pods = w.awaitPods("the pod to be tried again", bound(1))
	if pods["big"].Spec.NodeName != "large" || condition(pods["big"]).Status != corev1.ConditionTrue {
		t.Errorf("the pod is on %q with %+v", pods["big"].Spec.NodeName, condition(pods["big"]))
	}
	if e := w.awaitEvent("Scheduled"); e.Message != "Successfully assigned shop/big to large" {
		t.Errorf("the event says %q", e.Message)
	}
}

func TestAPodThatLeavesMakesRoom(t *testing.T) {
	t.Parallel()
	w := start(t, leadingtest.New(), func(w *world) { w.addNode(node("n", "1")) })
	w.addPod(t.Context(), pod("first", "1"))
	w.awaitPods("the first pod", bound(1))
	w.addPod(t.Context(), pod("second", "1"))
	w.awaitPods("the second pod to wait", func(pods map[string]*corev1.Pod) bool { return condition(pods["second"]) != nil })
	now := int64(0)
	if err := object.For(w.client, object.Pod).Delete(t.Context(), "shop", "first", metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		t.Fatal(err)
	}
	w.awaitPods("the second pod", func(pods map[string]*corev1.Pod) bool { return pods["second"].Spec.NodeName == "n" })
}

// awaitEvent returns the first event with a reason.
func (w *world) awaitEvent(reason string) *corev1.Event {
	w.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	watch, err := object.For(w.client, object.Event).Watch(ctx, "", metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		w.Fatal(err)
	}
	defer watch.Stop()
	for e := range watch.ResultChan() {
		if event := e.Object.(*corev1.Event); event.Reason == reason {
			return event
		}
	}
	w.Fatalf("no event %s in 10 s", reason)
	return nil
}

func TestARefusedBindingIsTriedAgain(t *testing.T) {
	t.Parallel()
	var refusals, bindings atomic.Int32
	refusals.Store(1)
	w := start(t, leadingtest.New(), func(w *world) {
		w.api.Intercept = func(write objecttest.Write) error {
			if write.Subresource != "binding" {
				return nil
			}
			bindings.Add(1)
			if refusals.Add(-1) >= 0 {
				return apierrors.NewConflict(object.Pod.GroupResource(), write.Name, fmt.Errorf("try again"))
			}
			return nil
		}
		w.addNode(node("n", "1"))
	})
	w.addPod(t.Context(), pod("p", "1")) // takes the whole node: a leaked assumption would leave no room
	w.awaitPods("the second try", bound(1))
	if n := bindings.Load(); n != 2 {
		t.Errorf("%d bindings, want 2", n)
	}
}

func TestAPodThatIsDeletedMeanwhileIsForgotten(t *testing.T) {
	t.Parallel()
	binding, goOn := make(chan struct{}), make(chan struct{})
	tried := sync.OnceFunc(func() { close(binding) }) // it is tried again where the refusal is heard before the deletion
	w := start(t, leadingtest.New(), func(w *world) {
		w.api.Intercept = func(write objecttest.Write) error {
			if write.Subresource != "binding" || write.Name != "gone" {
				return nil
			}
			tried()
			<-goOn
			return apierrors.NewNotFound(object.Pod.GroupResource(), write.Name)
		}
		w.addNode(node("n", "1"))
	})
	gone := w.addPod(t.Context(), pod("gone", "1"))
	<-binding
	close(goOn)
	if err := object.For(w.client, object.Pod).Delete(t.Context(), "shop", "gone", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.addPod(t.Context(), pod("next", "1"))
	w.awaitPods("the next pod to take the place", func(pods map[string]*corev1.Pod) bool {
		return pods["next"] != nil && pods["next"].Spec.NodeName == "n"
	})
	if state, _ := w.s.queue.Lookup(gone.UID); state != "" || w.s.cache.Placed(gone.UID) {
		t.Errorf("the deleted pod is still in the queue (%q) or counted (%t)", state, w.s.cache.Placed(gone.UID))
	}
}

func TestStandbyStaysPassiveAndTakesOver(t *testing.T) {
	t.Parallel()
	var fences atomic.Value
	closed := leadingtest.Closed()
	w := start(t, closed, func(w *world) {
		w.api.Intercept = func(write objecttest.Write) error {
			if write.Subresource == "binding" {
				fences.Store(write.Fence)
			}
			return nil
		}
		w.addNode(node("n", "16"))
	})
	w.addPod(t.Context(), pod("p", "1"))
	for len(w.s.pods.List("")) == 0 { // the standby follows
		time.Sleep(time.Millisecond)
	}
	if n := w.s.queue.Counts()["active"]; n > 1 || w.api.Calls("create pods") != 1 {
		t.Errorf("a standby has bound a pod: %d create calls", w.api.Calls("create pods"))
	}
	closed.Open()
	w.awaitPods("the new leader to bind", bound(1))
	if fences.Load() != "scheduler/1" {
		t.Errorf("the binding bears the fence %q", fences.Load())
	}
}

func TestLossOfLeadershipHandsWorkBack(t *testing.T) {
	t.Parallel()
	election := leadingtest.New()
	stuck, goOn := make(chan struct{}, 1), make(chan struct{})
	var fence atomic.Value
	w := start(t, election, func(w *world) {
		w.api.Intercept = func(write objecttest.Write) error {
			if write.Subresource != "binding" {
				return nil
			}
			if write.Fence == "scheduler/1" {
				select {
				case stuck <- struct{}{}:
					<-goOn
				default:
				}
				return apierrors.NewConflict(object.Pod.GroupResource(), write.Name, fmt.Errorf("another leads"))
			}
			fence.Store(write.Fence)
			return nil
		}
		addMany(w, object.Node, 4, func(i int) *corev1.Node { return node(numbered("node", i), "64") })
		// More than the binders take at once: some decisions are still queued.
		addMany(w, object.Pod, 2000, func(i int) *corev1.Pod {
			p := pod(numbered("web", i), "10m")
			p.Labels["app"] = fmt.Sprint(i % 20)
			return p
		})
	})
	_ = w
	<-stuck
	go func() { time.Sleep(20 * time.Millisecond); close(goOn) }()
	election.End(t)
	if _, pods, assumed := w.s.cache.Counts(); pods != 0 || assumed != 0 {
		t.Errorf("%d pods count on nodes, %d of them assumed, after the leadership ended", pods, assumed)
	}
	election.Open()
	w.awaitPods("the next leader to bind what fits", bound(4*110)) // the nodes take 110 pods each
	if fence.Load() != "scheduler/2" {
		t.Errorf("the fence is %v", fence.Load())
	}
}

func TestSpansOfAPod(t *testing.T) {
	t.Parallel()
	w := start(t, leadingtest.New(), func(w *world) { w.addNode(node("n", "16")) })
	ctx, root := otel.Tracer("test").Start(t.Context(), "kubectl apply")
	w.addPod(ctx, pod("traced", "1"))
	root.End()
	w.awaitPods("the pod", bound(1))
	w.awaitEvent("Scheduled") // is recorded before the span ends, so wait for that too
	byName := map[string]sdktrace.ReadOnlySpan{}
	deadline := time.Now().Add(time.Minute)
	for byName["scheduler.schedule"] == nil && time.Now().Before(deadline) {
		for _, s := range spans.Ended() {
			if s.SpanContext().TraceID() == root.SpanContext().TraceID() && strings.HasPrefix(s.Name(), "scheduler.") {
				byName[s.Name()] = s
			}
		}
		time.Sleep(time.Millisecond)
	}
	decision := byName["scheduler.schedule"]
	if decision == nil {
		t.Fatalf("the pod's trace has only %v", byName)
	}
	attributes := map[string]string{}
	for _, a := range decision.Attributes() {
		attributes[string(a.Key)] = a.Value.Emit()
	}
	for key, want := range map[string]string{"k8s.kind": "Pod", "k8s.namespace": "shop", "k8s.name": "traced", "howdah.node": "n", "howdah.attempt": "1"} {
		if attributes[key] != want {
			t.Errorf("attribute %s is %q, want %q", key, attributes[key], want)
		}
	}
	for _, name := range []string{"scheduler.queue", "scheduler.filters", "scheduler.scores", "scheduler.bind"} {
		s := byName[name]
		if s == nil || s.Parent().SpanID() != decision.SpanContext().SpanID() {
			t.Errorf("%s is no child of the decision", name)
			continue
		}
		if s.StartTime().Before(decision.StartTime()) || s.EndTime().After(decision.EndTime()) {
			t.Errorf("%s is outside of the decision", name)
		}
	}
}
