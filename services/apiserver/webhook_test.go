package apiserver

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/apistatus"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

const registration = "admissionregistration.k8s.io/v1/"

// hooks is a server of webhooks, over TLS.
type hooks struct {
	t      *testing.T
	server *httptest.Server
	hang   chan struct{}
	gone   atomic.Bool // it hangs up on everybody

	mu   sync.Mutex
	seen []*admissionv1.AdmissionRequest
}

// review answers one request; path says what the webhook does.
func (h *hooks) review(path string, request *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
	allow := &admissionv1.AdmissionResponse{UID: request.UID, Allowed: true}
	patch := func(text string) *admissionv1.AdmissionResponse {
		kind := admissionv1.PatchTypeJSONPatch
		allow.Patch, allow.PatchType = []byte(text), &kind
		return allow
	}
	switch path {
	case "/deny":
		return &admissionv1.AdmissionResponse{UID: request.UID, Result: &metav1.Status{Message: "this is not wanted", Code: 403, Reason: metav1.StatusReasonForbidden}}
	case "/deny-silently":
		return &admissionv1.AdmissionResponse{UID: request.UID}
	case "/warn":
		allow.Warnings = []string{"think twice"}
	case "/lie":
		allow.UID = "another"
	case "/patch-first":
		return patch(`[{"op":"add","path":"/data/first","value":"1"}]`)
	case "/patch-second":
		cm := &corev1.ConfigMap{}
		if err := json.Unmarshal(request.Object.Raw, cm); err == nil && cm.Data["first"] != "" {
			return patch(`[{"op":"add","path":"/data/second","value":"2"}]`)
		}
	case "/patch-managers":
		return patch(`[{"op":"replace","path":"/metadata/managedFields/0/operation","value":"Guess"}]`)
	case "/patch-binding":
		return patch(`[{"op":"add","path":"/metadata/annotations","value":{"by":"webhook"}},{"op":"replace","path":"/target/name","value":"chosen"}]`)
	case "/patch-eviction":
		return patch(`[{"op":"add","path":"/deleteOptions","value":{"gracePeriodSeconds":66}}]`)
	case "/patch-kind":
		return patch(`[{"op":"replace","path":"/metadata/namespace","value":"elsewhere"}]`)
	case "/patch-unknown":
		return patch(`[{"op":"add","path":"/unknown","value":"x"}]`)
	case "/patch-null":
		return patch(`[{"op":"replace","path":"/data","value":null}]`)
	case "/patch-nonsense":
		return patch(`[{"op":"remove","path":"/no/such"}]`)
	case "/patch-garbage":
		return patch(`nonsense`)
	case "/patch-untyped":
		allow.Patch = []byte(`[]`)
	}
	return allow
}

