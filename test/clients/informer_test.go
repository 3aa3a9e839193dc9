package clients

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	watchtools "k8s.io/client-go/tools/watch"

	"howdah.dev/kit/pgtest"
	"howdah.dev/kit/pgtest/proxy"
)

// witness remembers what an informer told of every ConfigMap, and what was wrong with it.
type witness struct {
	mu sync.Mutex
	// strict says that the events are those of a watch alone.
	strict   bool
	present  map[string]*corev1.ConfigMap
	newest   map[string]int64 // of each name, over all its lives
	events   int
	problems []string
}

func (w *witness) wrong(format string, args ...any) {
	if len(w.problems) < 20 {
		w.problems = append(w.problems, fmt.Sprintf(format, args...))
	}
}

// put notes an addition or a change: versions of an object must come in order, and none twice.
func (w *witness) put(obj any, added bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := obj.(*corev1.ConfigMap)
	revision, err := strconv.ParseInt(m.ResourceVersion, 10, 64)
	if err != nil {
		w.wrong("%s: %v", m.Name, err)
	}
	_, known := w.present[m.Name]
	switch {
	case added == known:
		w.wrong("%s at %d: added %v, known %v", m.Name, revision, added, known)
	case revision < w.newest[m.Name], revision == w.newest[m.Name] && (added || w.strict):
		// The same again is what client-go itself tells after a list.
		w.wrong("%s at %d comes after %d", m.Name, revision, w.newest[m.Name])
	}
	w.present[m.Name], w.newest[m.Name] = m, revision
	w.events++
}

func (w *witness) gone(obj any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if late, ok := obj.(cache.DeletedFinalStateUnknown); ok { // it went while the watch was cut
		obj = late.Obj
	}
	m := obj.(*corev1.ConfigMap)
	if _, known := w.present[m.Name]; !known {
		w.wrong("%s was deleted and is not known", m.Name)
	}
	delete(w.present, m.Name)
	w.events++
}

func (w *witness) names() (names map[string]string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	names = map[string]string{}
	for name, m := range w.present {
		names[name] = m.ResourceVersion
	}
	return names
}

// TestInformersSurviveDisconnects churns ConfigMaps while the connections of informers are cut and the control plane is killed and
// started again. In the end every informer must have told exactly what there is, every version in order and none twice.
func TestInformersSurviveDisconnects(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t, pgtest.Config{})
	c, err := newCluster(t.Context(), howdah.bin(t), t.TempDir(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	config.QPS, config.Burst = 500, 1000
	direct := kubernetes.NewForConfigOrDie(config)
	if _, err := direct.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "churn"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	cuts := proxy.Start(t, c.Address)
	var witnesses []*witness
	for range 3 {
		witnesses = append(witnesses, watchThrough(t, ctx, config, cuts.Address()))
	}
	witnesses = append(witnesses, watchAlone(t, ctx, config, cuts.Address()))
	churned := make(chan map[string]string, 1)
	halt := make(chan struct{})
	go func() { churned <- churn(ctx, direct, halt) }()

	for round := range 12 {
		before := told(witnesses)
		if round == 4 || round == 8 {
			c.Kill()
			if err := c.Start(ctx); err != nil {
				t.Fatal(err)
			}
		} else {
			cuts.Cut()
		}
		await(t, witnesses, "events after a cut", func() bool { return told(witnesses) > before+30 })
	}
	close(halt)
	want := <-churned
	if len(want) == 0 {
		t.Fatal("nothing was churned")
	}
	for n, w := range witnesses {
		for deadline := time.Now().Add(patience); !maps.Equal(w.names(), want); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Errorf("informer %d knows %v in the end, there is %v", n, w.names(), want)
				break
			}
		}
		w.mu.Lock()
		for _, problem := range w.problems {
			t.Errorf("informer %d: %s", n, problem)
		}
		t.Logf("informer %d: %d events of %d objects", n, w.events, len(w.newest))
		w.mu.Unlock()
	}
}

func told(witnesses []*witness) (least int) {
	least = -1
	for _, w := range witnesses {
		w.mu.Lock()
		if least < 0 || w.events < least {
			least = w.events
		}
		w.mu.Unlock()
	}
	return least
}

func await(t *testing.T, witnesses []*witness, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			for n, w := range witnesses {
				w.mu.Lock()
				t.Logf("informer %d: %d events, problems %q", n, w.events, w.problems)
				w.mu.Unlock()
			}
			t.Fatalf("%s: not after %s", what, patience)
		}
	}
}

