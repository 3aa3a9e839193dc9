package gateway_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

func configMap(name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}, Data: map[string]string{"key": "value"},
	}
}

// encodings are the content types of typed clients.
var encodings = []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf}

func TestTypedClient(t *testing.T) {
	t.Parallel()
	for _, encoding := range encodings {
		t.Run(encoding, func(t *testing.T) {
			t.Parallel()
			c := setup(t)
			config := c.as("admin")
			config.ContentType, config.AcceptContentTypes = encoding, encoding
			client := kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps("default")
			ctx := t.Context()

			created, err := client.Create(ctx, configMap("a"), metav1.CreateOptions{})
			if err != nil || created.Data["key"] != "value" || created.ResourceVersion == "" {
				t.Fatalf("create: %v, %v", created, err)
			}
			if _, err := client.Create(ctx, configMap("a"), metav1.CreateOptions{}); !apierrors.IsAlreadyExists(err) {
				t.Errorf("create again: %v", err)
			}
			if _, err := client.Get(ctx, "nobody", metav1.GetOptions{}); !apierrors.IsNotFound(err) || err.Error() != `configmaps "nobody" not found` {
				t.Errorf("get what is not there: %v", err)
			}
			got, err := client.Get(ctx, "a", metav1.GetOptions{})
			if err != nil || got.Data["key"] != "value" {
				t.Fatalf("get: %v, %v", got, err)
			}
			got.Data["key"] = "changed"
			updated, err := client.Update(ctx, got, metav1.UpdateOptions{})
			if err != nil || updated.Data["key"] != "changed" {
				t.Fatalf("update: %v, %v", updated, err)
			}
			if _, err := client.Update(ctx, got, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
				t.Errorf("stale update: %v", err)
			}
			patched, err := client.Patch(ctx, "a", types.MergePatchType, []byte(`{"metadata":{"labels":{"x":"y"}}}`), metav1.PatchOptions{})
			if err != nil || patched.Labels["x"] != "y" {
				t.Errorf("patch: %v, %v", patched, err)
			}
			if _, err := client.Create(ctx, configMap("b"), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			list, err := client.List(ctx, metav1.ListOptions{LabelSelector: "x=y"})
			if err != nil || len(list.Items) != 1 || list.Items[0].Name != "a" {
				t.Errorf("list: %v, %v", list, err)
			}
			if err := client.Delete(ctx, "a", metav1.DeleteOptions{}); err != nil {
				t.Errorf("delete: %v", err)
			}
			if err := client.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil {
				t.Errorf("delete collection: %v", err)
			}
			if list, err := client.List(ctx, metav1.ListOptions{}); err != nil || len(list.Items) != 0 {
				t.Errorf("list at the end: %v, %v", list, err)
			}
		})
	}
}

func TestWatch(t *testing.T) {
	t.Parallel()
	for name, setup := range setups {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, encoding := range encodings {
				t.Run(encoding, func(t *testing.T) {
					t.Parallel()
					c := setup(t)
					config := c.as("admin")
					config.ContentType, config.AcceptContentTypes = encoding, encoding
					client := kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps("default")
					w, err := client.Watch(t.Context(), metav1.ListOptions{}) // returns before there is any event
					if err != nil {
						t.Fatal(err)
					}
					defer w.Stop()
					if _, err := client.Create(t.Context(), configMap("a"), metav1.CreateOptions{}); err != nil {
						t.Fatal(err)
					}
					if err := client.Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
						t.Fatal(err)
					}
					for _, want := range []watch.EventType{watch.Added, watch.Deleted} {
						e := next(t, w)
						if m, ok := e.Object.(*corev1.ConfigMap); !ok || e.Type != want || m.Name != "a" || m.Data["key"] != "value" {
							t.Fatalf("got %v %v, want %v", e.Type, e.Object, want)
						}
					}

					expired, err := client.Watch(t.Context(), metav1.ListOptions{ResourceVersion: "1"})
					if err != nil {
						t.Fatal(err)
					}
					defer expired.Stop()
					if e := next(t, expired); e.Type != watch.Error || !apierrors.IsResourceExpired(apierrors.FromObject(e.Object)) {
						t.Errorf("got %v %v, want an expired resource version", e.Type, e.Object)
					}
					if _, more := <-expired.ResultChan(); more {
						t.Error("the watch goes on after its error")
					}

					if _, err := client.Watch(t.Context(), metav1.ListOptions{ResourceVersion: "bad"}); !apierrors.IsBadRequest(err) {
						t.Errorf("a watch that cannot begin: %v", err)
					}

					c.BreakWatches()
					if e, more := <-w.ResultChan(); more {
						t.Errorf("a lost connection must end the watch without an event, got %v %v", e.Type, e.Object)
					}
				})
			}
		})
	}
}

func next(t *testing.T, w watch.Interface) watch.Event {
	t.Helper()
	select {
	case e, ok := <-w.ResultChan():
		if !ok {
			t.Fatal("the watch ended")
		}
		return e
	case <-time.After(time.Minute):
		t.Fatal("no event")
	}
	panic("unreachable")
}