func (h *hooks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h.gone.Load() {
		panic(http.ErrAbortHandler)
	}
	switch r.URL.Path {
	case "/hang":
		select {
		case <-h.hang:
		case <-r.Context().Done():
		}
		return
	case "/fail":
		http.Error(w, "out of order", http.StatusInternalServerError)
		return
	case "/garbage":
		_, _ = io.WriteString(w, "<html>")
		return
	case "/absent":
		_, _ = io.WriteString(w, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`)
		return
	case "/other-kind":
		_, _ = io.WriteString(w, `{"apiVersion":"v1","kind":"Pod","response":{"allowed":true}}`)
		return
	}
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil {
		http.Error(w, fmt.Sprint(err), http.StatusBadRequest)
		return
	}
	h.mu.Lock()
	h.seen = append(h.seen, review.Request)
	h.mu.Unlock()
	review.Response = h.review(r.URL.Path, review.Request)
	review.Request = nil
	_ = json.NewEncoder(w).Encode(review)
}

func startHooks(t *testing.T) *hooks {
	h := &hooks{t: t, hang: make(chan struct{})}
	h.server = httptest.NewTLSServer(h)
	t.Cleanup(func() { close(h.hang); h.server.CloseClientConnections(); h.server.Close() })
	return h
}

// requests returns what has been asked since the last call.
func (h *hooks) requests() []*admissionv1.AdmissionRequest {
	h.mu.Lock()
	defer h.mu.Unlock()
	seen := h.seen
	h.seen = nil
	return seen
}

// hook is the JSON of one webhook at a path, for config maps; more is added to it.
func (h *hooks) hook(name, path, more string) string {
	bundle, err := json.Marshal(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.server.Certificate().Raw}))
	if err != nil {
		h.t.Fatal(err)
	}
	if !strings.Contains(more, `"rules"`) {
		more += `,"rules":[{"operations":["CREATE","UPDATE","DELETE"],"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"]}]`
	}
	if !strings.Contains(more, `"timeoutSeconds"`) {
		more += `,"timeoutSeconds":30` // the machine may be busy
	}
	return fmt.Sprintf(`{"name":"%s.example.com","clientConfig":{"url":"%s%s","caBundle":%s},"sideEffects":"None","admissionReviewVersions":["v1","v1beta1"]%s}`,
		name, h.server.URL, path, bundle, more)
}

// configure makes a configuration of webhooks and waits until it is in force; the function that it returns removes it.
func (f *fixture) configure(kind, name string, webhooks ...string) func() {
	f.t.Helper()
	if _, err := f.create(registration+kind, "", fmt.Sprintf(`{"metadata":{"name":%q},"webhooks":[%s]}`, name, strings.Join(webhooks, ","))); err != nil {
		f.t.Fatal(err)
	}
	f.fresh()
	return func() {
		f.t.Helper()
		if err := f.remove(registration+kind, "", name); err != nil {
			f.t.Fatal(err)
		}
		f.fresh()
	}
}

func (f *fixture) fresh() {
	f.t.Helper()
	if err := f.server.cache.Fresh(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) remove(resource, namespace, name string) error {
	g, v, r := split(resource)
	_, err := f.api.Delete(f.ctx, &apiv1.DeleteRequest{Group: g, Version: v, Resource: r, Namespace: namespace, Name: name})
	return apistatus.FromGRPC(err)
}

// warnings creates an object and returns the warnings of the answer.
func (f *fixture) warnings(resource, namespace, body string) ([]string, error) {
	g, v, r := split(resource)
	var header metadata.MD
	_, err := f.api.Create(f.ctx, &apiv1.CreateRequest{Group: g, Version: v, Resource: r, Namespace: namespace, Object: []byte(body)}, grpc.Header(&header))
	return header.Get("warning"), apistatus.FromGRPC(err)
}

const configMaps = "v1/configmaps"

func guardedMap(name string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q,"labels":{"who":%q}},"data":{"a":"b"}}`, name, name)
}

func TestValidatingWebhooks(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	f, h := startMemory(t, func(c *Config) { c.Registerer = registry }), startHooks(t)
	for name, test := range map[string]struct {
		path, more string
		code       int32
		message    string // of the refusal; empty lets the write pass
	}{
		"allows":            {path: "/allow"},
		"denies":            {"/deny", "", 403, `admission webhook "a.example.com" denied the request: this is not wanted`},
		"denies silently":   {"/deny-silently", "", 400, `admission webhook "a.example.com" denied the request without explanation`},
		"lies":              {"/lie", "", 500, `Internal error occurred: failed calling webhook "a.example.com": received invalid webhook response: expected response.uid="UID", got "another"`},
		"says nothing":      {"/absent", "", 500, `Internal error occurred: failed calling webhook "a.example.com": received invalid webhook response: webhook response was absent`},
		"is something else": {"/other-kind", "", 500, `Internal error occurred: failed calling webhook "a.example.com": failed to call webhook: no kind "Pod" is registered for version "v1" in scheme "pkg/runtime/scheme.go:111"`},
		"talks garbage":     {"/garbage", "", 500, `Internal error occurred: failed calling webhook "a.example.com": failed to call webhook: couldn't get version/kind; json parse error: json: cannot unmarshal string into Go value of type struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }`},
		"fails":             {"/fail", "", 500, `Internal error occurred: failed calling webhook "a.example.com": failed to call webhook: an error on the server ("out of order") has prevented the request from succeeding`},
		"hangs":             {"/hang", `,"timeoutSeconds":1`, 500, `Internal error occurred: failed calling webhook "a.example.com": failed to call webhook: Post "URL/hang?timeout=1s": context deadline exceeded`},
		"may fail":          {"/fail", `,"failurePolicy":"Ignore"`, 0, ""},
		"may hang":          {"/hang", `,"failurePolicy":"Ignore","timeoutSeconds":1`, 0, ""},
		"may lie":           {"/lie", `,"failurePolicy":"Ignore"`, 0, ""},
		"may not deny":      {"/deny", `,"failurePolicy":"Ignore"`, 403, `admission webhook "a.example.com" denied the request: this is not wanted`},
		"patches":           {"/patch-first", "", 500, `Internal error occurred: failed calling webhook "a.example.com": received invalid webhook response: validating webhook may not return response.patch`},
	} {
		remove := f.configure("validatingwebhookconfigurations", "c", h.hook("a", test.path, test.more))
		_, err := f.create(configMaps, "default", guardedMap("x"))
		remove()
		if test.message == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			} else if err := f.remove(configMaps, "default", "x"); err != nil {
				t.Fatal(err)
			}
			h.requests()
			continue
		}
		want := strings.ReplaceAll(test.message, "URL", h.server.URL)
		if seen := h.requests(); len(seen) > 0 {
			want = strings.ReplaceAll(want, "UID", string(seen[0].UID))
		}
		if status := apistatus.Of(err); err == nil || status.Code != test.code || status.Message != want {
			t.Errorf("%s: %d %v\nwant %d %s", name, status.Code, err, test.code, want)
		}
		if _, err := f.get(configMaps, "default", "x"); !apierrors.IsNotFound(err) {
			t.Errorf("%s: what was refused is there: %v", name, err)
		}
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counted := map[string]bool{}
	for _, family := range families {
		counted[family.GetName()] = true
	}
	for _, name := range []string{"apiserver_admission_webhook_admission_duration_seconds", "apiserver_admission_webhook_rejection_count",
		"apiserver_admission_webhook_fail_open_count", "apiserver_admission_webhook_request_total"} {
		if !counted[name] {
			t.Errorf("%s is not counted", name)
		}
	}
}

