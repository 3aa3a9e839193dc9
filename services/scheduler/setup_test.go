package scheduler

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"howdah.dev/kit/leading"
	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
)

// spans has what every test's spans end in.
var spans = tracetest.NewSpanRecorder()

func TestMain(m *testing.M) {
	otel.SetTextMapPropagator(propagation.TraceContext{})
	otel.SetTracerProvider(sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans)))
	os.Exit(m.Run())
}

// world is an API with a scheduler on it.
type world struct {
	testing.TB
	api    *objecttest.Server
	client *object.Client
	s      *Server
	clock  clock.WithTicker // nil is the real one

	configuration *Configuration        // nil is the default one
	registry      *prometheus.Registry  // of the scheduler that was started last
	resources     prometheus.Registerer // likewise, nil for none
}

// start runs a scheduler with its leadership until the test ends, on an API
// that prepare may have filled.
func start(t testing.TB, leadership leading.Leadership, prepare func(w *world)) *world {
	t.Helper()
	w := &world{TB: t, api: objecttest.New()}
	w.client = w.api.Serve(t)
	if prepare != nil {
		prepare(w)
	}
	w.s = w.scheduler(leadership)
	return w
}

// scheduler runs one more scheduler on the same API.
func (w *world) scheduler(leadership leading.Leadership) *Server {
	w.Helper()
	client := w.api.Serve(w.TB) // each has its own fence
	var ticks clock.WithTicker = clock.RealClock{}
	if w.clock != nil {
		ticks = w.clock
	}
	w.registry = prometheus.NewRegistry()
	s := New(Config{
		Objects: client, Leadership: leadership, Name: "default-scheduler", Configuration: w.configuration, Clock: ticks,
		Registerer: w.registry, Resources: w.resources,
	})
	s.metrics.chance = func() bool { return true }
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Run(ctx) }()
	w.Cleanup(func() { cancel(); <-done })
	wait, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	if !s.Ready(wait) {
		w.Fatal("the caches did not fill in a minute")
	}
	return s
}

func resources(cpu, memory, pods string) corev1.ResourceList {
	list := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	if pods != "" {
		list[corev1.ResourcePods] = resource.MustParse(pods)
	}
	return list
}

func node(name, cpu string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
		Status:     corev1.NodeStatus{Allocatable: resources(cpu, "64Gi", "110")},
	}
}

func pod(name, cpu string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{SchedulerName: "default-scheduler", Containers: []corev1.Container{{
			Name: "c", Image: "nginx:1.9.1", Resources: corev1.ResourceRequirements{Requests: resources(cpu, "64Mi", "")}}}},
	}
}

func (w *world) addNode(n *corev1.Node) {
	w.Helper()
	if _, err := object.For(w.client, object.Node).Create(context.Background(), n); err != nil {
		w.Fatal(err)
	}
}

func (w *world) addPod(ctx context.Context, p *corev1.Pod) *corev1.Pod {
	w.Helper()
	made, err := object.For(w.client, object.Pod).Create(ctx, p)
	if err != nil {
		w.Fatal(err)
	}
	return made
}

// addMany creates nodes or pods in batches.
func addMany[T object.Object](w *world, kind object.Kind[T], count int, make func(i int) T) {
	w.Helper()
	items := []object.Item{}
	for i := range count {
		items = append(items, object.For(w.client, kind).CreateItem(make(i)))
	}
	results, err := w.client.Batch(context.Background(), items, false)
	if err != nil {
		w.Fatal(err)
	}
	for _, r := range results {
		if r.Err != nil {
			w.Fatal(r.Err)
		}
	}
}

// awaitPods follows the pods until done says so of all of them, by name.
func (w *world) awaitPods(what string, done func(pods map[string]*corev1.Pod) bool) map[string]*corev1.Pod {
	w.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	pods := object.For(w.client, object.Pod)
	all, list, err := pods.List(ctx, "", metav1.ListOptions{})
	if err != nil {
		w.Fatal(err)
	}
	known := map[string]*corev1.Pod{}
	for _, p := range all {
		known[p.Name] = p
	}
	watch, err := pods.Watch(ctx, "", metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	if err != nil {
		w.Fatal(err)
	}
	defer watch.Stop()
	for !done(known) {
		for more := true; more; more = len(watch.ResultChan()) > 0 {
			e, ok := <-watch.ResultChan()
			if !ok {
				w.Fatalf("waited 30 s for %s", what)
			}
			p := e.Object.(*corev1.Pod)
			if known[p.Name] = p; e.Type == "DELETED" {
				delete(known, p.Name)
			}
		}
	}
	return known
}

// bound says whether count pods are on nodes.
func bound(count int) func(map[string]*corev1.Pod) bool {
	return func(pods map[string]*corev1.Pod) bool {
		n := 0
		for _, p := range pods {
			if p.Spec.NodeName != "" {
				n++
			}
		}
		return n >= count
	}
}

// condition returns the pod's PodScheduled condition, nil where it has none.
func condition(p *corev1.Pod) *corev1.PodCondition {
	if p == nil {
		return nil
	}
	for i, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled {
			return &p.Status.Conditions[i]
		}
	}
	return nil
}

func numbered(prefix string, i int) string { return fmt.Sprintf("%s-%04d", prefix, i) }
