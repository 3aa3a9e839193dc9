package mirror

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
	"howdah.dev/nodeagent/internal/pod"
)

var node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "node-uid"}}

func static(hash string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p-n", UID: types.UID(hash), Labels: map[string]string{"app": "p"},
			Annotations: map[string]string{pod.SourceAnnotation: "file", pod.HashAnnotation: hash}},
		Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
}

func stored(m *corev1.Pod) *corev1.Pod {
	m.UID, m.ResourceVersion = "stored", "1"
	return m
}

func TestDecide(t *testing.T) {
	t.Parallel()
	good := stored(Make(static("h"), node))
	change := func(f func(*corev1.Pod)) *corev1.Pod {
		m := good.DeepCopy()
		f(m)
		return m
	}
	running, begun := static("h"), metav1.Unix(1, 0)
	running.Status = corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &begun}
	over := change(func(m *corev1.Pod) { m.Status.Phase = corev1.PodFailed })
	deleted := change(func(m *corev1.Pod) { m.DeletionTimestamp = &begun })
	for name, test := range map[string]struct {
		static *corev1.Pod
		ending bool
		mirror *corev1.Pod
		node   *corev1.Node
		want   Action
	}{
		"nothing":             {nil, false, nil, node, Nothing},
		"a pod":               {static("h"), false, nil, node, Create},
		"before the node is":  {static("h"), false, nil, nil, Nothing},
		"a pod that ends":     {static("h"), true, nil, node, Nothing},
		"both":                {static("h"), false, good, node, Nothing},
		"the end is told":     {static("h"), true, good, node, Nothing},
		"a mirror of nothing": {nil, false, good, node, Delete},
		"deleted":             {static("h"), false, deleted, node, Delete},
		"deleted at the end":  {static("h"), true, deleted, node, Delete},
		"another manifest":    {static("i"), false, good, node, Delete},
		"not known whose":     {static("i"), false, good, nil, Nothing},
		"another node's":      {static("h"), false, good, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "new"}}, Delete},
		"no owner":            {static("h"), false, change(func(m *corev1.Pod) { m.OwnerReferences = nil }), node, Delete},
		"over, and runs":      {running, false, over, node, Delete},
		"over, before a word": {static("h"), false, over, node, Nothing},
	} {
		if got := Decide(test.static, test.ending, test.mirror, test.node); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
}

func TestMake(t *testing.T) {
	t.Parallel()
	p := static("h")
	m := Make(p, node)
	owner := metav1.GetControllerOf(m)
	if m.UID != "" || m.Name != "p-n" || m.Labels["app"] != "p" || m.Annotations[pod.MirrorAnnotation] != "h" || owner == nil || owner.UID != "node-uid" ||
		owner.BlockOwnerDeletion != nil || m.Spec.NodeName != "n" {
		t.Errorf("%+v", m)
	}
	if _, ok := p.Annotations[pod.MirrorAnnotation]; ok {
		t.Error("the pod itself was changed")
	}
}

// world has the static pods, and is the writer.
type world struct {
	mu     sync.Mutex
	static *corev1.Pod
	ending bool
	wrote  []string
	known  chan struct{}
}

func (w *world) At(types.NamespacedName) (*corev1.Pod, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.static, w.ending
}
func (w *world) Names() []types.NamespacedName {
	return []types.NamespacedName{{Namespace: "ns", Name: "p-n"}}
}
func (w *world) Told(_ *corev1.Pod, status corev1.PodStatus) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.static.DeepCopy()
	now.Status = status
	w.static = now
}
func (w *world) Trace(*corev1.Pod) trace.SpanContext { return trace.SpanContext{} }
func (w *world) Known() <-chan struct{}              { return w.known }
func (w *world) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wrote = append(w.wrote, fmt.Sprintf(format, args...))
}
func (w *world) Set(_ context.Context, p *corev1.Pod, s corev1.PodStatus) {
	w.note("set %s %s", p.UID, s.Message)
}
func (w *world) Delete(_ context.Context, p *corev1.Pod) { w.note("delete %s", p.UID) }
func (w *world) Forget(uid types.UID)                    { w.note("forget %s", uid) }

func (w *world) has(what string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Contains(w.wrote, what)
}

