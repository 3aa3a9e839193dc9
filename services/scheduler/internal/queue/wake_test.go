package queue

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// TestWhoIsWokenDoesNotWaitWhereNothingElseIsToBeDone: as in Kubernetes, a back-off only orders those that wait, unless a write has failed.
func TestWhoIsWokenDoesNotWaitWhereNothingElseIsToBeDone(t *testing.T) {
	t.Parallel()
	q, clock := setup()
	for i, name := range []string{"first", "second", "failed"} {
		q.Add(pod(name, 0), uint64(i))
		q.Fail(next(t, q)[0], name == "failed")
	}
	q.Wake("NodeAdd")
	q.Add(pod("new", 0), 9)
	for _, want := range []string{"new", "first", "second", ""} {
		if got := names(next(t, q)); got != want {
			t.Fatalf("popped %q, want %q", got, want)
		}
	}
	clock.Step(time.Second)
	if got := names(next(t, q)); got != "failed" {
		t.Errorf("popped %q after the back-off", got)
	}
}

func TestOnlyWhatMayHelpWakes(t *testing.T) {
	t.Parallel()
	q, clock := setup()
	for i, name := range []string{"taints", "room", ""} {
		q.Add(pod("by-"+name, 0), uint64(i))
		q.FailFor(next(t, q)[0], false, name, name)
	}
	asked := 0
	room := func(_ *corev1.Pod, cause string) bool { asked++; return cause == "room" }
	q.WakeFor("NodeAdd", room)
	popped := map[string]*Item{}
	for range 2 {
		item := next(t, q)
		popped[names(item)] = item[0]
	}
	if popped["by-room"] == nil || popped["by-"] == nil || len(next(t, q)) > 0 || asked != 2 {
		t.Fatalf("popped %v after %d questions", popped, asked)
	}
	q.WakeFor("NodeAdd", room) // while they are being tried
	q.FailFor(popped["by-room"], false, "taints", "taints")
	q.FailFor(popped["by-"], false, "room", "room")
	if got := names(next(t, q)); got != "by-" {
		t.Errorf("popped %q", got)
	}
	again := popped["by-room"]
	q.HeedOwn(func(_, _ *corev1.Pod, cause string) bool { return cause == "labels" })
	q.Add(again.Pod, 7)
	clock.Step(time.Minute)
	if got := next(t, q); len(got) > 0 {
		t.Errorf("popped %q after a change that does not help", names(got))
	}
}

func TestWhatIsForgottenWakes(t *testing.T) {
	t.Parallel()
	q, _ := setup()
	q.Add(pod("a", 0), 1)
	item := next(t, q)[0]
	for range remembered + 1 {
		q.WakeFor("NodeAdd", func(*corev1.Pod, string) bool { return false })
	}
	q.FailFor(item, false, "taints", "taints")
	if got := names(next(t, q)); got != "a" {
		t.Errorf("popped %q", got)
	}
}
