package clients

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
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

// churnVariable is how long TestInformersSurviveDisconnects goes on, as in HOWDAH_CHURN=2h; without it, it does each fault a few times.
const churnVariable = "HOWDAH_CHURN"

// arena is where ConfigMaps are churned: two control planes over one database, each behind a proxy that can cut and freeze.
type arena struct {
	t         *testing.T
	database  *pgtest.Server
	planes    [2]*cluster
	proxies   [2]*proxy.Proxy
	config    *rest.Config
	witnesses []*witness
	ledger    ledger
	faults    map[string]int
}

func newArena(t *testing.T, writesPerSecond float32) *arena {
	t.Helper()
	a := &arena{t: t, database: pgtest.Start(t, pgtest.Config{}), faults: map[string]int{}}
	dir := t.TempDir()
	for n := range a.planes {
		c, err := newCluster(t.Context(), howdah.bin(t), dir, a.database.URL())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Stop)
		a.planes[n], a.proxies[n] = c, proxy.Start(t, c.Address)
	}
	var err error
	if a.config, err = clientcmd.BuildConfigFromFlags("", a.planes[0].Kubeconfig()); err != nil {
		t.Fatal(err)
	}
	a.config.QPS, a.config.Burst = writesPerSecond/2, int(writesPerSecond)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "churn"}}
	if _, err := a.client(a.planes[0].Address).CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return a
}

// client returns a client of its own connections.
func (a *arena) client(address string, wrap ...func(http.RoundTripper) http.RoundTripper) *kubernetes.Clientset {
	own := rest.CopyConfig(a.config)
	own.Host = "https://" + address // the proxy's host is the certificate's too
	// Connections would be shared between clients that are configured alike.
	own.Dial = (&net.Dialer{Timeout: 10 * time.Second}).DialContext
	for _, w := range wrap {
		own.Wrap(w)
	}
	return kubernetes.NewForConfigOrDie(own)
}

// TestInformersSurviveDisconnects churns ConfigMaps at two control planes while the connections of informers are cut and frozen, and the control planes
// and their database are killed and started again. In the end every informer must have told exactly what there is, every version in
// order and none twice; watches that go on from where they were cut must have told every change that was acknowledged, and never have to list again.
func TestInformersSurviveDisconnects(t *testing.T) {
	t.Parallel()
	lasting, rate := time.Duration(0), float32(1000)
	if text := os.Getenv(churnVariable); text != "" {
		var err error
		if lasting, err = time.ParseDuration(text); err != nil {
			t.Fatalf("%s: %v", churnVariable, err)
		}
		rate = 40
	}
	a := newArena(t, rate)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	a.observe(ctx)
	churned := make(chan map[string]string, 1)
	halt := make(chan struct{})
	go func() { churned <- a.churn(ctx, halt) }()

	all := []func(context.Context, int) error{a.cut, a.crash, a.freeze, a.cut, a.breakDatabase}
	begun, reported := time.Now(), time.Now()
	for round := 0; round < 2*len(all) || time.Since(begun) < lasting; round++ {
		before := a.told()
		if err := all[round%len(all)](ctx, round/len(all)%2); err != nil {
			t.Fatal(err)
		}
		a.await("events after a fault", func() bool { return a.told() > before+30 })
		a.ledger.audit(t, a.witnesses)
		if t.Failed() {
			break
		}
		if time.Since(reported) > 5*time.Minute {
			reported = time.Now()
			fmt.Printf("after %s: %s\n", time.Since(begun).Round(time.Second), a)
		}
		a.pause(ctx, lasting)
	}
	close(halt)
	want := <-churned
	if len(want) == 0 {
		t.Fatal("nothing was churned")
	}
	a.ledger.audit(t, a.witnesses)
	for _, w := range a.witnesses {
		for deadline := time.Now().Add(patience); !maps.Equal(w.names(), want); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Errorf("%s knows %v in the end, there is %v", w.name, w.names(), want)
				break
			}
		}
		w.report(t)
	}
	t.Logf("after %s: %s", time.Since(begun).Round(time.Second), a)
}