func TestWebhookSeesTheRequest(t *testing.T) {
	t.Parallel()
	f, h := startMemory(t), startHooks(t)
	defer f.configure("validatingwebhookconfigurations", "c", h.hook("a", "/allow", ""))()
	if _, err := f.as("jane", "system:masters", "devs").create(configMaps, "default", guardedMap("x")); err != nil {
		t.Fatal(err)
	}
	seen := h.requests()
	if len(seen) != 1 {
		t.Fatalf("%d reviews of one write", len(seen))
	}
	r := seen[0]
	if r.Kind != (metav1.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}) || r.Resource != (metav1.GroupVersionResource{Version: "v1", Resource: "configmaps"}) ||
		r.Name != "x" || r.Namespace != "default" || r.Operation != admissionv1.Create || r.UserInfo.Username != "jane" || len(r.UserInfo.Groups) < 2 || *r.DryRun {
		t.Errorf("the request is %+v", r)
	}
	if cm := (&corev1.ConfigMap{}); json.Unmarshal(r.Object.Raw, cm) != nil || cm.Kind != "ConfigMap" || cm.UID == "" || cm.Data["a"] != "b" || r.OldObject.Raw != nil {
		t.Errorf("the object is %s, the old one %s", r.Object.Raw, r.OldObject.Raw)
	}
	if !strings.Contains(string(r.Options.Raw), `"kind":"CreateOptions"`) {
		t.Errorf("the options are %s", r.Options.Raw)
	}
	if err := f.remove(configMaps, "default", "x"); err != nil {
		t.Fatal(err)
	}
	if seen := h.requests(); len(seen) != 1 || seen[0].Operation != admissionv1.Delete || seen[0].Object.Raw != nil || !strings.Contains(string(seen[0].OldObject.Raw), `"a":"b"`) {
		t.Errorf("a deletion is shown as %+v", seen)
	}
}

