package apiserver

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/kit/apistatus"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/cache"
)

// converters is a webhook that moves spec.hostPort of v1 to spec.host and spec.port of v2.
type converters struct {
	*httptest.Server
	calls atomic.Int64
	mu    sync.Mutex
	fault string
}

func (c *converters) setFault(fault string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fault = fault
}

func startConverters(t *testing.T) *converters {
	c := &converters{}
	c.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.calls.Add(1)
		c.mu.Lock()
		fault := c.fault
		c.mu.Unlock()
		var review map[string]any
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		request := review["request"].(map[string]any)
		response := map[string]any{"uid": request["uid"], "result": map[string]any{"status": "Success"}}
		var converted []any
		for _, o := range request["objects"].([]any) {
			u := &unstructured.Unstructured{Object: o.(map[string]any)}
			convertHost(u, request["desiredAPIVersion"].(string))
			switch fault {
			case "name":
				u.SetName("another")
			case "version":
				u.SetAPIVersion("example.net/v3")
			case "meta":
				u.SetFinalizers([]string{"evil.example.com/x"})
				u.SetLabels(map[string]string{"converted": "yes"})
			}
			converted = append(converted, u.Object)
		}
		switch fault {
		case "fail":
			response["result"] = map[string]any{"status": "Failure", "message": "not today"}
			converted = nil
		case "fewer":
			converted = nil
		case "uid":
			response["uid"] = "other"
		case "garbage":
			_, _ = w.Write([]byte("<html>"))
			return
		case "500":
			http.Error(w, "out of order", http.StatusInternalServerError)
			return
		}
		response["convertedObjects"] = converted
		delete(review, "request")
		review["response"] = response
		_ = json.NewEncoder(w).Encode(review)
	}))
	c.Config.ErrorLog = log.New(io.Discard, "", 0) // clients that leave in the middle of a handshake are no news
	c.StartTLS()
	t.Cleanup(c.Close)
	return c
}

func convertHost(u *unstructured.Unstructured, to string) {
	spec, _ := u.Object["spec"].(map[string]any)
	if spec == nil {
		spec = map[string]any{}
	}
	if strings.HasSuffix(to, "/v2") {
		host, port, _ := strings.Cut(fmt.Sprint(spec["hostPort"]), ":")
		u.Object["spec"] = map[string]any{"host": host, "port": port}
	} else {
		u.Object["spec"] = map[string]any{"hostPort": fmt.Sprint(spec["host"]) + ":" + fmt.Sprint(spec["port"])}
	}
	u.SetAPIVersion(to)
}

func (c *converters) definition(review string) string {
	ca := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate().Raw}))
	return fmt.Sprintf(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: hosts.example.net}