func eventually(t *testing.T, what string, check func() bool) {
	t.Helper()
	limit, tick := time.After(time.Minute), time.NewTicker(2*time.Millisecond)
	defer tick.Stop()
	for !check() {
		select {
		case <-limit:
			t.Fatalf("not %s", what)
		case <-tick.C:
		}
	}
}

func TestMirrorIsKept(t *testing.T) {
	t.Parallel()
	api, client := objecttest.Start(t)
	var away sync.Map
	api.Intercept = func(objecttest.Write) error {
		if _, ok := away.Load("api"); ok {
			return errors.New("the API is away")
		}
		return nil
	}
	informers := object.NewInformers(client)
	cache := object.InformerFor(informers, object.Pod)
	w := &world{static: static("h"), known: make(chan struct{})}
	keeper := New(Config{
		Client: client, API: cache, Pods: w, Writer: w, Node: func() *corev1.Node { return node }, Clock: clock.RealClock{}, Registerer: prometheus.NewRegistry(),
	})
	cache.AddHandler(keeper.Bound)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = informers.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait() })
	if !informers.Wait(ctx) {
		t.Fatal("no informers")
	}
	pods := object.For(client, object.Pod)
	orphan := stored(Make(static("gone"), node))
	orphan.Name, orphan.UID, orphan.ResourceVersion = "orphan-n", "", ""
	if _, err := pods.Create(ctx, orphan); err != nil {
		t.Fatal(err)
	}
	running.Go(func() { _ = keeper.Run(ctx) })
	begun := metav1.Unix(1, 0)
	keeper.Set(ctx, w.static, corev1.PodStatus{StartTime: &begun, Message: "first"}) // there is no mirror yet
	current := func() *corev1.Pod {
		p, err := pods.Get(ctx, "ns", "p-n")
		if err != nil {
			return nil
		}
		return p
	}
	if _, err := pods.Get(ctx, "ns", "orphan-n"); err != nil || current() != nil {
		t.Errorf("something was done before the manifests were known: %v", err)
	}
	away.Store("api", true)
	close(w.known)
	away.Delete("api")
	eventually(t, "made", func() bool { return current() != nil })
	first := current()
	eventually(t, "told", func() bool { return w.has(fmt.Sprintf("set %s first", first.UID)) })
	keeper.Set(ctx, w.static, corev1.PodStatus{StartTime: &begun, Message: "second"})
	if !w.has(fmt.Sprintf("set %s second", first.UID)) {
		t.Errorf("wrote %q", w.wrote)
	}
	// Somebody deletes it: it comes back, with what is known of the pod.
	if err := pods.Delete(ctx, "ns", "p-n", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "made again", func() bool { p := current(); return p != nil && p.UID != first.UID && p.DeletionTimestamp == nil })
	second := current()
	eventually(t, "told again", func() bool {
		return w.has(fmt.Sprintf("set %s second", second.UID)) && w.has("forget "+string(first.UID))
	})
	// Another manifest: another mirror.
	w.mu.Lock()
	w.static = static("other")
	w.mu.Unlock()
	keeper.Changed(types.NamespacedName{Namespace: "ns", Name: "p-n"})
	eventually(t, "another", func() bool {
		p := current()
		return p != nil && p.UID != second.UID && p.Annotations[pod.MirrorAnnotation] == "other"
	})
	w.mu.Lock()
	w.static = nil
	w.mu.Unlock()
	keeper.Changed(types.NamespacedName{Namespace: "ns", Name: "p-n"})
	eventually(t, "gone", func() bool { return current() == nil })
	eventually(t, "without the mirror of nothing", func() bool { _, err := pods.Get(ctx, "ns", "orphan-n"); return err != nil })
}

func TestOtherPodsAreTheWriters(t *testing.T) {
	t.Parallel()
	w := &world{}
	keeper := New(Config{Pods: w, Writer: w, Registerer: prometheus.NewRegistry(), Clock: clock.RealClock{}})
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u", ResourceVersion: "1"}}
	keeper.Set(t.Context(), p, corev1.PodStatus{Message: "m"})
	keeper.Delete(t.Context(), p)
	keeper.Delete(t.Context(), static("h"))
	keeper.Forget("u")
	if want := []string{"set u m", "delete u", "forget u"}; !slices.Equal(w.wrote, want) {
		t.Errorf("wrote %q, want %q", w.wrote, want)
	}
}
