package queue

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
)

func pod(name string, priority int32) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}, Spec: corev1.PodSpec{Priority: ptr.To(priority)}}
}

func names(items []*Item) string {
	s := ""
	for _, i := range items {
		s += i.Pod.Name
	}
	return s
}

func setup() (*Queue, *testingclock.FakeClock) {
	clock := testingclock.NewFakeClock(time.Unix(1000, 0))
	return New(clock, DefaultBackoffs), clock
}

// next pops without waiting.
func next(t *testing.T, q *Queue) []*Item {
	t.Helper()
	items, _ := q.take(100)
	return items
}

func TestOrder(t *testing.T) {
	t.Parallel()
	q, clock := setup()
	q.Add(pod("a", 0), 1)
	clock.Step(time.Second)
	q.Add(pod("b", 0), 2)
	q.Add(pod("c", 10), 3)
	q.Add(pod("d", 0), 1)
	for _, want := range []string{"c", "ad", "b", ""} {
		if got := names(next(t, q)); got != want {
			t.Fatalf("popped %q, want %q", got, want)
		}
	}
}

func TestUnschedulableWaitsForAChange(t *testing.T) {
	t.Parallel()
	q, clock := setup()
	q.Add(pod("a", 0), 1)
	q.Fail(next(t, q)[0], false)
	clock.Step(30 * time.Second)
	if got := next(t, q); got != nil {
		t.Fatalf("popped %s though nothing changed", names(got))
	}
	q.Wake("NodeAdd")
	item := next(t, q)
	if names(item) != "a" {
		t.Fatal("a change must wake the pod at once when its back-off is over")
	}
	q.Fail(item[0], false)
	q.Wake("NodeAdd")
	if state, attempts := q.Lookup("a"); state != Backoff || attempts != 2 {
		t.Fatalf("state %s after %d attempts, want back-off after 2", state, attempts)
	}
	clock.Step(2 * time.Second)
	if names(next(t, q)) != "a" {
		t.Fatal("the second back-off is 2 s")
	}
}

func TestAChangeOfStorageWakesPodsWithClaims(t *testing.T) {
	t.Parallel()
	claiming := func(name string) *corev1.Pod {
		p := pod(name, 0)
		p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}}}
		return p
	}
	q, clock := setup()
	for i, p := range []*corev1.Pod{claiming("a"), claiming("b"), pod("c", 0)} {
		q.Add(p, uint64(i))
		q.Fail(next(t, q)[0], false)
	}
	clock.Step(30 * time.Second)
	q.WakeClaiming("PersistentVolumeAdd", func(p *corev1.Pod) bool { return p.Name != "b" })
	woken := next(t, q)
	if names(woken) != "a" {
		t.Fatalf("popped %q, want the pod whose claim has changed", names(woken))
	}
	q.WakeClaiming("PersistentVolumeAdd", func(*corev1.Pod) bool { return false }) // what is being tried may have been looked at before
	if q.Fail(woken[0], false); len(q.claiming) != 1 {
		t.Errorf("%d pods wait for a change of storage, want 1", len(q.claiming))
	}
	if state, _ := q.Lookup("a"); state != Backoff {
		t.Errorf("the pod that was tried while storage changed is %s", state)
	}
	if state, _ := q.Lookup("c"); state != Unschedulable {
		t.Errorf("a pod without claims is %s", state)
	}
	q.Delete("b")
	if len(q.claiming) != 0 {
		t.Error("a deleted pod waits for a change of storage")
	}
}

func TestAChangeDuringTheAttemptIsNotLost(t *testing.T) {
	t.Parallel()
	q, clock := setup()
	q.Add(pod("a", 0), 1)
	item := next(t, q)[0]
	q.Wake("NodeAdd")
	q.Fail(item, false)
	clock.Step(time.Second)
	if names(next(t, q)) != "a" {
		t.Fatal("the pod must be tried again after its back-off")
	}
}

func TestAPodThatChangesDuringTheAttemptIsTriedAgain(t *testing.T) {
	t.Parallel()
	q, clock := setup()
	q.Add(pod("a", 0), 1)
	item := next(t, q)[0]
	newer := pod("a", 0)
	q.Add(newer, 2)
	if item.Pod == newer {
		t.Error("an item that was popped must not change")
	}
	q.Fail(item, false)
	clock.Step(time.Second)
	if again := next(t, q); len(again) != 1 || again[0].Pod != newer {
		t.Fatal("the newer pod must be tried after the back-off")
	}
}

func TestRetriableNeedsNoChange(t *testing.T) {
	t.Parallel()
	q, clock := setup()
	q.Add(pod("a", 0), 1)
	q.Fail(next(t, q)[0], true)
	if got := next(t, q); got != nil {
		t.Fatal("popped within the back-off")
	}
	clock.Step(time.Second)
	if names(next(t, q)) != "a" {
		t.Fatal("not tried again after the back-off")
	}
}

func TestDeletedPodsAreForgotten(t *testing.T) {
	t.Parallel()
	q, _ := setup()
	q.Add(pod("a", 0), 1)
	q.Add(pod("b", 0), 1)
	q.Delete("a")
	items := next(t, q)
	if names(items) != "b" {
		t.Fatalf("popped %s", names(items))
	}
	q.Delete("b")
	q.Fail(items[0], true)
	if state, _ := q.Lookup("b"); state != "" {
		t.Fatalf("a deleted pod came back as %s", state)
	}
}

