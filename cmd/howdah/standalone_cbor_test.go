package main

import (
	"context"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	clientfeatures "k8s.io/client-go/features"
	featuretesting "k8s.io/client-go/features/testing"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"

	"howdah.dev/kit/pgtest"
)

// mediaTypes notes what goes over the wire: "POST application/cbor" asked and "application/cbor" answered.
type mediaTypes struct {
	http.RoundTripper
	mu    sync.Mutex
	wrong []string
}

func (m *mediaTypes) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := m.RoundTripper.RoundTrip(r)
	if err != nil {
		return resp, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	want := "application/cbor"
	if r.URL.Query().Get("watch") != "" {
		want = "application/cbor-seq"
	}
	if got := resp.Header.Get("Content-Type"); got != want {
		m.wrong = append(m.wrong, r.Method+" "+r.URL.Path+" is answered in "+got)
	}
	if got := r.Header.Get("Content-Type"); r.Body != nil && !strings.Contains(got, "cbor") && !strings.Contains(got, "merge-patch") {
		m.wrong = append(m.wrong, r.Method+" "+r.URL.Path+" is sent in "+got)
	}
	return resp, nil
}

var (
	configMapsResource = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	secretsResource    = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	crdsResource       = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	gadgetsResource    = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "gadgets"}
)

func manifest(apiVersion, kind, name string, more map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": name}}}
	for key, value := range more {
		u.Object[key] = value
	}
	return u
}

// TestStandaloneCBOR has client-go's dynamic client say everything in CBOR, where the feature gate is on.
func TestStandaloneCBOR(t *testing.T) {
	featuretesting.SetFeatureDuringTest(t, clientfeatures.ClientsAllowCBOR, true)
	featuretesting.SetFeatureDuringTest(t, clientfeatures.ClientsPreferCBOR, true)
	databaseURL, address, dir := pgtest.New(t), freePort(t), t.TempDir()
	ctx, stop := context.WithCancel(t.Context())
	root := command()
	root.SetArgs([]string{"standalone", "--database-url", databaseURL, "--listen", address, "--dir", dir, "--log-level", "warn",
		"--feature-gates", "CBORServingAndStorage=true"})
	done := make(chan error, 1)
	go func() { done <- root.ExecuteContext(ctx) }()
	defer func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	kubeconfig := filepath.Join(dir, "admin", "kubeconfig")
	connect(t, kubeconfig, done)
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config = dynamic.ConfigFor(config)
	config.AcceptContentTypes = "application/cbor"
	noted := &mediaTypes{}
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		noted.RoundTripper = next
		return noted
	})
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("built in", func(t *testing.T) { builtInInCBOR(t, client) })
	t.Run("custom", func(t *testing.T) { customInCBOR(t, client) })
	for _, wrong := range noted.wrong {
		t.Error(wrong)
	}
	t.Run("bodies", func(t *testing.T) { bodiesInCBOR(t, config) })
}

func builtInInCBOR(t *testing.T, client dynamic.Interface) {
	ctx := t.Context()
	secrets, maps := client.Resource(secretsResource).Namespace("default"), client.Resource(configMapsResource).Namespace("default")
	secret, err := secrets.Create(ctx, manifest("v1", "Secret", "s", map[string]any{"data": map[string]any{"k": "AAH/"}}), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got, _, _ := unstructured.NestedString(secret.Object, "data", "k"); got != "AAH/" {
		t.Errorf("bytes came back as %q", got)
	}
	events, err := maps.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=m", TimeoutSeconds: ptr.To(int64(60))})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	if _, err := maps.Apply(ctx, "m", manifest("v1", "ConfigMap", "m", map[string]any{"data": map[string]any{"a": "1"}}), metav1.ApplyOptions{FieldManager: "f"}); err != nil {
		t.Fatal(err)
	}
	changed, err := maps.Patch(ctx, "m", types.MergePatchType, []byte(`{"data":{"b":"2"}}`), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	unstructured.RemoveNestedField(changed.Object, "data", "a")
	if _, err := maps.Update(ctx, changed, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	list, err := maps.List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=m"})
	if err != nil || len(list.Items) != 1 || list.GetResourceVersion() == "" || list.Items[0].GetKind() != "ConfigMap" {
		t.Fatalf("list: %v, %v", list, err)
	}
	if data, _, _ := unstructured.NestedStringMap(list.Items[0].Object, "data"); len(data) != 1 || data["b"] != "2" {
		t.Errorf("listed with %v", data)
	}
	if err := maps.Delete(ctx, "m", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: ptr.To(types.UID("other"))}}); !apierrors.IsConflict(err) {
		t.Errorf("a deletion of another: %v", err)
	}
	if err := maps.Delete(ctx, "m", metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: ptr.To(changed.GetUID())}}); err != nil {
		t.Fatal(err)
	}
	if _, err := maps.Get(ctx, "m", metav1.GetOptions{}); !apierrors.IsNotFound(err) || err.Error() != `configmaps "m" not found` {
		t.Errorf("deleted: %v", err)
	}
	for _, want := range []watch.EventType{watch.Added, watch.Modified, watch.Modified, watch.Deleted} {
		e, open := <-events.ResultChan()
		if !open || e.Type != want {
			t.Fatalf("%v: %v, want %s", open, e, want)
		}
		if u, ok := e.Object.(*unstructured.Unstructured); !ok || u.GetName() != "m" {
			t.Errorf("%s of %v", e.Type, e.Object)
		}
	}
}