func TestInformer(t *testing.T) {
	t.Parallel()
	for name, setup := range setups {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := setup(t)
			client := kubernetes.NewForConfigOrDie(c.as("admin"))
			for _, name := range []string{"a", "b"} {
				if _, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), configMap(name), metav1.CreateOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			added := make(chan string, 10)
			// Plain list and watch: the streamed list is the API server's to serve.
			factory := informers.NewSharedInformerFactory(client, 0)
			informer := factory.InformerFor(&corev1.ConfigMap{}, func(client kubernetes.Interface, resync time.Duration) cache.SharedIndexInformer {
				maps := client.CoreV1().ConfigMaps("default")
				lw := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
					ListWithContextFunc:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return maps.List(ctx, o) },
					WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) { return maps.Watch(ctx, o) },
				}, noWatchList{})
				return cache.NewSharedIndexInformer(lw, &corev1.ConfigMap{}, resync, cache.Indexers{})
			})
			if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
				AddFunc: func(o any) { added <- o.(*corev1.ConfigMap).Name },
			}); err != nil {
				t.Fatal(err)
			}
			factory.StartWithContext(ctx)
			if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
				t.Fatal("no sync")
			}
			if _, err := client.CoreV1().ConfigMaps("default").Create(ctx, configMap("c"), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			var names []string
			for range 3 {
				select {
				case name := <-added:
					names = append(names, name)
				case <-ctx.Done():
					t.Fatalf("only %v were added", names)
				}
			}
			slices.Sort(names)
			if !slices.Equal(names, []string{"a", "b", "c"}) {
				t.Errorf("added %v", names)
			}
		})
	}
}

type noWatchList struct{}

func (noWatchList) IsWatchListSemanticsUnSupported() bool { return true }

func TestDynamicClientAndDiscovery(t *testing.T) {
	t.Parallel()
	c := setup(t)
	config := c.as("admin")
	widgets := dynamic.NewForConfigOrDie(config).Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "widgets"}).Namespace("default")
	widget := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Widget", "metadata": map[string]any{"name": "w", "namespace": "default"}, "size": int64(3),
	}}
	if _, err := widgets.Create(t.Context(), widget, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	got, err := widgets.Get(t.Context(), "w", metav1.GetOptions{})
	if err != nil || got.Object["size"] != int64(3) {
		t.Fatalf("%v %v", got, err)
	}
	widget.SetName("applied")
	if _, err := widgets.Apply(t.Context(), "applied", widget, metav1.ApplyOptions{FieldManager: "test"}); err != nil {
		t.Errorf("apply: %v", err)
	}

	discovery := kubernetes.NewForConfigOrDie(config).Discovery()
	version, err := discovery.ServerVersion()
	if err != nil || version.GitVersion != "v1.36.3+howdah" {
		t.Errorf("version %v %v", version, err)
	}
	groups, resources, err := discovery.ServerGroupsAndResources()
	if err != nil || len(groups) != 2 || len(resources) != 2 {
		t.Errorf("groups %v resources %v: %v", groups, resources, err)
	}
}

// TestWatchOverWebSocket asserts the frames of both encodings, and that a
// watch which cannot begin is an HTTP error.
func TestWatchOverWebSocket(t *testing.T) {
	t.Parallel()
	c := setup(t)
	tlsConfig, err := c.pki.Client("admin")
	if err != nil {
		t.Fatal(err)
	}
	dialer := websocket.Dialer{TLSClientConfig: tlsConfig, HandshakeTimeout: 5 * time.Second}
	url := "wss" + strings.TrimPrefix(c.url, "https") + "/api/v1/namespaces/default/configmaps?watch=true"
	dial := func(accept string) *websocket.Conn {
		conn, _, err := dialer.DialContext(t.Context(), url, http.Header{"Accept": {accept}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	text, binary := dial("application/json"), dial(runtime.ContentTypeProtobuf)
	client := kubernetes.NewForConfigOrDie(c.as("admin")).CoreV1().ConfigMaps("default")
	if _, err := client.Create(t.Context(), configMap("a"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	kind, message, err := text.ReadMessage()
	var event struct {
		Type   string
		Object corev1.ConfigMap
	}
	if err != nil || kind != websocket.TextMessage || json.Unmarshal(message, &event) != nil || event.Type != "ADDED" || event.Object.Name != "a" {
		t.Errorf("%d %q %v", kind, message, err)
	}
	kind, message, err = binary.ReadMessage()
	var raw metav1.WatchEvent
	if err != nil || kind != websocket.BinaryMessage || raw.Unmarshal(message) != nil || raw.Type != "ADDED" || !strings.HasPrefix(string(raw.Object.Raw), "k8s\x00") {
		t.Errorf("%d %q %v", kind, message, err)
	}
	_ = text.Close()
	c.awaitEnd("Watch")
	if _, resp, err := dialer.DialContext(t.Context(), url+"&resourceVersion=bad", nil); err == nil || resp == nil || resp.StatusCode != http.StatusBadRequest {
		t.Errorf("got %v %v", resp, err)
	}
}