func TestPopWaitsForAPodAndEndsWithItsContext(t *testing.T) {
	t.Parallel()
	q, _ := setup()
	got := make(chan []*Item)
	ctx, cancel := context.WithCancel(t.Context())
	go func() { got <- q.Pop(ctx, 10) }()
	q.Add(pod("a", 0), 1)
	if names(<-got) != "a" {
		t.Fatal("not woken by a new pod")
	}
	go func() { got <- q.Pop(ctx, 10) }()
	cancel()
	if items := <-got; items != nil {
		t.Fatalf("popped %s after the end", names(items))
	}
}

func TestBackoffDoubles(t *testing.T) {
	t.Parallel()
	const second = time.Second
	for backoffs, waits := range map[Backoffs]map[int]time.Duration{
		DefaultBackoffs:          {0: 0, 1: second, 2: 2 * second, 4: 8 * second, 5: 10 * second, 90: 10 * second},
		{3 * second, 7 * second}: {0: 0, 1: 3 * second, 2: 6 * second, 3: 7 * second, 4: 7 * second},
		{second, second}:         {1: second, 2: second},
		{second, 1<<63 - 1}:      {1: second, 10: 512 * second, 1000: 1<<63 - 1},
	} {
		for attempts, want := range waits {
			if got := backoffs.after(attempts); got != want {
				t.Errorf("%v: after %d attempts %s, want %s", backoffs, attempts, got, want)
			}
		}
	}
}

func TestAChangedPodMovesToItsNewGroup(t *testing.T) {
	t.Parallel()
	q, clock := setup()
	q.Add(pod("a", 0), 1)
	clock.Step(time.Second)
	q.Add(pod("b", 0), 1)
	q.Add(pod("a", 5), 2) // e.g. its gate went, and its labels
	q.Add(pod("c", 0), 2)
	for _, want := range []string{"ac", "b", ""} {
		if got := names(next(t, q)); got != want {
			t.Fatalf("popped %q, want %q", got, want)
		}
	}
}

// TestEveryPodIsServedOnce drives the queue at random and checks that it
// never loses a pod, never hands one out twice, and keeps the order.
func TestEveryPodIsServedOnce(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	q, clock := setup()
	out, known := map[types.UID]*Item{}, map[types.UID]bool{}
	for step := range 20_000 {
		name := types.UID(fmt.Sprint("p", random.IntN(50)))
		switch random.IntN(7) {
		case 0, 1:
			group := uint64(random.IntN(5))
			q.Add(pod(string(name), int32(group)), group)
			known[name] = true
		case 2:
			q.Delete(name)
			delete(known, name)
			delete(out, name)
		case 3:
			q.Wake("NodeAdd")
		case 4:
			clock.Step(time.Duration(random.IntN(3000)) * time.Millisecond)
		case 5:
			for uid, item := range out { // one at random
				delete(out, uid)
				q.Fail(item, random.IntN(2) == 0)
				break
			}
		case 6:
			items, wait := q.take(1 + random.IntN(3))
			if len(items) == 0 && wait <= 0 {
				t.Fatalf("step %d: nothing to pop and nothing to wait for", step)
			}
			for i, item := range items {
				if uid := item.Pod.UID; out[uid] != nil || !known[uid] {
					t.Fatalf("step %d: %s was handed out wrongly", step, uid)
				}
				if i > 0 && sooner(item, items[i-1]) {
					t.Fatalf("step %d: out of order", step)
				}
				out[item.Pod.UID] = item
			}
		}
		counts := q.Counts()
		if sum := counts[Active] + counts[Backoff] + counts[Unschedulable]; sum != len(known)-len(out) {
			t.Fatalf("step %d: %d pods wait, want %d", step, sum, len(known)-len(out))
		}
	}
	for uid, item := range out {
		delete(out, uid)
		q.Fail(item, false)
	}
	clock.Step(idle + time.Second)
	served := 0
	for items := next(t, q); len(items) > 0; items = next(t, q) {
		served += len(items)
	}
	if served != len(known) {
		t.Fatalf("%d pods were served at the end, want %d", served, len(known))
	}
}

// TestAHeldPodIsTriedOnceItsClaimsAreThere: at once, and not before; nodes that come and go do not wake it.
func TestAHeldPodIsTriedOnceItsClaimsAreThere(t *testing.T) {
	t.Parallel()
	q, _ := setup()
	p := pod("a", 0)
	p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "c"}}
	q.Hold(p, 1)
	q.Wake("NodeAdd")
	q.Hold(p, 2)
	if got := next(t, q); len(got) != 0 {
		t.Fatalf("popped %s", names(got))
	}
	if state, attempts := q.Lookup("a"); state != Unschedulable || attempts != 0 {
		t.Errorf("it is %s after %d attempts", state, attempts)
	}
	q.WakeClaiming("PersistentVolumeAdd", func(p *corev1.Pod) bool { return p.UID == "a" })
	items := next(t, q)
	if names(items) != "a" {
		t.Fatalf("popped %q", names(items))
	}
	q.Fail(items[0], false)
	q.Hold(p, 3) // it is known, and has changed
	if got := names(next(t, q)); got != "a" {
		t.Errorf("popped %q", got)
	}
	q.Delete("a")
	q.Hold(p, 1)
	q.Add(p, 1)
	q.Delete("a")
	if got := next(t, q); len(got) != 0 {
		t.Errorf("popped %s", names(got))
	}
}