func TestWebhookRules(t *testing.T) {
	t.Parallel()
	f, h := startMemory(t), startHooks(t)
	if _, err := f.create("v1/namespaces", "", `{"metadata":{"name":"marked","labels":{"mark":"yes"}}}`); err != nil {
		t.Fatal(err)
	}
	f.fresh()
	rules := func(text string) string { return `,"rules":[` + text + `]` }
	for name, test := range map[string]struct {
		more              string
		namespace, object string
		asked             int
	}{
		"another resource":   {rules(`{"operations":["*"],"apiGroups":["*"],"apiVersions":["*"],"resources":["pods"]}`), "default", "x", 0},
		"another operation":  {rules(`{"operations":["UPDATE"],"apiGroups":["*"],"apiVersions":["*"],"resources":["*"]}`), "default", "x", 0},
		"everything":         {rules(`{"operations":["*"],"apiGroups":["*"],"apiVersions":["*"],"resources":["*/*"]}`), "default", "x", 1},
		"cluster scope":      {rules(`{"operations":["*"],"apiGroups":["*"],"apiVersions":["*"],"resources":["*"],"scope":"Cluster"}`), "default", "x", 0},
		"namespaced scope":   {rules(`{"operations":["*"],"apiGroups":["*"],"apiVersions":["*"],"resources":["*"],"scope":"Namespaced"}`), "default", "x", 1},
		"another namespace":  {`,"namespaceSelector":{"matchLabels":{"mark":"yes"}}`, "default", "x", 0},
		"the namespace":      {`,"namespaceSelector":{"matchLabels":{"mark":"yes"}}`, "marked", "x", 1},
		"another object":     {`,"objectSelector":{"matchLabels":{"who":"y"}}`, "default", "x", 0},
		"the object":         {`,"objectSelector":{"matchLabels":{"who":"x"}}`, "default", "x", 1},
		"a false condition":  {`,"matchConditions":[{"name":"a","expression":"object.data.a == 'c'"}]`, "default", "x", 0},
		"a true condition":   {`,"matchConditions":[{"name":"a","expression":"object.data.a == 'b' && request.userInfo.username == 'admin'"}]`, "default", "x", 1},
		"asks who may":       {`,"matchConditions":[{"name":"a","expression":"!authorizer.group('').resource('secrets').namespace('default').check('get').allowed()"}]`, "default", "x", 0},
		"an error, ignored":  {`,"failurePolicy":"Ignore","matchConditions":[{"name":"a","expression":"object.none == 'b'"}]`, "default", "x", 0},
		"one of both is met": {`,"matchConditions":[{"name":"a","expression":"object.none == 'b'"},{"name":"b","expression":"false"}]`, "default", "x", 0},
	} {
		remove := f.configure("validatingwebhookconfigurations", "c", h.hook("a", "/allow", test.more))
		_, err := f.create(configMaps, test.namespace, guardedMap(test.object))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := len(h.requests()); got != test.asked {
			t.Errorf("%s: asked %d times, want %d", name, got, test.asked)
		}
		remove()
		if err := f.remove(configMaps, test.namespace, test.object); err != nil {
			t.Fatal(err)
		}
	}
	remove := f.configure("validatingwebhookconfigurations", "c", h.hook("a", "/allow", `,"matchConditions":[{"name":"a","expression":"object.none == 'b'"}]`))
	if _, err := f.create(configMaps, "default", guardedMap("x")); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `configmaps "x" is forbidden: expression 'object.none == 'b'' resulted in error: no such key: none`) {
		t.Errorf("a condition that fails: %v", err)
	}
	remove()
}

// A rule for one version sees writes in another, converted, unless it wants exactly its own.
func TestWebhookMatchPolicy(t *testing.T) {
	t.Parallel()
	f, h := startMemory(t), startHooks(t)
	const deployments = `,"rules":[{"operations":["*"],"apiGroups":["apps"],"apiVersions":["v1"],"resources":["deployments"]}]`
	body := `{"metadata":{"name":"d"},"spec":{"selector":{"matchLabels":{"app":"x"}},"template":` + podTemplate + `}}`
	for policy, asked := range map[string]int{"Exact": 0, "Equivalent": 1} {
		remove := f.configure("validatingwebhookconfigurations", "c", h.hook("a", "/allow", `,"matchPolicy":"`+policy+`"`+deployments))
		if _, err := f.create("extensions/v1beta1/deployments", "default", body); err != nil {
			t.Fatal(err)
		}
		seen := h.requests()
		if len(seen) != asked {
			t.Fatalf("%s: asked %d times", policy, len(seen))
		}
		if asked == 1 {
			r := seen[0]
			if r.Kind.Group != "apps" || r.RequestKind.Group != "extensions" || r.Resource.Version != "v1" || r.RequestResource.Version != "v1beta1" ||
				!strings.Contains(string(r.Object.Raw), `"apiVersion":"apps/v1"`) {
				t.Errorf("the request is %+v, the object %s", r, r.Object.Raw)
			}
		}
		remove()
		if err := f.remove("apps/v1/deployments", "default", "d"); err != nil {
			t.Fatal(err)
		}
	}
}

