package status

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
)

func start(t *testing.T) (*objecttest.Server, object.Resource[*corev1.Pod], *Writer) {
	t.Helper()
	api := objecttest.New()
	pods, w := serve(t, api)
	return api, pods, w
}

// serve runs a writer on the API.
func serve(t *testing.T, api *objecttest.Server) (object.Resource[*corev1.Pod], *Writer) {
	t.Helper()
	client := api.Serve(t)
	w := New(client, clock.RealClock{}, nil, nil)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = w.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	return object.For(client, object.Pod), w
}

func create(t *testing.T, pods object.Resource[*corev1.Pod], name string) *corev1.Pod {
	t.Helper()
	p, err := pods.Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func phase(phase corev1.PodPhase) corev1.PodStatus {
	return corev1.PodStatus{Phase: phase, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
}

func eventually(t *testing.T, what string, check func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for !check() {
		select {
		case <-ctx.Done():
			t.Fatalf("never: %s", what)
		case <-time.After(time.Millisecond):
		}
	}
}

func TestWritesShareCalls(t *testing.T) {
	t.Parallel()
	api, pods, w := start(t)
	var all []*corev1.Pod
	for i := range 200 {
		all = append(all, create(t, pods, fmt.Sprint("p", i)))
	}
	for _, p := range all {
		w.Set(t.Context(), p, phase(corev1.PodRunning))
	}
	for _, p := range all {
		eventually(t, p.Name+" runs", func() bool {
			now, err := pods.Get(t.Context(), "ns", p.Name)
			return err == nil && now.Status.Phase == corev1.PodRunning
		})
	}
	if calls := api.Calls("batch"); calls > 10 {
		t.Errorf("%d calls for 200 pods", calls)
	}
	writes := api.Writes("pods")
	for _, p := range all { // the informer has not seen the writes yet
		w.Set(t.Context(), p, phase(corev1.PodRunning))
	}
	w.Set(t.Context(), all[0], phase(corev1.PodSucceeded))
	eventually(t, "the one change", func() bool { return api.Writes("pods") > writes })
	if now := api.Writes("pods"); now != writes+1 {
		t.Errorf("%d writes for one change", now-writes)
	}
}

func TestConflictsKeepWhatOthersWrote(t *testing.T) {
	t.Parallel()
	_, pods, w := start(t)
	stale := create(t, pods, "p")
	other := stale.DeepCopy()
	other.Labels = map[string]string{"new": "label"}
	other, err := pods.Update(t.Context(), other)
	if err != nil {
		t.Fatal(err)
	}
	other.Status.Conditions = []corev1.PodCondition{{Type: "x/gate", Status: corev1.ConditionTrue}, {Type: corev1.PodScheduled, Status: corev1.ConditionTrue}}
	if _, err := pods.UpdateStatus(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	told := phase(corev1.PodRunning)
	told.Conditions = append(told.Conditions, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, ObservedGeneration: 1},
		corev1.PodCondition{Type: corev1.AllContainersRestarting, Status: corev1.ConditionFalse})
	w.Set(t.Context(), stale, told)
	var now *corev1.Pod
	eventually(t, "the status is written", func() bool {
		now, err = pods.Get(t.Context(), "ns", "p")
		return err == nil && now.Status.Phase == corev1.PodRunning
	})
	if now.Labels["new"] != "label" || len(now.Status.Conditions) != 4 {
		t.Errorf("labels %v, conditions %v", now.Labels, now.Status.Conditions)
	}
	for _, c := range now.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.ObservedGeneration != 1 {
			t.Errorf("the agent has seen the pod, and the condition does not say so: %v", c)
		}
	}
}

func TestDeletionFollowsTheLastStatus(t *testing.T) {
	t.Parallel()
	api, pods, w := start(t)
	p := create(t, pods, "p")
	w.Set(t.Context(), p, phase(corev1.PodFailed))
	w.Delete(t.Context(), p)
	eventually(t, "it is gone", func() bool { _, err := pods.Get(t.Context(), "ns", "p"); return err != nil })
	if writes := api.Writes("pods"); writes != 3 { // created, told, deleted
		t.Errorf("%d writes", writes)
	}
	// A pod of the same name that came after it is not touched.
	again := create(t, pods, "p")
	w.Delete(t.Context(), p)
	w.Set(t.Context(), p, phase(corev1.PodRunning))
	third := create(t, pods, "q")
	w.Set(t.Context(), third, phase(corev1.PodRunning))
	eventually(t, "a later write", func() bool {
		now, err := pods.Get(t.Context(), "ns", "q")
		return err == nil && now.Status.Phase == corev1.PodRunning
	})
	now, err := pods.Get(t.Context(), "ns", "p")
	if err != nil || now.UID != again.UID || now.Status.Phase != "" {
		t.Errorf("the new pod: %v, %v", now, err)
	}
}

func TestFailuresAreRepeated(t *testing.T) {
	t.Parallel()
	api := objecttest.New()
	var failures atomic.Int32
	api.Intercept = func(w objecttest.Write) error {
		if w.Verb == "update" && failures.Add(1) <= 3 {
			return errors.New("the database is away")
		}
		return nil
	}
	pods, w := serve(t, api)
	synced := make(chan time.Duration, 10)
	w.synced = func(took time.Duration) { synced <- took }
	p := create(t, pods, "p")
	w.Set(t.Context(), p, phase(corev1.PodRunning))
	eventually(t, "it runs", func() bool {
		now, err := pods.Get(t.Context(), "ns", "p")
		return err == nil && now.Status.Phase == corev1.PodRunning
	})
	if took := <-synced; took < 3*retryBase || len(synced) > 0 {
		t.Errorf("told %v after it was asked for, and %d times more", took, len(synced))
	}
}

// Who waits for what was asked for waits over failures, too.
func TestWrittenWaitsForAll(t *testing.T) {
	t.Parallel()
	api := objecttest.New()
	var failures atomic.Int32
	let := make(chan struct{})
	api.Intercept = func(w objecttest.Write) error {
		if w.Verb != "update" {
			return nil
		}
		<-let
		if failures.Add(1) == 1 {
			return errors.New("the database is away")
		}
		return nil
	}
	pods, w := serve(t, api)
	if err := w.Written(t.Context()); err != nil {
		t.Fatalf("nothing was asked for: %v", err)
	}
	p := create(t, pods, "p")
	w.Set(t.Context(), p, phase(corev1.PodSucceeded))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.Written(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("the write is not let through, and got %v", err)
	}
	close(let)
	if err := w.Written(t.Context()); err != nil {
		t.Fatal(err)
	}
	if now, err := pods.Get(t.Context(), "ns", "p"); err != nil || now.Status.Phase != corev1.PodSucceeded {
		t.Errorf("got %v, %v", now.Status.Phase, err)
	}
}