// String counts what has been done.
func (a *arena) String() string {
	a.ledger.mu.Lock()
	text := fmt.Sprintf("%d acknowledged writes, %d failed ones, faults %v", a.ledger.writes, a.ledger.failed, a.faults)
	a.ledger.mu.Unlock()
	for _, w := range a.witnesses {
		w.mu.Lock()
		text += fmt.Sprintf("; %s: %d events, %d lists, %d problems", w.name, w.events, w.lists, len(w.problems))
		w.mu.Unlock()
	}
	return text
}

// pause lets a long run go on undisturbed for a while, now and then for longer than events are remembered.
func (a *arena) pause(ctx context.Context, lasting time.Duration) {
	if lasting == 0 {
		return
	}
	wait := time.Duration(rand.Int64N(int64(10 * time.Second)))
	if rand.IntN(20) == 0 {
		wait = 80 * time.Second
	}
	select {
	case <-ctx.Done():
	case <-time.After(wait):
	}
}

func (a *arena) cut(_ context.Context, n int) error {
	a.faults["cuts"]++
	a.proxies[n].Cut()
	return nil
}

// crash kills a control plane and starts it again.
func (a *arena) crash(ctx context.Context, n int) error {
	a.faults["crashes"]++
	a.planes[n].Kill()
	return a.planes[n].Start(ctx)
}

// freeze lets nothing through to one control plane until what happens at the other has been told, and cuts what was held up.
func (a *arena) freeze(_ context.Context, n int) error {
	a.faults["freezes"]++
	a.proxies[n].Freeze()
	other := a.witnesses[1-n]
	before := other.told()
	a.await("events of the other control plane", func() bool { return other.told() > before+30 })
	if rand.IntN(2) == 0 {
		a.proxies[n].Cut()
	}
	a.proxies[n].Thaw()
	return nil
}

// breakDatabase kills PostgreSQL and starts it again.
func (a *arena) breakDatabase(ctx context.Context, _ int) error {
	a.faults["crashes of the database"]++
	a.database.Kill9()
	return a.database.Restart(ctx)
}

func (a *arena) told() (least int) {
	least = -1
	for _, w := range a.witnesses {
		if told := w.told(); least < 0 || told < least {
			least = told
		}
	}
	return least
}

func (a *arena) await(what string, ok func() bool) {
	a.t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			for _, w := range a.witnesses {
				w.report(a.t)
			}
			a.t.Fatalf("%s: not after %s", what, patience)
		}
	}
}

// observe starts the witnesses: an informer behind each control plane, first, then watches of one's own.
func (a *arena) observe(ctx context.Context) {
	for n, p := range a.proxies {
		a.inform(ctx, fmt.Sprintf("informer %d", n), p.Address())
	}
	a.follow(ctx, "watch of the first", a.proxies[0].Address())
	a.follow(ctx, "watch of both by turns", a.proxies[0].Address(), a.proxies[1].Address())
	// What is written, and written again, before a watch begins, it is not told.
	a.await("the witnesses' lists", func() bool {
		for _, w := range a.witnesses {
			if w.begun() == 0 {
				return false
			}
		}
		return true
	})
}

// inform runs an informer behind an address that leads to the API.
func (a *arena) inform(ctx context.Context, name, address string) {
	w := newWitness(name, false)
	client := a.client(address, func(next http.RoundTripper) http.RoundTripper { return lists{next, w} })
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace("churn"),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = "churn" }))
	_, err := factory.Core().V1().ConfigMaps().Informer().AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc:    func(obj any, _ bool) { w.put(obj, true) },
		UpdateFunc: func(_, obj any) { w.put(obj, false) },
		DeleteFunc: w.gone,
	})
	if err != nil {
		a.t.Fatal(err)
	}
	factory.Start(ctx.Done())
	a.t.Cleanup(factory.Shutdown)
	a.witnesses = append(a.witnesses, w)
}