// Of reviews, those that are wrong are refused before a webhook validates them.
func TestWebhooksOfReviews(t *testing.T) {
	t.Parallel()
	f, h := startMemory(t), startHooks(t)
	f.configure("validatingwebhookconfigurations", "c", h.hook("a", "/allow", `,"rules":[{"operations":["*"],"apiGroups":["authorization.k8s.io"],"apiVersions":["v1"],"resources":["localsubjectaccessreviews"]}]`))
	for namespace, asked := range map[string]int{"other": 0, "default": 1} {
		_, err := f.create("authorization.k8s.io/v1/localsubjectaccessreviews", "default", `{"spec":{"user":"jane","resourceAttributes":{"verb":"get","resource":"pods","namespace":"`+namespace+`"}}}`)
		if (err == nil) != (asked == 1) || err != nil && !strings.Contains(err.Error(), "must match metadata.namespace") {
			t.Errorf("%s: %v", namespace, err)
		}
		if seen := h.requests(); len(seen) != asked {
			t.Errorf("%s: asked %d times", namespace, len(seen))
		}
	}
}

func TestMutatingWebhooks(t *testing.T) {
	t.Parallel()
	f, h := startMemory(t), startHooks(t)
	// The second wants to see what the first has done; it stands before it, and is asked again.
	remove := f.configure("mutatingwebhookconfigurations", "a", h.hook("a", "/patch-second", `,"reinvocationPolicy":"IfNeeded"`))
	removeSecond := f.configure("mutatingwebhookconfigurations", "b", h.hook("b", "/patch-first", ""))
	body, err := f.create(configMaps, "default", guardedMap("x"))
	if err != nil || !strings.Contains(string(body), `"first":"1"`) || !strings.Contains(string(body), `"second":"2"`) {
		t.Errorf("%s, %v", body, err)
	}
	if seen := h.requests(); len(seen) != 3 {
		t.Errorf("%d reviews, want 3", len(seen))
	}
	remove()
	// In order, no second round is needed.
	remove = f.configure("mutatingwebhookconfigurations", "c", h.hook("c", "/patch-second", ""))
	body, err = f.create(configMaps, "default", guardedMap("y"))
	if err != nil || !strings.Contains(string(body), `"second":"2"`) {
		t.Errorf("%s, %v", body, err)
	}
	remove()
	removeSecond()
	for path, want := range map[string]string{
		"/patch-kind":     "the namespace of the provided object does not match the namespace sent on the request",
		"/patch-nonsense": "Internal error occurred: ",
		"/patch-garbage":  `Internal error occurred: failed calling webhook "a.example.com": received undecodable patch in webhook response: invalid character 'o' in literal null (expecting 'u')`,
		"/patch-untyped":  `Internal error occurred: failed calling webhook "a.example.com": received invalid webhook response: webhook returned response.patch but not response.patchType`,
		"/deny":           `admission webhook "a.example.com" denied the request: this is not wanted`,
	} {
		remove := f.configure("mutatingwebhookconfigurations", "a", h.hook("a", path, ""))
		if _, err := f.create(configMaps, "default", guardedMap("z")); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v\nwant %s", path, err, want)
		}
		remove()
	}
	defer f.configure("mutatingwebhookconfigurations", "a", h.hook("a", "/patch-first", ""))()
	if err := f.remove(configMaps, "default", "x"); err == nil || err.Error() != `Internal error occurred: admission webhook "a.example.com" attempted to modify the object, which is not supported for this operation` {
		t.Errorf("a patch of a deletion: %v", err)
	}
}

func TestWebhookWarningsAndDryRun(t *testing.T) {
	t.Parallel()
	f, h := startMemory(t), startHooks(t)
	remove := f.configure("validatingwebhookconfigurations", "c", h.hook("a", "/warn", ""))
	warnings, err := f.warnings(configMaps, "default", guardedMap("x"))
	if err != nil || len(warnings) != 1 || warnings[0] != "think twice" {
		t.Errorf("%q, %v", warnings, err)
	}
	_, err = f.api.Create(f.ctx, &apiv1.CreateRequest{Version: "v1", Resource: "configmaps", Namespace: "default", Object: []byte(guardedMap("y")), DryRun: []string{"All"}})
	if err != nil {
		t.Error(err)
	}
	if seen := h.requests(); len(seen) != 2 || !*seen[1].DryRun || !strings.Contains(string(seen[1].Options.Raw), `"dryRun":["All"]`) {
		t.Errorf("the dry run was shown as %+v", seen)
	}
	var header metadata.MD
	if _, err := f.api.DeleteCollection(f.ctx, &apiv1.DeleteCollectionRequest{Version: "v1", Resource: "configmaps", Namespace: "default"}, grpc.Header(&header)); err != nil {
		t.Fatal(apistatus.FromGRPC(err))
	}
	if warnings := header.Get("warning"); len(warnings) != 1 || warnings[0] != "think twice" {
		t.Errorf("of a collection that is deleted: %q", warnings)
	}
	remove()
}

