package gateway_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc/metadata"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	typed "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"howdah.dev/gateway"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// sharing is a cluster whose watches share, with what it counts.
func sharing(t *testing.T) (*cluster, *prometheus.Registry) {
	registry := prometheus.NewRegistry()
	return setup(t, func(c *gateway.Config) { c.SharedWatches, c.Registerer = 10, registry }), registry
}

// maps is a client of ConfigMaps that reads a content type.
func (c *cluster) maps(config *rest.Config, contentType string) typed.ConfigMapInterface {
	config.ContentType = contentType
	return kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps("default")
}

// count is the value of one metric.
func count(t *testing.T, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			m := f.GetMetric()[0]
			return m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	t.Fatalf("no metric %s", name)
	return 0
}

// awaitCount looks until a metric has a value: the gateway tells nobody when it changes.
func awaitCount(t *testing.T, registry *prometheus.Registry, name string, want float64) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); count(t, registry, name) != want; time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s is %v, waited for %v", name, count(t, registry, name), want)
		}
	}
}

// asked returns the watches that have reached the API server: feeds and others.
func (c *cluster) asked() (feeds, others []*apiv1.WatchRequest) {
	for {
		select {
		case request := <-c.Requests:
			if r, ok := request.(*apiv1.WatchRequest); ok && r.Feed {
				feeds = append(feeds, r)
			} else if ok {
				others = append(others, r)
			}
		default:
			return feeds, others
		}
	}
}

// names reads the names of so many objects; it fails where the watch ends before.
func names(w watch.Interface, n int) (got []string, err error) {
	timeout := time.After(time.Minute)
	for len(got) < n {
		select {
		case e, ok := <-w.ResultChan():
			if !ok {
				return got, fmt.Errorf("the watch ended after %d events", len(got))
			}
			if o, ok := e.Object.(*corev1.ConfigMap); ok && e.Type == watch.Added {
				got = append(got, o.Name)
			} else {
				return got, fmt.Errorf("%s %v came", e.Type, e.Object)
			}
		case <-timeout:
			return got, fmt.Errorf("only %d events came", len(got))
		}
	}
	return got, nil
}