// lists counts the lists that a client makes.
type lists struct {
	next http.RoundTripper
	w    *witness
}

func (l lists) RoundTrip(r *http.Request) (*http.Response, error) {
	options := r.URL.Query()
	if options.Get("watch") == "" || options.Get("sendInitialEvents") == "true" {
		l.w.relisted()
	}
	return l.next.RoundTrip(r)
}

// follow lists once, watches, and goes on behind the last event whenever the watch is cut, at the next address.
func (a *arena) follow(ctx context.Context, name string, addresses ...string) {
	w := newWitness(name, true)
	a.witnesses = append(a.witnesses, w)
	var clients []*kubernetes.Clientset
	for _, address := range addresses {
		clients = append(clients, a.client(address))
	}
	var turn atomic.Int64
	next := func() *kubernetes.Clientset { return clients[turn.Add(1)%int64(len(clients))] }
	lw := &cache.ListWatch{WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		o.LabelSelector = "churn"
		return next().CoreV1().ConfigMaps("churn").Watch(ctx, o)
	}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			list, err := next().CoreV1().ConfigMaps("churn").List(ctx, metav1.ListOptions{LabelSelector: "churn"})
			if err != nil {
				time.Sleep(50 * time.Millisecond) // cut, or away
				continue
			}
			w.begin(list.Items)
			watcher, err := watchtools.NewRetryWatcherWithContext(ctx, list.ResourceVersion, lw)
			if err != nil {
				a.t.Error(err)
				return
			}
			for e := range watcher.ResultChan() {
				w.take(e)
			}
			watcher.Stop()
		}
	}()
	a.t.Cleanup(func() { <-done })
}

// churn creates, changes and deletes ConfigMaps until it is told to halt, and answers what is there then, by name and version.
func (a *arena) churn(ctx context.Context, halt <-chan struct{}) map[string]string {
	var wg sync.WaitGroup
	for n, plane := range a.planes {
		client := a.client(plane.Address)
		for worker := range 2 {
			wg.Go(func() {
				for i := 0; ctx.Err() == nil; i++ {
					select {
					case <-halt:
						return
					default:
					}
					name := fmt.Sprintf("w%d-%d-%d", n, worker, rand.IntN(10))
					if err := a.change(ctx, client, name, i); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsAlreadyExists(err) {
						a.ledger.failure()
						time.Sleep(50 * time.Millisecond) // the control plane is away
					}
				}
			})
		}
	}
	wg.Wait()
	for deadline := time.Now().Add(patience); ctx.Err() == nil && time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		list, err := a.client(a.planes[0].Address).CoreV1().ConfigMaps("churn").List(ctx, metav1.ListOptions{LabelSelector: "churn"})
		if err != nil {
			continue
		}
		names := make(map[string]string, len(list.Items))
		for _, m := range list.Items {
			names[m.Name] = m.ResourceVersion
		}
		return names
	}
	return nil
}

// change writes once, and notes what was acknowledged.
func (a *arena) change(ctx context.Context, client *kubernetes.Clientset, name string, n int) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	maps := client.CoreV1().ConfigMaps("churn")
	m := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"churn": ""}}, Data: map[string]string{"n": strconv.Itoa(n)},
	}
	var err error
	switch rand.IntN(4) {
	case 0:
		// The version names the life that is ended.
		if m, err = maps.Get(ctx, name, metav1.GetOptions{}); err != nil {
			return err
		}
		err = maps.Delete(ctx, name, metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(m.UID))})
		if err == nil {
			a.ledger.end(m.UID)
		}
		return err
	case 1:
		m, err = maps.Create(ctx, m, metav1.CreateOptions{})
	default:
		m, err = maps.Update(ctx, m, metav1.UpdateOptions{})
	}
	if err == nil {
		a.ledger.version(m)
	}
	return err
}