// Managed fields that a webhook has broken are as they were, and who wrote is warned.
func TestWebhookBreaksManagedFields(t *testing.T) {
	t.Parallel()
	f, h := startMemory(t), startHooks(t)
	defer f.configure("mutatingwebhookconfigurations", "c", h.hook("a", "/patch-managers", ""))()
	warnings, err := f.warnings(configMaps, "default", guardedMap("x"))
	if err != nil || len(warnings) != 1 || !strings.HasPrefix(warnings[0], ".metadata.managedFields was in an invalid state after admission; "+
		"this could be caused by an outdated mutating admission controller; please fix your requests: ") {
		t.Errorf("%q, %v", warnings, err)
	}
	var cm corev1.ConfigMap
	body, err := f.get(configMaps, "default", "x")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(body, &cm); err != nil || len(cm.ManagedFields) != 1 || !strings.Contains(string(cm.ManagedFields[0].FieldsV1.Raw), `"f:a":{}`) {
		t.Errorf("%v %+v", err, cm.ManagedFields)
	}
}

// A webhook cannot keep its own configuration from being repaired.
func TestWebhookIsNotAskedAboutConfigurations(t *testing.T) {
	t.Parallel()
	f, h := startMemory(t), startHooks(t)
	all := `,"rules":[{"operations":["*"],"apiGroups":["*"],"apiVersions":["*"],"resources":["*/*"]}]`
	removeMutating := f.configure("mutatingwebhookconfigurations", "m", h.hook("m", "/deny", all))
	remove := f.configure("validatingwebhookconfigurations", "v", h.hook("v", "/deny", all))
	if _, err := f.create(configMaps, "default", guardedMap("x")); !apierrors.IsForbidden(err) {
		t.Errorf("what the webhook denies: %v", err)
	}
	remove()
	removeMutating()
	if _, err := f.create(configMaps, "default", guardedMap("x")); err != nil {
		t.Error(err)
	}
}

// What a slow webhook is asked about does not hold up other writes, and all get their answers.
func TestWebhooksUnderConcurrency(t *testing.T) {
	t.Parallel()
	f, h := startMemory(t), startHooks(t)
	defer f.configure("mutatingwebhookconfigurations", "a", h.hook("a", "/patch-first", ""))()
	defer f.configure("validatingwebhookconfigurations", "b", h.hook("b", "/allow", ""), h.hook("c", "/warn", ""))()
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			body, err := f.create(configMaps, "default", guardedMap(fmt.Sprintf("x%d", i)))
			if err != nil || !strings.Contains(string(body), `"first":"1"`) {
				t.Errorf("%d: %s %v", i, body, err)
			}
		})
	}
	wg.Wait()
	if got := len(h.requests()); got < 150 {
		t.Errorf("%d reviews of 50 writes", got)
	}
}

// A webhook that is gone closes what it guards, and nothing else.
func TestWebhookGone(t *testing.T) {
	t.Parallel()
	f, h := startMemory(t), startHooks(t)
	defer f.configure("validatingwebhookconfigurations", "b", h.hook("b", "/allow", ""))()
	if _, err := f.create(configMaps, "default", guardedMap("x")); err != nil {
		t.Fatal(err)
	}
	h.gone.Store(true)
	if _, err := f.create(configMaps, "default", guardedMap("y")); !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), `failed calling webhook "b.example.com": failed to call webhook: Post "https://`) {
		t.Errorf("a webhook that is gone: %v", err)
	}
	if _, err := f.create("v1/secrets", "default", `{"metadata":{"name":"s"}}`); err != nil {
		t.Errorf("what the webhook does not guard: %v", err)
	}
}
