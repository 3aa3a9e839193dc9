package source

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"howdah.dev/nodeagent/internal/pod"
)

// world is the API's cache and the workers.
type world struct {
	t     *testing.T
	set   *Set
	api   map[types.NamespacedName]*corev1.Pod
	calls []string
	given map[types.UID]*corev1.Pod
	// restarts is how often a pod started that had just ended.
	restarts int
}

func (w *world) List(string) (out []*corev1.Pod) {
	for _, p := range w.api {
		out = append(out, p)
	}
	return out
}

func (w *world) Get(namespace, name string) (*corev1.Pod, bool) {
	p, ok := w.api[types.NamespacedName{Namespace: namespace, Name: name}]
	return p, ok
}

func (w *world) Update(p *corev1.Pod) {
	verb := "update"
	if p.DeletionTimestamp != nil {
		verb = "end"
	}
	w.set.Trace(p) // as workers do when they are made
	w.calls, w.given[p.UID] = append(w.calls, verb+" "+string(p.UID)), p
}
func (w *world) Remove(p *corev1.Pod) { w.calls = append(w.calls, "remove "+string(p.UID)) }
func (w *world) Adopt(uid types.UID, _, _ string) {
	w.calls = append(w.calls, "adopt "+string(uid))
}

type named string

func (n named) Name() string                                       { return string(n) }
func (named) Run(ctx context.Context, _ func([]*corev1.Pod)) error { <-ctx.Done(); return ctx.Err() }

func newWorld(t *testing.T, sources ...Manifests) *world {
	w := &world{t: t, api: map[types.NamespacedName]*corev1.Pod{}, given: map[types.UID]*corev1.Pod{}}
	w.set = New(Config{API: w, Manifests: sources, Clock: clocktesting.NewFakePassiveClock(time.Unix(1, 0)), Changed: func(types.NamespacedName) {}, Restarted: func() { w.restarts++ }})
	w.set.Serve(w)
	return w
}

func (w *world) did(want ...string) {
	w.t.Helper()
	if got := w.calls; !slices.Equal(got, want) {
		w.t.Errorf("calls %q, want %q", got, want)
	}
	w.calls = nil
}

func static(name, uid string) *corev1.Pod {
	grace := int64(7)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(uid), Annotations: map[string]string{pod.SourceAnnotation: "file", pod.HashAnnotation: uid}},
		Spec:       corev1.PodSpec{TerminationGracePeriodSeconds: &grace},
	}
}

func bound(name, uid string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(uid), ResourceVersion: "5"}}
}

func mirrorOf(p *corev1.Pod) *corev1.Pod {
	m := bound(p.Name, "mirror-"+string(p.UID))
	m.Annotations = map[string]string{pod.MirrorAnnotation: string(p.UID), pod.SourceAnnotation: "file"}
	return m
}

func (w *world) add(p *corev1.Pod) { w.api[Name(p)] = p }

func TestStaticPodsNeedNoAPI(t *testing.T) {
	t.Parallel()
	w := newWorld(t, named("file"))
	w.add(bound("of-the-api", "api"))
	w.set.Bound(nil, bound("of-the-api", "api"))
	w.did() // what the API has is not all known yet
	w.set.Tell("file", []*corev1.Pod{static("a", "a1")})
	w.did("update a1")
	w.set.Tell("file", []*corev1.Pod{static("a", "a1")})
	w.did()
	w.set.Open()
	w.did("update api")
	w.set.Bound(bound("of-the-api", "api"), nil)
	w.did("remove api")
}

