package queue

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testingclock "k8s.io/utils/clock/testing"
)

func TestMoves(t *testing.T) {
	t.Parallel()
	always := func(*corev1.Pod) bool { return true }
	fail := func(t *testing.T, q *Queue, retriable bool) { q.FailFor(next(t, q)[0], retriable, "x", "x") }
	tests := map[string]struct {
		act  func(t *testing.T, q *Queue, clock *testingclock.FakeClock)
		want []Move // besides the arrival of the pod
	}{
		"nothing happens":  {func(*testing.T, *Queue, *testingclock.FakeClock) {}, nil},
		"it does not fit":  {func(t *testing.T, q *Queue, _ *testingclock.FakeClock) { fail(t, q, false) }, []Move{{Failed, Unschedulable}}},
		"a write fails":    {func(t *testing.T, q *Queue, _ *testingclock.FakeClock) { fail(t, q, true) }, []Move{{Failed, Backoff}}},
		"it changes group": {func(_ *testing.T, q *Queue, _ *testingclock.FakeClock) { q.Add(pod("a", 0), 2) }, nil},
		"the back-off ends": {func(t *testing.T, q *Queue, clock *testingclock.FakeClock) {
			fail(t, q, true)
			clock.Step(time.Second)
			next(t, q)
		}, []Move{{Failed, Backoff}, {BackedOff, Active}}},
		"nothing else is to be done": {func(t *testing.T, q *Queue, _ *testingclock.FakeClock) {
			fail(t, q, false)
			q.Wake("NodeAdd")
			next(t, q)
		}, []Move{{Failed, Unschedulable}, {"NodeAdd", Backoff}, {Hastened, Active}}},
		"a node comes after the back-off": {func(t *testing.T, q *Queue, clock *testingclock.FakeClock) {
			fail(t, q, false)
			clock.Step(time.Second)
			q.Wake("NodeAdd")
		}, []Move{{Failed, Unschedulable}, {"NodeAdd", Active}}},
		"a node comes meanwhile": {func(t *testing.T, q *Queue, _ *testingclock.FakeClock) {
			items := next(t, q)
			q.Wake("NodeAdd")
			q.Fail(items[0], false)
		}, []Move{{Failed, Backoff}}},
		"nobody wakes it": {func(t *testing.T, q *Queue, clock *testingclock.FakeClock) {
			fail(t, q, false)
			clock.Step(idle)
			if items := next(t, q); len(items) != 1 || !items[0].Flushed {
				t.Errorf("popped %v", items)
			}
		}, []Move{{Failed, Unschedulable}, {TimedOut, Active}}},
		"a volume comes": {func(t *testing.T, q *Queue, clock *testingclock.FakeClock) {
			p := pod("a", 0)
			p.Spec.Volumes = []corev1.Volume{{VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}}
			q.Add(p, 1)
			fail(t, q, false)
			clock.Step(time.Second)
			q.WakeClaiming("PersistentVolumeAdd", always)
		}, []Move{{Failed, Unschedulable}, {"PersistentVolumeAdd", Active}}},
		"a pod comes": {func(t *testing.T, q *Queue, clock *testingclock.FakeClock) {
			q.AlsoSociable(always)
			fail(t, q, false)
			clock.Step(time.Second)
			q.WakeSociable(AssignedPodAdd, always)
		}, []Move{{Failed, Unschedulable}, {AssignedPodAdd, Active}}},
		"it changes": {func(t *testing.T, q *Queue, clock *testingclock.FakeClock) {
			fail(t, q, false)
			clock.Step(time.Second)
			changed := pod("a", 0)
			changed.Labels = map[string]string{"a": "b"}
			q.Add(changed, 2)
		}, []Move{{Failed, Unschedulable}, {podLabel, Active}}},
		"one comes with gates": {func(_ *testing.T, q *Queue, _ *testingclock.FakeClock) {
			q.Gate(pod("b", 0))
			q.Gate(pod("b", 0))
			q.Add(pod("b", 0), 1)
		}, []Move{{PodAdd, Unschedulable}, {podUngated, Active}}},
		"one comes without its claims": {func(_ *testing.T, q *Queue, _ *testingclock.FakeClock) {
			q.Hold(pod("b", 0), 1)
			q.WakeClaiming("resource.k8s.io/ResourceClaimAdd", always)
		}, []Move{{PodAdd, Unschedulable}, {"resource.k8s.io/ResourceClaimAdd", Active}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q, clock := setup()
			q.Add(pod("a", 0), 1)
			tt.act(t, q, clock)
			want := map[Move]int{{PodAdd, Active}: 1}
			for _, m := range tt.want {
				want[m]++
			}
			if diff := cmp.Diff(want, q.Moves()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestBlames(t *testing.T) {
	t.Parallel()
	q, _ := setup()
	for i, name := range []string{"small", "large", "odd"} {
		q.Add(pod(name, 0), uint64(i))
	}
	q.FailFor(next(t, q)[0], false, "room", "room")
	q.FailFor(next(t, q)[0], false, "room", "room")
	q.FailFor(next(t, q)[0], true, "", "volumes")
	q.Gate(pod("gated", 0))
	q.Hold(pod("held", 0), 7)
	want := map[Blame]int{{"", "room"}: 2, {"", "volumes"}: 1, {"", gates}: 1, {"", claims}: 1}
	if diff := cmp.Diff(want, q.Blames()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[State]int{Active: 0, Backoff: 1, Unschedulable: 2, Gated: 2}, q.Counts()); diff != "" {
		t.Error(diff)
	}
	q.Wake("NodeAdd")
	tried := next(t, q)
	q.Delete("gated")
	q.Delete("held")
	if diff := cmp.Diff(map[Blame]int{{"", "room"}: 2 - len(tried), {"", "volumes"}: 1}, q.Blames()); diff != "" {
		t.Errorf("of those that are being tried nobody knows: %s", diff)
	}
}

// TestSinceLeavesOutWhatHeldAPodBack: only what the scheduler could do something about is its time.
func TestSinceLeavesOutWhatHeldAPodBack(t *testing.T) {
	t.Parallel()
	q, clock := setup()
	q.Hold(pod("a", 0), 1)
	clock.Step(time.Minute)
	woken := clock.Now()
	q.WakeClaiming("resource.k8s.io/ResourceClaimAdd", func(*corev1.Pod) bool { return true })
	clock.Step(time.Second)
	item := next(t, q)[0]
	if !item.Since.Equal(woken) || !item.Added.Before(woken) {
		t.Errorf("since %v, added %v, want %v", item.Since, item.Added, woken)
	}
	q.Fail(item, false)
	clock.Step(time.Hour)
	if again := next(t, q)[0]; !again.Since.Equal(woken) {
		t.Errorf("since %v after another attempt", again.Since)
	}
}

func TestChangeOf(t *testing.T) {
	t.Parallel()
	large := pod("a", 0)
	large.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("2")}}}}
	tests := map[Event]func(*corev1.Pod){
		podLabel: func(p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} },
		podScaleDown: func(p *corev1.Pod) {
			p.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1")}}}}
		},
		podToleration: func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Key: "a"}} },
		podClaim: func(p *corev1.Pod) {
			p.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "a"}}
		},
		PodUpdate: func(p *corev1.Pod) { p.OwnerReferences = []metav1.OwnerReference{{Name: "a"}} },
	}
	for want, change := range tests {
		changed := large.DeepCopy()
		change(changed)
		if got := ChangeOf(large, changed); got != want {
			t.Errorf("%s is told as %s", want, got)
		}
	}
}
