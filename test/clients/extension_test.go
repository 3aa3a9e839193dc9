package clients

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/kit/object/objecttest"
	"howdah.dev/kit/pgtest"
)

const extensionAPI = `apiVersion: v1
kind: Service
metadata: {name: extension, namespace: default}
spec: {type: ExternalName, externalName: localhost}
---
apiVersion: apiregistration.k8s.io/v1
kind: APIService
metadata: {name: v1.extension.example.com}
spec:
  group: extension.example.com
  version: v1
  groupPriorityMinimum: 100
  versionPriority: 100
  insecureSkipTLSVerify: true
  service: {name: extension, namespace: default, port: %s}
`

// faults are what an extension API server may do instead of answering, and what namespaces with objects there say then.
var faults = []struct {
	name            string
	everywhere      bool // or where its objects are asked for alone
	answer          func(w http.ResponseWriter, r *http.Request)
	condition, text string
}{
	{"garbage", false, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`<html>`))
	}, "NamespaceDeletionContentFailure", "Failed to delete all resource types, 1 remaining: "},
	{"hanging", false, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // or the server would not hear that the client goes
		<-r.Context().Done()
	}, "NamespaceDeletionContentFailure", "Failed to delete all resource types, 1 remaining: "},
	{"away", true, func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "out of order", http.StatusServiceUnavailable)
	},
		"NamespaceDeletionDiscoveryFailure", "extension.example.com/v1: stale GroupVersion discovery: extension.example.com/v1"},
}

// TestExtensionObjects has an extension API server whose objects are in namespaces, own and are owned: controllers reach them, and
// what it does wrong concerns only what it has. It has a cluster of its own: while the server fails, no namespace goes.
func TestExtensionObjects(t *testing.T) {
	t.Parallel()
	c, err := newCluster(t.Context(), howdah.bin(t), t.TempDir(), pgtest.Start(t, pgtest.Config{}).URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Stop)
	u := newUserOf(t, c)
	var fault atomic.Int32 // the number of one of faults, from 1
	e := objecttest.NewExtension()
	e.Fault = func(w http.ResponseWriter, r *http.Request) bool {
		n := fault.Load()
		if n == 0 || !faults[n-1].everywhere && !strings.Contains(r.URL.Path, "/widgets") {
			return false
		}
		faults[n-1].answer(w, r)
		return true
	}
	server := httptest.NewUnstartedServer(e)
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // connections that nobody needed after all
	server.StartTLS()
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	u.feed(fmt.Sprintf(extensionAPI, portOf(t, server.Listener.Addr().String())), "create", "-f", "-", "--namespace", "default")
	u.must("wait", "--for=condition=Available", "apiservice/v1.extension.example.com", "--timeout=80s")

	// What belongs together goes together, whoever has it.
	u.must("create", "configmap", "owner")
	uid := func(kind, name string) string { return u.must("get", kind, name, "-o", "jsonpath={.metadata.uid}") }
	widget := func(namespace, name string, finalizers []string, owners ...metav1.OwnerReference) *metav1.PartialObjectMetadata {
		return e.Put("widgets", metav1.ObjectMeta{Namespace: namespace, Name: name, Finalizers: finalizers, OwnerReferences: owners})
	}
	owner := widget(u.namespace, "owner", nil)
	widget(u.namespace, "owned", nil, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "owner", UID: types.UID(uid("configmap", "owner"))})
	u.feed(fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"owned","ownerReferences":[{"apiVersion":"extension.example.com/v1","kind":"Widget","name":"owner","uid":%q}]}}`, owner.UID),
		"create", "-f", "-")
	u.walk(step{args: "get widgets", want: []string{`owned`, `owner`}})
	u.must("delete", "configmap", "owner")
	u.await("the end of the widget that the config map owned", func() bool { return len(e.Names("widgets")) == 1 })
	u.must("get", "configmap", "owned")
	u.must("delete", "widget", "owner")
	u.must("wait", "--for=delete", "configmap/owned", "--timeout=80s")

	condition := func(namespace, kind, text string) {
		t.Helper()
		u.await(kind+" "+text, func() bool {
			out, err := u.try("", "get", "namespace", namespace, "-o", `jsonpath={.status.conditions[?(@.type=="`+kind+`")].message}`)
			return err == nil && strings.Contains(out, text)
		})
	}
	u.must("create", "namespace", "holding")
	widget("holding", "free", nil)
	widget("holding", "held", []string{"example.com/hold"})
	u.must("delete", "namespace", "holding", "--wait=false")
	condition("holding", "NamespaceFinalizersRemaining", "example.com/hold in 1 resource instances")
	condition("holding", "NamespaceContentRemaining", "widgets.extension.example.com has 1 resource instances")
	e.Release("widgets", "holding", "held")
	u.must("wait", "--for=delete", "namespace/holding", "--timeout=80s")

	for i, f := range faults {
		u.must("create", "namespace", f.name)
		u.must("create", "configmap", "here", "--namespace", f.name)
		widget(f.name, "there", nil)
		fault.Store(int32(i) + 1)
		if f.everywhere {
			u.must("wait", "--for=condition=Available=False", "apiservice/v1.extension.example.com", "--timeout=80s")
		}
		u.must("delete", "namespace", f.name, "--wait=false")
		u.must("wait", "--for=delete", "configmap/here", "--namespace", f.name, "--timeout=80s")
		condition(f.name, f.condition, f.text)
		fault.Store(0)
		u.must("wait", "--for=delete", "namespace/"+f.name, "--timeout=80s")
		if left := e.Names("widgets"); len(left) > 0 {
			t.Errorf("after %s: %v", f.name, left)
		}
	}
}