func customInCBOR(t *testing.T, client dynamic.Interface) {
	ctx := t.Context()
	open := map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}
	crd := manifest("apiextensions.k8s.io/v1", "CustomResourceDefinition", "gadgets.example.com", map[string]any{"spec": map[string]any{
		"group": "example.com", "scope": "Namespaced", "names": map[string]any{"plural": "gadgets", "singular": "gadget", "kind": "Gadget"},
		"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true, "schema": map[string]any{"openAPIV3Schema": map[string]any{
			"type": "object", "properties": map[string]any{"spec": open},
		}}}},
	}})
	if _, err := client.Resource(crdsResource).Create(ctx, crd, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	established, err := client.Resource(crdsResource).Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=gadgets.example.com", TimeoutSeconds: ptr.To(int64(60))})
	if err != nil {
		t.Fatal(err)
	}
	for e := range established.ResultChan() {
		conditions, _, _ := unstructured.NestedSlice(e.Object.(*unstructured.Unstructured).Object, "status", "conditions")
		isEstablished := false
		for _, c := range conditions {
			c := c.(map[string]any)
			isEstablished = isEstablished || c["type"] == "Established" && c["status"] == "True"
		}
		if isEstablished {
			break
		}
	}
	established.Stop()
	gadgets := client.Resource(gadgetsResource).Namespace("default")
	spec := map[string]any{"text": "ö", "number": int64(1) << 60, "float": 1.5, "yes": true, "list": []any{int64(1), "2", map[string]any{}}}
	if _, err := gadgets.Create(ctx, manifest("example.com/v1", "Gadget", "g", map[string]any{"spec": spec}), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := gadgets.Apply(ctx, "h", manifest("example.com/v1", "Gadget", "h", map[string]any{"spec": spec}), metav1.ApplyOptions{FieldManager: "f"}); err != nil {
		t.Fatal(err)
	}
	list, err := gadgets.List(ctx, metav1.ListOptions{})
	if err != nil || len(list.Items) != 2 {
		t.Fatalf("%v, %v", list, err)
	}
	for _, got := range list.Items {
		if !equalJSON(got.Object["spec"], spec) || got.GetKind() != "Gadget" {
			t.Errorf("%v, wanted the spec %v", got.Object, spec)
		}
	}
}

func equalJSON(a, b any) bool {
	one, err1 := direct.Marshal(a)
	two, err2 := direct.Marshal(b)
	return err1 == nil && err2 == nil && string(one) == string(two)
}

// bodiesInCBOR posts what no client would.
func bodiesInCBOR(t *testing.T, config *rest.Config) {
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	client.Timeout = time.Minute
	for name, c := range map[string]struct {
		body, contentType string
		code              int
		message           string
	}{
		"broken":          {"\xd9\xd9\xf7\xa2\x44kind", "application/cbor", http.StatusBadRequest, "unable to determine group/version/kind"},
		"nested too deep": {strings.Repeat("\x81", 1<<20), "application/cbor", http.StatusBadRequest, "exceeded max nested level"},
		"too large":       {strings.Repeat("\x81", 4<<20), "application/cbor", http.StatusRequestEntityTooLarge, "limit is"},
		"of another type": {"x", "text/plain", http.StatusUnsupportedMediaType,
			"the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf, application/cbor"},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, config.Host+"/api/v1/namespaces/default/configmaps", strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", c.contentType)
		r.Header.Set("Accept", "application/cbor")
		resp, err := client.Do(r)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		answer, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		var status metav1.Status
		if err == nil {
			err = direct.Unmarshal(answer, &status)
		}
		if err != nil || resp.StatusCode != c.code || status.Code != int32(c.code) || !strings.Contains(status.Message, c.message) {
			t.Errorf("%s: %d %+v, %v", name, resp.StatusCode, status, err)
		}
	}
}