spec:
  group: example.net
  scope: Namespaced
  names: {plural: hosts, kind: Host}
  conversion:
    strategy: Webhook
    webhook: {conversionReviewVersions: [%s], clientConfig: {url: "%s/convert", caBundle: %s}}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {hostPort: {type: string}}}}}}
  - name: v2
    served: true
    storage: false
    selectableFields: [{jsonPath: .spec.host}]
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, required: [host], properties: {host: {type: string, maxLength: 8}, port: {type: string}}}}}}
`, review, c.URL, ca)
}

const hostsV1, hostsV2 = "example.net/v1/hosts", "example.net/v2/hosts"

func TestConversionByWebhook(t *testing.T) {
	for _, review := range []string{"v1", "v7, v1beta1"} {
		t.Run(review, func(t *testing.T) {
			f, c := startMemory(t), startConverters(t)
			f.define(c.definition(review))
			made := f.object(f.create(hostsV1, "default", `{"metadata":{"name":"a"},"spec":{"hostPort":"one:80"}}`))
			if c.calls.Load() != 0 {
				t.Error("an object of the storage version is converted")
			}
			if u := f.object(f.get(hostsV2, "default", "a")); field(u, "spec", "host") != "one" || u.GetUID() != made.GetUID() || u.GetResourceVersion() != made.GetResourceVersion() {
				t.Errorf("%v", u.Object)
			}
			w := f.open(t, &apiv1.WatchRequest{Group: "example.net", Version: "v2", Resource: "hosts", ResourceVersion: made.GetResourceVersion()})
			u := f.object(f.create(hostsV2, "default", `{"metadata":{"name":"b"},"spec":{"host":"two","port":"81"}}`))
			if field(u, "spec", "port") != "81" {
				t.Errorf("%v", u.Object)
			}
			event := &unstructured.Unstructured{}
			if err := event.UnmarshalJSON(w.next().GetObject()); err != nil || field(event, "spec", "host") != "two" || event.GetAPIVersion() != "example.net/v2" {
				t.Errorf("event %v %v", err, event.Object)
			}
			if u := f.object(f.get(hostsV1, "default", "b")); field(u, "spec", "hostPort") != "two:81" {
				t.Errorf("%v", u.Object)
			}
			// Each version validates what is sent in it, and selects by its own fields.
			if _, err := f.create(hostsV2, "default", `{"metadata":{"name":"c"},"spec":{"host":"much-too-long"}}`); err == nil || !strings.Contains(err.Error(), "spec.host: Too long: may not be more than 8 bytes") {
				t.Errorf("%v", err)
			}
			u = f.object(f.change(hostsV2, "default", "b", "merge-patch+json", `{"spec":{"port":"82"}}`))
			if field(u, "spec", "port") != "82" || u.GetGeneration() != 2 {
				t.Errorf("%v", u.Object)
			}
			if u := f.object(f.change(hostsV2, "default", "b", "apply-patch+yaml", "apiVersion: example.net/v2\nkind: Host\nspec: {host: two}")); field(u, "spec", "port") != "82" {
				t.Errorf("%v", u.Object)
			}
			calls := c.calls.Load()
			for range 30 {
				f.object(f.create(hostsV1, "default", `{"metadata":{"generateName":"many-"},"spec":{"hostPort":"x:1"}}`))
			}
			list := &apiv1.ListRequest{Group: "example.net", Version: "v2", Resource: "hosts"}
			b, err := f.list(list)
			if err != nil || strings.Count(string(b), `"host":"x"`) != 30 {
				t.Errorf("%v %s", err, b)
			}
			if more := c.calls.Load() - calls; more > 40 { // one for the list, one an event of the watch
				t.Errorf("%d calls for one list", more)
			}
			list.FieldSelector = "spec.host=two"
			if b, err := f.list(list); err != nil || strings.Count(string(b), `"kind":"Host"`) != 1 {
				t.Errorf("%v %s", err, b)
			}
			if _, err := f.api.DeleteCollection(f.ctx, &apiv1.DeleteCollectionRequest{Group: "example.net", Version: "v2", Resource: "hosts", Namespace: "default"}); err != nil {
				t.Error(err)
			}
		})
	}
}

// A webhook that fails, lies or talks garbage fails what needs it, and nothing else.
func TestConversionFaults(t *testing.T) {
	f, c := startMemory(t), startConverters(t)
	f.define(c.definition("v1"))
	f.object(f.create(hostsV1, "default", `{"metadata":{"name":"a"},"spec":{"hostPort":"one:80"}}`))
	for fault, want := range map[string]string{
		"fail":    "conversion webhook for example.net/v1, Kind=Host failed: not today",
		"fewer":   "conversion webhook for example.net/v1, Kind=Host returned 0 objects, expected 1",
		"uid":     "conversion webhook for example.net/v1, Kind=Host failed: expected response.uid=",
		"garbage": "conversion webhook for example.net/v1, Kind=Host failed: ",
		"500":     `conversion webhook for example.net/v1, Kind=Host failed: an error on the server ("out of order") has prevented the request from succeeding`,
		"name":    "conversion webhook for example.net/v1, Kind=Host returned invalid object: must have the same name: a != another",
		"version": "invalid groupVersion (expected example.net/v2, received example.net/v3)",
	} {
		c.setFault(fault)
		_, err := f.get(hostsV2, "default", "a")
		if s := apistatus.Of(err); s.Code != 500 || !strings.Contains(s.Message, want) {
			t.Errorf("%s: %+v", fault, s)
		}
		if _, err := f.list(&apiv1.ListRequest{Group: "example.net", Version: "v2", Resource: "hosts"}); apistatus.Of(err).Code != 500 {
			t.Errorf("%s: list: %v", fault, err)
		}
		if _, err := f.create(hostsV2, "default", `{"metadata":{"name":"b"},"spec":{"host":"two","port":"81"}}`); apistatus.Of(err).Code != 500 {
			t.Errorf("%s: create: %v", fault, err)
		}
		f.object(f.get(hostsV1, "default", "a"))
	}
	c.setFault("meta")
	if u := f.object(f.get(hostsV2, "default", "a")); len(u.GetFinalizers()) > 0 || u.GetLabels()["converted"] != "yes" {
		t.Errorf("a webhook changes more than labels and annotations: %v", u.Object)
	}
	// The deletion of the definition needs no webhook.
	c.setFault("500")
	if _, err := f.drop(crds, "", "hosts.example.net"); err != nil {
		t.Fatal(err)
	}
	f.await("the end of the definition", func() bool { _, err := f.get(crds, "", "hosts.example.net"); return apistatus.Of(err).Code == 404 })
}

// What has been converted is served from memory while the webhook is down: lists, watches and gets. What has not is an error, and nothing is
// left out.
func TestConvertedIsRemembered(t *testing.T) {
	f, c := startMemory(t), startConverters(t)
	f.define(c.definition("v1"))
	f.object(f.create(hostsV1, "default", `{"metadata":{"name":"a"},"spec":{"hostPort":"one:80"}}`))
	list := func(version string) ([]byte, error) {
		return f.list(&apiv1.ListRequest{Group: "example.net", Version: "v2", Resource: "hosts", ResourceVersion: version})
	}
	if _, err := list(""); err != nil {
		t.Fatal(err)
	}
	c.setFault("500")
	home := f.server.known.Table.Find(schema.GroupVersionResource{Group: "example.net", Version: "v1", Resource: "hosts"}).Kind
	for _, item := range f.server.cache.For(home).List(cache.Query{}).Items {
		for range 3 { // nobody has read it for long
			item.Cool()
		}
	}
	for _, version := range []string{"", "0"} {
		if b, err := list(version); err != nil || strings.Count(string(b), `"host":"one"`) != 1 {
			t.Errorf("resourceVersion %q: %v %s", version, err, b)
		}
	}
	w := f.open(t, &apiv1.WatchRequest{Group: "example.net", Version: "v2", Resource: "hosts", ResourceVersion: "0"})
	if b := w.next().GetObject(); !strings.Contains(string(b), `"host":"one"`) {
		t.Errorf("%s", b)
	}
	f.object(f.create(hostsV1, "default", `{"metadata":{"name":"b"},"spec":{"hostPort":"two:80"}}`))
	for _, version := range []string{"", "0"} {
		if b, err := list(version); apistatus.Of(err).Code != 500 {
			t.Errorf("resourceVersion %q: %v %s", version, err, b)
		}
	}
	c.setFault("")
	if b, err := list("0"); err != nil || strings.Count(string(b), `"kind":"Host"`) != 2 {
		t.Errorf("%v %s", err, b)
	}
}

// What cannot be converted may be selected or not: a list of what is selected fails, and a watch ends with the error. Whoever resumes it misses nothing.
func TestSelectionOfWhatCannotBeConverted(t *testing.T) {
	f, c := startMemory(t), startConverters(t)
	f.define(c.definition("v1"))
	one := `{"metadata":{"name":"a"},"spec":{"hostPort":"one:80"}}`
	f.object(f.create(hostsV1, "default", one))
	list := &apiv1.ListRequest{Group: "example.net", Version: "v2", Resource: "hosts", FieldSelector: "spec.host=one"}
	watch := &apiv1.WatchRequest{Group: "example.net", Version: "v2", Resource: "hosts", FieldSelector: "spec.host=one", ResourceVersion: "0"}
	w := f.open(t, watch)
	last := f.object(w.next().GetObject(), nil)

	c.setFault("500")
	// It leaves the selection, which nobody can tell.
	f.object(f.change(hostsV1, "default", "a", "merge-patch+json", `{"spec":{"hostPort":"two:80"}}`))
	if e := w.next(); e.GetType() != "ERROR" || !strings.Contains(string(e.GetObject()), "out of order") {
		t.Errorf("event %v", e)
	}
	select {
	case err := <-w.ended:
		if err != io.EOF || len(w.events) > 0 {
			t.Errorf("after the error: %v, %d events more", err, len(w.events))
		}
	case <-time.After(time.Minute):
		t.Fatal("the watch goes on after its error")
	}
	if b, err := f.list(list); apistatus.Of(err).Code != 500 {
		t.Errorf("list: %v %s", err, b)
	}
	watch.ResourceVersion = last.GetResourceVersion()
	if e := f.open(t, watch).next(); e.GetType() != "ERROR" {
		t.Errorf("resumed: %v", e)
	}
	c.setFault("")
	if e := f.open(t, watch).next(); e.GetType() != "DELETED" || !strings.Contains(string(e.GetObject()), `"host":"one"`) {
		t.Errorf("resumed: %v", e)
	}
	if b, err := f.list(list); err != nil || strings.Contains(string(b), `"kind":"Host"`) {
		t.Errorf("list: %v %s", err, b)
	}
}