func TestNextPodStartsAfterTheOneBefore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, named("file"))
	w.set.Tell("file", []*corev1.Pod{static("a", "a1")})
	w.set.Tell("file", []*corev1.Pod{static("a", "a2")})
	w.did("update a1", "end a1")
	if end := w.given["a1"]; *end.DeletionGracePeriodSeconds != 7 {
		t.Errorf("grace %d", *end.DeletionGracePeriodSeconds)
	}
	if p, ending := w.set.At(types.NamespacedName{Namespace: "ns", Name: "a"}); p.UID != "a1" || !ending {
		t.Errorf("%s, ending %v", p.UID, ending)
	}
	w.set.Tell("file", []*corev1.Pod{static("a", "a3")})
	w.did()
	w.set.Ended("a1")
	w.did("remove a1", "update a3")
	w.set.Tell("file", nil)
	w.did("end a3")
	ended := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 7}}
	w.set.Told(static("a", "a3"), corev1.PodStatus{Phase: corev1.PodFailed, ContainerStatuses: []corev1.ContainerStatus{{Name: "c", ContainerID: "x", RestartCount: 2, State: ended}}})
	w.did("end a3")
	w.set.Tell("file", []*corev1.Pod{static("a", "a3")}) // it comes back while it ends
	w.set.Ended("a3")
	w.did("remove a3", "update a3")
	// Its restarts are counted on, and how it ended is known; nothing else of the one before is.
	again := w.given["a3"].Status
	if c := again.ContainerStatuses; again.Phase != "" || len(c) != 1 || c[0].RestartCount != 2 || c[0].ContainerID != "x" || c[0].State.Terminated != nil || c[0].LastTerminationState.Terminated == nil {
		t.Errorf("it starts again with %s", again.String())
	}
	if w.restarts != 1 {
		t.Errorf("%d pods started once more, not the one that came back", w.restarts)
	}
	w.set.Tell("file", nil)
	w.set.Ended("a3")
	w.did("end a3", "remove a3")
	if names := w.set.Names(); len(names) != 0 {
		t.Errorf("left: %v", names)
	}
}

func TestPodsOfAnEarlierLife(t *testing.T) {
	t.Parallel()
	w := newWorld(t, named("file"), named("http"))
	a := types.NamespacedName{Namespace: "ns", Name: "a"}
	w.set.Left(a, "a1")
	w.set.Left(types.NamespacedName{Namespace: "ns", Name: "b"}, "b1")
	w.set.Tell("file", []*corev1.Pod{static("a", "a2"), static("b", "b1")})
	slices.Sort(w.calls)
	w.did("adopt a1", "update b1")
	w.set.Ended("a1")
	w.did("update a2")
	w.set.Open()
	select {
	case <-w.set.Known():
		t.Error("all is known, though one source has told of nothing")
	default:
	}
	w.set.Tell("http", nil)
	<-w.set.Known()
}

func TestEarlierSourceCounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, named("file"), named("http"))
	w.set.Tell("http", []*corev1.Pod{static("a", "http")})
	w.set.Tell("file", []*corev1.Pod{static("a", "file")})
	w.set.Ended("http")
	w.did("update http", "end http", "remove http", "update file")
}

func TestMirrorsStandForPods(t *testing.T) {
	t.Parallel()
	w := newWorld(t, named("file"))
	a := static("a", "a1")
	m := mirrorOf(a)
	started := metav1.Unix(3, 0)
	m.Status = corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &started}
	w.add(m)
	w.add(bound("b", "b1"))
	w.set.Tell("file", []*corev1.Pod{a})
	w.set.Open()
	w.did("update a1", "update b1")
	if s := w.given["a1"].Status; s.StartTime == nil || a.Status.StartTime != nil {
		t.Error("a pod that ran before is not as it was told")
	}
	var uids []string
	for _, p := range w.set.List() {
		uids = append(uids, string(p.UID))
	}
	if slices.Sort(uids); fmt.Sprint(uids) != "[a1 b1]" {
		t.Errorf("pods %v", uids)
	}
	if p, _ := w.set.Get("ns", "a"); p.UID != "a1" {
		t.Errorf("the mirror's name leads to %s", p.UID)
	}
	w.set.Bound(m, nil)
	w.set.Bound(nil, mirrorOf(a))
	w.did()
	// What is said of the pod is what it has next, until its end.
	w.set.Told(a, corev1.PodStatus{Phase: corev1.PodRunning, Message: "x", StartTime: &started})
	w.did("update a1")
	w.set.Told(a, corev1.PodStatus{Phase: corev1.PodRunning, Message: "x", StartTime: &started})
	w.did()
	w.set.Tell("file", nil)
	w.set.Told(a, corev1.PodStatus{Phase: corev1.PodRunning, Message: "y", StartTime: &started})
	w.did("end a1", "end a1")
	if w.given["a1"].Status.Message != "y" {
		t.Error("the last status is not given back")
	}
}

func TestPodsThatSayTheyAreStatic(t *testing.T) {
	t.Parallel()
	liar := bound("liar", "l1")
	liar.Annotations = map[string]string{pod.SourceAnnotation: "file"}
	if pod.Static(liar) {
		t.Error("a pod of the API counts as static")
	}
	w := newWorld(t)
	w.add(liar)
	w.set.Open()
	w.did("update l1")
	<-w.set.Known()
}
