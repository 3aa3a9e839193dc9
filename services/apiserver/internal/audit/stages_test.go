package audit

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"howdah.dev/kit/apistatus"
)

// recorded returns the events of one request.
func recorded(t *testing.T, clk clock.WithTicker, r *Request, do func(e *Entry)) (events []auditv1.Event) {
	t.Helper()
	dir := t.TempDir()
	policy, path := filepath.Join(dir, "policy"), filepath.Join(dir, "log")
	if err := os.WriteFile(policy, fmt.Appendf(nil, everything, "RequestResponse"), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := New(Config{PolicyFile: policy, File: FileConfig{Path: path}, Metrics: NewMetrics(nil), Clock: clk})
	if err != nil {
		t.Fatal(err)
	}
	do(l.Begin(r))
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		var e auditv1.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		events = append(events, e)
	}
	return events
}

// TestStages has an event for the beginning of every stream, refused ones too, and of nothing else.
func TestStages(t *testing.T) {
	t.Parallel()
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "p", errors.New("no"))
	for name, test := range map[string]struct {
		verb, subresource, path string
		do                      func(e *Entry)
		want                    []auditv1.Stage
	}{
		"get":           {"get", "", "", func(e *Entry) { e.End(200, nil, "", nil) }, []auditv1.Stage{"RequestReceived", "ResponseComplete"}},
		"watch":         {"watch", "", "", func(e *Entry) { e.Started(200); e.End(200, nil, "", nil) }, []auditv1.Stage{"RequestReceived", "ResponseStarted", "ResponseComplete"}},
		"passed on":     {"list", "", "", func(e *Entry) { e.Started(501); e.End(501, nil, "", nil) }, []auditv1.Stage{"RequestReceived", "ResponseComplete"}},
		"refused watch": {"watch", "", "", func(e *Entry) { e.End(0, nil, "", forbidden) }, []auditv1.Stage{"RequestReceived", "ResponseStarted", "ResponseComplete"}},
		"refused exec":  {"create", "exec", "", func(e *Entry) { e.End(0, nil, "", forbidden) }, []auditv1.Stage{"RequestReceived", "ResponseStarted", "ResponseComplete"}},
		"refused get":   {"get", "status", "", func(e *Entry) { e.End(0, nil, "", forbidden) }, []auditv1.Stage{"RequestReceived", "ResponseComplete"}},
		"profile":       {"get", "", "/debug/pprof/heap", func(e *Entry) { e.End(200, nil, "", nil) }, []auditv1.Stage{"RequestReceived", "ResponseStarted", "ResponseComplete"}},
		"panic":         {"watch", "", "", func(e *Entry) { e.Panicked(); e.End(0, nil, "", errors.New("boom")) }, []auditv1.Stage{"RequestReceived", "Panic"}},
	} {
		r := requestOf("x")
		r.Verb, r.Subresource, r.Path = test.verb, test.subresource, test.path
		var got []auditv1.Stage
		for _, e := range recorded(t, clock.RealClock{}, r, test.do) {
			got = append(got, e.Stage)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestBodies has what was understood of a request, and of answers only those that are objects.
func TestBodies(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "x"}}
	received := func(e *Entry) { e.Received(corev1.SchemeGroupVersion.WithKind("Pod"), func() any { return pod }) }
	notFound := &apierrors.StatusError{ErrStatus: metav1.Status{Status: "Failure", Code: 404, Reason: "NotFound", Message: apistatus.PageNotFound}}
	success := []byte(`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Success","code":201}`)
	for name, test := range map[string]struct {
		path              string
		do                func(e *Entry)
		request, response string
		status            metav1.Status
	}{
		"received": {"", func(e *Entry) { received(e); e.End(200, nil, "", nil) }, `"kind":"Pod"`, "", metav1.Status{Code: 200}},
		"never":    {"", func(e *Entry) { e.End(0, nil, "", errors.New("boom")) }, "", "boom", metav1.Status{Code: 500, Status: "Failure", Reason: "InternalError"}},
		"patch": {"", func(e *Entry) {
			e.Sent([]byte(`[{"op":"remove"}]`), "application/json-patch+json")
			e.End(200, nil, "", nil)
		}, `"op"`, "", metav1.Status{Code: 200}},
		"told":      {"", func(e *Entry) { e.End(201, success, "application/json", nil) }, "", "Success", metav1.Status{Code: 201, Status: "Success"}},
		"no page":   {"/x", func(e *Entry) { e.End(0, nil, "", notFound) }, "", "", metav1.Status{Code: 404}},
		"discovery": {"/api", func(e *Entry) { e.End(200, []byte(`{"kind":"APIVersions"}`), "application/json", nil) }, "", "APIVersions", metav1.Status{Code: 200}},
		"document":  {"/version", func(e *Entry) { e.End(200, []byte(`{"major":"1"}`), "application/json", nil) }, "", "", metav1.Status{Code: 200}},
	} {
		r := requestOf("x")
		r.Path = test.path
		events := recorded(t, clock.RealClock{}, r, test.do)
		last := events[len(events)-1]
		if s := last.ResponseStatus; s.Code != test.status.Code || s.Status != test.status.Status || s.Reason != test.status.Reason {
			t.Errorf("%s: %+v", name, s)
		}
		if got := last.RequestObject; (got != nil) != (test.request != "") || got != nil && !strings.Contains(string(got.Raw), test.request) {
			t.Errorf("%s: request %v", name, got)
		}
		if got := last.ResponseObject; (got != nil) != (test.response != "") || got != nil && !strings.Contains(string(got.Raw), test.response) {
			t.Errorf("%s: response %v", name, got)
		}
	}
}

// TestLatency tells where the time of a slow request went, and nothing of a stream or of a quick one.
func TestLatency(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		verb string
		took time.Duration
		want map[string]string
	}{
		"slow":   {"create", time.Second, map[string]string{"apiserver.latency.k8s.io/total": "1.1s", "apiserver.latency.k8s.io/validating-webhook": "1s"}},
		"quick":  {"create", 300 * time.Millisecond, nil},
		"stream": {"watch", time.Second, nil},
	} {
		now := clocktesting.NewFakeClock(time.Unix(1_800_000_000, 0))
		r := requestOf("x")
		r.Verb = test.verb
		events := recorded(t, now, r, func(e *Entry) {
			end := e.Timing(ValidatingWebhook)
			now.Step(test.took)
			end()
			now.Step(100 * time.Millisecond)
			e.End(200, nil, "", nil)
		})
		last := events[len(events)-1]
		if !maps.Equal(last.Annotations, test.want) {
			t.Errorf("%s: %v", name, last.Annotations)
		}
	}
}