// Many watch from revisions of their own, in two encodings, while objects are written and the API server is lost again and again.
// Their watches stand through all of it.
func TestSharedWatchesMissAndRepeatNothing(t *testing.T) {
	t.Parallel()
	c, registry := sharing(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	client := c.maps(c.as("admin"), runtime.ContentTypeProtobuf)
	const before, writes, watchers = 5, 100, 24
	var all, revisions []string
	write := func(n int) {
		o, err := client.Create(ctx, configMap(fmt.Sprintf("c%03d", n)), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		all, revisions = append(all, o.Name), append(revisions, o.ResourceVersion)
	}
	for n := range before {
		write(n)
	}
	var open []watch.Interface
	var readers sync.WaitGroup
	start := func(n int) {
		contentType := []string{runtime.ContentTypeProtobuf, runtime.ContentTypeJSON}[n%2]
		from := 1 + n%(len(all)-1) // revision 1 has expired
		w, err := c.maps(c.as("admin"), contentType).Watch(ctx, metav1.ListOptions{ResourceVersion: revisions[from]})
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, w)
		readers.Go(func() {
			got, err := names(w, before+writes-from-1)
			for i := range got {
				if want := fmt.Sprintf("c%03d", from+1+i); got[i] != want {
					t.Errorf("watch %d: event %d is of %s, not of %s", n, i, got[i], want)
					return
				}
			}
			if err != nil {
				t.Errorf("watch %d: %v", n, err)
			}
		})
	}
	for _, contentType := range []string{runtime.ContentTypeProtobuf, runtime.ContentTypeJSON} { // the first of each watches alone
		w, err := c.maps(c.as("admin"), contentType).Watch(ctx, metav1.ListOptions{ResourceVersion: revisions[1]})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
	}
	for n := range writes {
		if n%4 == 0 && len(open) < watchers {
			start(n / 4)
		}
		if n%10 == 9 {
			// Whose watch begins just now is left to resume by itself, as who watches alone.
			awaitCount(t, registry, "howdah_gateway_shared_watchers", float64(len(open)))
			c.BreakWatches()
		}
		write(before + n)
	}
	readers.Wait()
	for _, w := range open {
		w.Stop()
	}
	if got := count(t, registry, "howdah_gateway_shared_watch_resumes_total"); got == 0 {
		t.Error("no shared watch was ever lost")
	}
}

func TestSharedWatchesReachTheAPIServerOnce(t *testing.T) {
	t.Parallel()
	c, registry := sharing(t)
	client := c.maps(c.as("admin"), runtime.ContentTypeJSON)
	if _, err := client.Create(t.Context(), configMap("a"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	const watchers, writes = 12, 10
	if _, err := client.Create(t.Context(), configMap("b"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var open []watch.Interface
	for range watchers {
		w, err := client.Watch(t.Context(), metav1.ListOptions{ResourceVersion: "2"})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		open = append(open, w)
	}
	awaitCount(t, registry, "howdah_gateway_shared_watchers", watchers-1)
	for n := range writes {
		if _, err := client.Create(t.Context(), configMap(fmt.Sprintf("c%d", n)), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, w := range open {
		if _, err := names(w, writes); err != nil {
			t.Error(err)
		}
	}
	if feeds, others := c.asked(); len(feeds) != 1 || len(others) != watchers {
		t.Errorf("the API server was asked for %d feeds and %d watches", len(feeds), len(others))
	}
	awaitCount(t, registry, "howdah_gateway_shared_watch_events_received_total", writes)
	awaitCount(t, registry, "howdah_gateway_shared_watch_events_sent_total", writes*(watchers-1))
}

// Each request is judged by itself, whoever else watches the same.
func TestSharedWatchesAreAuthorizedApiece(t *testing.T) {
	t.Parallel()
	c, registry := sharing(t)
	admin, scheduler := c.maps(c.as("admin"), runtime.ContentTypeJSON), c.maps(c.as("scheduler"), runtime.ContentTypeJSON)
	for _, name := range []string{"a", "b"} {
		if _, err := admin.Create(t.Context(), configMap(name), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		w, err := admin.Watch(t.Context(), metav1.ListOptions{ResourceVersion: "2"})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
	}
	awaitCount(t, registry, "howdah_gateway_shared_watchers", 1)
	c.Before = func(method string, md metadata.MD) error {
		if slices.Contains(md.Get("howdah-user"), "system:kube-scheduler") {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "", fmt.Errorf("not you"))
		}
		return nil
	}
	if _, err := scheduler.Watch(t.Context(), metav1.ListOptions{ResourceVersion: "2"}); !apierrors.IsForbidden(err) {
		t.Errorf("one who may not watch got %v", err)
	}
	if _, err := admin.Watch(t.Context(), metav1.ListOptions{ResourceVersion: "bad"}); !apierrors.IsBadRequest(err) {
		t.Errorf("a bad revision got %v", err)
	}
	expired, err := admin.Watch(t.Context(), metav1.ListOptions{ResourceVersion: "1"})
	if err != nil {
		t.Fatal(err)
	}
	defer expired.Stop()
	if e := next(t, expired); e.Type != watch.Error || !apierrors.IsResourceExpired(apierrors.FromObject(e.Object)) {
		t.Errorf("a revision that is gone got %v %v", e.Type, e.Object)
	}
	if got := count(t, registry, "howdah_gateway_shared_watchers"); got != 1 {
		t.Errorf("%v share the feed", got)
	}
}

// A watch that shares ends by its own time, and when who opened it goes; and then its own watch at the API server ends too.
func TestSharedWatchesEndApiece(t *testing.T) {
	t.Parallel()
	c, registry := sharing(t)
	client := c.maps(c.as("admin"), runtime.ContentTypeJSON)
	for _, name := range []string{"a", "b"} {
		if _, err := client.Create(t.Context(), configMap(name), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	open := func(seconds int64) watch.Interface {
		w, err := client.Watch(t.Context(), metav1.ListOptions{ResourceVersion: "2", TimeoutSeconds: &seconds})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(w.Stop)
		return w
	}
	_, short, stopped, long := open(600), open(3), open(600), open(600)
	awaitCount(t, registry, "howdah_gateway_shared_watchers", 3)
	select {
	case e, more := <-short.ResultChan():
		if more {
			t.Errorf("%v came", e)
		}
	case <-time.After(time.Minute):
		t.Error("a watch of three seconds stands on")
	}
	stopped.Stop()
	awaitCount(t, registry, "howdah_gateway_shared_watchers", 1)
	c.awaitEnd("Watch", "Watch")
	if _, err := client.Create(t.Context(), configMap("c"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if e := next(t, long); e.Type != watch.Added {
		t.Errorf("the one that is left got %v", e)
	}
}

// Where the API server does not come back in time, or refuses, the client is left to resume.
func TestASharedWatchEndsWhereItsOwnIsRefused(t *testing.T) {
	t.Parallel()
	c, registry := sharing(t)
	client := c.maps(c.as("admin"), runtime.ContentTypeJSON)
	for _, name := range []string{"a", "b"} {
		if _, err := client.Create(t.Context(), configMap(name), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	var shared watch.Interface
	for range 2 {
		w, err := client.Watch(t.Context(), metav1.ListOptions{ResourceVersion: "2"})
		if err != nil {
			t.Fatal(err)
		}
		defer w.Stop()
		shared = w
	}
	awaitCount(t, registry, "howdah_gateway_shared_watchers", 1)
	c.Before = func(method string, md metadata.MD) error {
		if method == "Watch" && !strings.HasPrefix(strings.Join(md.Get("howdah-user"), ""), "howdah:") {
			return apierrors.NewUnauthorized("Unauthorized")
		}
		return nil
	}
	c.BreakWatches()
	select {
	case e, more := <-shared.ResultChan():
		if more {
			t.Errorf("%v came", e)
		}
	case <-time.After(time.Minute):
		t.Error("the watch of one who is refused stands on")
	}
}
