package scheduler

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/kit/leading/leadingtest"
	"howdah.dev/kit/object"
)

const twoProfiles = `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
- schedulerName: packing
  plugins:
    preScore: {disabled: [{name: "*"}], enabled: [{name: NodeResourcesFit}]}
    score: {disabled: [{name: "*"}], enabled: [{name: NodeResourcesFit, weight: 5}]}
    postFilter: {disabled: [{name: DefaultPreemption}]}
  pluginConfig:
  - {name: NodeResourcesFit, args: {scoringStrategy: {type: MostAllocated}}}
`

func configured(t *testing.T, text string) *Configuration {
	t.Helper()
	path := filepath.Join(t.TempDir(), "scheduler.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := LoadConfiguration(path)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestProfiles has pods of two profiles in one scheduler, and one that another scheduler places: there are a node on which half is taken and an empty one.
func TestProfiles(t *testing.T) {
	t.Parallel()
	of := func(scheduler string, p *corev1.Pod) *corev1.Pod {
		p.Spec.SchedulerName = scheduler
		return p
	}
	w := start(t, leadingtest.New(), func(w *world) {
		w.configuration = configured(t, twoProfiles)
		w.addNode(node("empty", "4"))
		w.addNode(node("half", "4"))
		there := pod("there", "2")
		there.Spec.NodeName = "half"
		w.addPod(t.Context(), there)
	})
	w.addPod(t.Context(), of("another", pod("stranger", "1")))
	w.addPod(t.Context(), of("default-scheduler", pod("spread", "1")))
	w.addPod(t.Context(), of("packing", pod("packed", "1")))
	w.awaitPods("both profiles to decide", bound(3))
	large := of("packing", pod("large", "4")) // it would have to have spread removed
	large.Spec.Priority = ptr.To(int32(1000))
	w.addPod(t.Context(), large)
	pods := w.awaitPods("the large one to wait", func(pods map[string]*corev1.Pod) bool { return condition(pods["large"]) != nil })
	for name, want := range map[string]string{"spread": "empty", "packed": "half", "stranger": "", "large": ""} {
		if got := pods[name].Spec.NodeName; got != want {
			t.Errorf("%s is on node %q, want %q", name, got, want)
		}
	}
	if got := condition(pods["large"]).Message; got != "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate" {
		t.Errorf("a profile without preemption says %q", got)
	}
	for pod, scores := range map[string]int{"packed": 1, "spread": 8, "stranger": 8} {
		if got := explain(t, w, pod).GetNodes()[0].GetScores(); len(got) != scores {
			t.Errorf("%s has the scores %v, want %d", pod, got, scores)
		}
	}
	w.awaitSources(map[string]string{"spread": "default-scheduler", "packed": "packing"})
	for profile, want := range map[string]float64{"default-scheduler": 1, "packing": 1, "another": 0} {
		if got := testutil.ToFloat64(w.s.metrics.attempts.WithLabelValues("scheduled", profile)); got != want {
			t.Errorf("%v pods scheduled by %s, want %v", got, profile, want)
		}
	}
}

// awaitSources follows the events until one of each pod tells that it was scheduled, by the scheduler that is wanted.
func (w *world) awaitSources(wants map[string]string) {
	w.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	events := object.For(w.client, object.Event)
	all, list, err := events.List(ctx, "shop", metav1.ListOptions{})
	if err != nil {
		w.Fatal(err)
	}
	watch, err := events.Watch(ctx, "shop", metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		w.Fatal(err)
	}
	defer watch.Stop()
	see := func(e *corev1.Event) {
		want, ok := wants[e.InvolvedObject.Name]
		if !ok || e.Reason != "Scheduled" {
			return
		}
		if e.ReportingController != want {
			w.Errorf("%s was scheduled by %q, want %q", e.InvolvedObject.Name, e.ReportingController, want)
		}
		delete(wants, e.InvolvedObject.Name)
	}
	for _, e := range all {
		see(e)
	}
	for len(wants) > 0 {
		e, ok := <-watch.ResultChan()
		if !ok {
			w.Fatalf("no event tells of %v", wants)
		}
		see(e.Object.(*corev1.Event))
	}
}