// watchThrough runs an informer behind an address that leads to the API.
func watchThrough(t *testing.T, ctx context.Context, config *rest.Config, address string) *witness {
	t.Helper()
	own := rest.CopyConfig(config)
	own.Host = "https://" + address // the proxy's host is the certificate's too
	factory := informers.NewSharedInformerFactoryWithOptions(kubernetes.NewForConfigOrDie(own), 0, informers.WithNamespace("churn"),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = "churn" }))
	w := &witness{present: map[string]*corev1.ConfigMap{}, newest: map[string]int64{}}
	_, err := factory.Core().V1().ConfigMaps().Informer().AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    func(obj any, _ bool) { w.put(obj, true) },
		UpdateFunc: func(_, obj any) { w.put(obj, false) },
		DeleteFunc: w.gone,
	})
	if err != nil {
		t.Fatal(err)
	}
	factory.Start(ctx.Done())
	t.Cleanup(factory.Shutdown)
	return w
}

// watchAlone lists, watches, and goes on behind the last event whenever the watch is cut. It lists again only where the control plane,
// started again, says that it has forgotten what the watch goes on from (410).
func watchAlone(t *testing.T, ctx context.Context, config *rest.Config, address string) *witness {
	t.Helper()
	own := rest.CopyConfig(config)
	own.Host = "https://" + address
	maps := kubernetes.NewForConfigOrDie(own).CoreV1().ConfigMaps("churn")
	w := &witness{strict: true, present: map[string]*corev1.ConfigMap{}, newest: map[string]int64{}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			list, err := maps.List(ctx, metav1.ListOptions{LabelSelector: "churn"})
			if err != nil {
				time.Sleep(50 * time.Millisecond) // cut, or away
				continue
			}
			w.begin(list.Items)
			watcher, err := watchtools.NewRetryWatcherWithContext(ctx, list.ResourceVersion, &cache.ListWatch{
				WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
					o.LabelSelector = "churn"
					return maps.Watch(ctx, o)
				},
			})
			if err != nil {
				t.Error(err)
				return
			}
			for e := range watcher.ResultChan() {
				w.take(e)
			}
			watcher.Stop()
		}
	}()
	t.Cleanup(func() { <-done })
	return w
}

// begin starts anew from a list.
func (w *witness) begin(items []corev1.ConfigMap) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.present = map[string]*corev1.ConfigMap{}
	for i := range items {
		m := &items[i]
		revision, err := strconv.ParseInt(m.ResourceVersion, 10, 64)
		if err != nil || revision < w.newest[m.Name] {
			w.wrong("the list has %s at %s, after %d (%v)", m.Name, m.ResourceVersion, w.newest[m.Name], err)
		}
		w.present[m.Name], w.newest[m.Name] = m, revision
	}
}

// take notes an event of a watch.
func (w *witness) take(e watch.Event) {
	switch e.Type {
	case watch.Added, watch.Modified:
		w.put(e.Object, e.Type == watch.Added)
	case watch.Deleted:
		w.gone(e.Object)
	case watch.Error:
		if err := apierrors.FromObject(e.Object); !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
			w.mu.Lock()
			w.wrong("the watch told %v", err)
			w.mu.Unlock()
		}
	}
}

// churn creates, changes and deletes ConfigMaps until it is told to halt, and answers what is there then, by name and version.
func churn(ctx context.Context, client kubernetes.Interface, halt <-chan struct{}) map[string]string {
	maps := client.CoreV1().ConfigMaps("churn")
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-halt:
					return
				case <-ctx.Done():
					return
				default:
				}
				m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("w%d-%d", worker, rand.IntN(10)), Labels: map[string]string{"churn": ""}},
					Data: map[string]string{"n": strconv.Itoa(n)}}
				var err error
				switch rand.IntN(4) {
				case 0:
					err = maps.Delete(ctx, m.Name, metav1.DeleteOptions{})
				case 1:
					_, err = maps.Create(ctx, m, metav1.CreateOptions{})
				default:
					_, err = maps.Update(ctx, m, metav1.UpdateOptions{})
				}
				if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsAlreadyExists(err) {
					time.Sleep(50 * time.Millisecond) // the control plane is away
				}
			}
		})
	}
	wg.Wait()
	list, err := maps.List(ctx, metav1.ListOptions{LabelSelector: "churn"})
	if err != nil {
		return nil
	}
	names := make(map[string]string, len(list.Items))
	for _, m := range list.Items {
		names[m.Name] = m.ResourceVersion
	}
	return names
}
