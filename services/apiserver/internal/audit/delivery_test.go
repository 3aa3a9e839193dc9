package audit

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/utils/clock"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// deaf is a sink that takes nothing.
type deaf struct{}

func (deaf) send(context.Context, []auditv1.Event) error {
	return errors.New("no space left on device")
}
func (deaf) close() {}

func logTo(t *testing.T, d *delivery) *Log {
	t.Helper()
	policy, path := filepath.Join(t.TempDir(), "policy"), filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(policy, []byte(fmt.Sprintf(everything, "Metadata")), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := New(Config{PolicyFile: policy, File: FileConfig{Path: path}, Metrics: NewMetrics(nil), Clock: clock.RealClock{}})
	if err != nil {
		t.Fatal(err)
	}
	l.backends = []backend{d}
	d.failed.metrics = l.metrics
	return l
}

// TestStrict refuses a request that cannot be recorded, and tells no more of it; the mode blocking lets it go on.
func TestStrict(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]string{ModeBlockingStrict: `Internal Server Error: "/api/v1/namespaces/a/pods/x": failed to store audit event`, ModeBlocking: ""} {
		l := logTo(t, newDelivery("log", Delivery{Mode: mode}, deaf{}, 1, NewMetrics(nil), clock.RealClock{}))
		e := l.Begin(requestOf("x"))
		err := e.Rejected()
		e.End(200, nil, "", nil)
		rejected, events := 0.0, 2.0
		if want != "" {
			rejected, events = 1, 1
			if !apierrors.IsInternalError(err) || err.Error() != want {
				t.Errorf("%s: %v", mode, err)
			}
		} else if err != nil {
			t.Errorf("%s: %v", mode, err)
		}
		if n := testutil.ToFloat64(l.metrics.rejected); n != rejected {
			t.Errorf("%s: %v are rejected", mode, n)
		}
		if n := testutil.ToFloat64(l.metrics.errors.WithLabelValues("log")); n != events || testutil.ToFloat64(l.metrics.events) != events {
			t.Errorf("%s: %v are lost", mode, n)
		}
	}
	var none *Entry
	if none.Rejected() != nil {
		t.Error("what is not recorded is rejected")
	}
}

func TestTruncated(t *testing.T) {
	t.Parallel()
	body := func(n int) *runtime.Unknown {
		return &runtime.Unknown{Raw: []byte(`{"a":"` + strings.Repeat("y", n) + `"}`), ContentType: runtime.ContentTypeJSON}
	}
	event := func(uri int, request, response *runtime.Unknown) auditv1.Event {
		return auditv1.Event{RequestURI: strings.Repeat("x", uri), RequestObject: request, ResponseObject: response, Annotations: map[string]string{"k": "v"}}
	}
	small := event(10, body(10), body(10))
	if e, err := truncated(small, 1000); err != nil || e.RequestObject == nil || e.ResponseObject == nil || e.Annotations[truncatedKey] != "" {
		t.Errorf("small: %+v, %v", e, err)
	}
	big := event(10, body(10), body(1000))
	e, err := truncated(big, 1000)
	if err != nil || e.RequestObject != nil || e.ResponseObject != nil || e.Annotations[truncatedKey] != "true" || e.Annotations["k"] != "v" {
		t.Errorf("big: %+v, %v", e, err)
	}
	if big.ResponseObject == nil || len(big.Annotations) != 1 {
		t.Error("the event of others is changed")
	}
	if _, err := truncated(event(2000, nil, nil), 1000); err == nil || err.Error() != "event is too large even after truncating" {
		t.Errorf("too big: %v", err)
	}
	d := newDelivery("log", Delivery{Mode: ModeBlockingStrict, Truncate: true, MaxEventSize: 100}, deaf{}, 1, NewMetrics(nil), clock.RealClock{})
	if err := d.record(event(2000, nil, nil)); err != nil || testutil.ToFloat64(d.tooLarge.metrics.errors.WithLabelValues("truncate")) != 1 {
		t.Errorf("what is too large is not counted: %v", err)
	}
}

// TestAttempts sends a batch five times, whatever is answered.
func TestAttempts(t *testing.T) {
	t.Parallel()
	for _, code := range []int{http.StatusBadRequest, http.StatusTooManyRequests, http.StatusInternalServerError} {
		var calls atomic.Int64
		receiver := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("timeout") != "30s" {
				t.Error(r.URL)
			}
			calls.Add(1)
			w.WriteHeader(code)
		}))
		l := webhookFor(t, receiver.URL, func(c *WebhookConfig) { c.Delivery = Delivery{Mode: ModeBlocking} })
		l.Begin(&Request{Verb: "get", Path: "/x"}).End(http.StatusUnauthorized, nil, "", errors.New("who?"))
		receiver.Close()
		if n := calls.Load(); n != webhookAttempts {
			t.Errorf("%d: %d attempts", code, n)
		}
		if n := testutil.ToFloat64(l.metrics.errors.WithLabelValues("webhook")); n != 1 {
			t.Errorf("%d: %v lost", code, n)
		}
	}
}

func TestLegacy(t *testing.T) {
	t.Parallel()
	at := metav1.NewMicroTime(time.Date(2026, 11, 21, 23, 12, 10, 889020476, time.UTC))
	e := &auditv1.Event{
		AuditID: "id", Stage: auditv1.StageResponseComplete, Verb: "list", RequestURI: "/api/v1/nodes?a=%22b", UserAgent: `a"b\c`, SourceIPs: []string{"127.0.0.1", "10.0.0.1"},
		RequestReceivedTimestamp: at, User: authenticationv1.UserInfo{Username: "admin", Groups: []string{"system:masters", "system:authenticated"}},
		ResponseStatus: &metav1.Status{Code: 200}, ObjectRef: &auditv1.ObjectReference{Resource: "nodes"},
	}
	want := `2026-11-21T23:12:10.889020476Z AUDIT: id="id" stage="ResponseComplete" ip="127.0.0.1" method="list" user="admin" groups="\"system:masters\",\"system:authenticated\"" ` +
		`as="<self>" asgroups="<lookup>" user-agent="a\"b\\c" namespace="<none>" uri="/api/v1/nodes?a=%22b" response="200"` + "\n"
	if got := legacy(e); got != want {
		t.Errorf("%s\n%s", got, want)
	}
	e.ImpersonatedUser = &authenticationv1.UserInfo{Username: "u", Groups: []string{`g"1`, "system:authenticated"}}
	e.ResponseStatus, e.ObjectRef.Namespace = nil, "ns"
	if got := legacy(e); !strings.Contains(got, `as="u" asgroups="\"g\\\"1\",\"system:authenticated\""`) || !strings.Contains(got, `namespace="ns" `) || !strings.HasSuffix(got, "response=\"<deferred>\"\n") {
		t.Error(got)
	}
}

func TestBadDelivery(t *testing.T) {
	t.Parallel()
	good := Delivery{Mode: ModeBatch, BufferSize: 1, MaxSize: 1, Throttle: true, QPS: 1, Burst: 1, Truncate: true, MaxEventSize: 10, MaxTruncatedBatch: 10}
	if err := good.validate("log"); err != nil {
		t.Error(err)
	}
	for want, change := range map[string]func(*Delivery){
		`invalid audit log mode foo, allowed modes are "batch,blocking,blocking-strict"`:        func(d *Delivery) { d.Mode = "foo" },
		"invalid audit batch log max batch size 0, must be a positive number":                   func(d *Delivery) { d.MaxSize = 0 },
		"invalid audit batch log buffer size 0, must be a positive number":                      func(d *Delivery) { d.BufferSize = 0 },
		"invalid audit batch log throttle QPS -1, must be a positive number":                    func(d *Delivery) { d.QPS = -1 },
		"invalid audit batch log throttle burst 0, must be a positive number":                   func(d *Delivery) { d.Burst = 0 },
		"invalid audit truncate log max event size 0, must be a positive number":                func(d *Delivery) { d.MaxEventSize = 0 },
		"invalid audit truncate log max batch size 5, must be greater than max event size (10)": func(d *Delivery) { d.MaxTruncatedBatch = 5 },
	} {
		d := good
		change(&d)
		if err := d.validate("log"); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
	err := FileConfig{Format: "xml", MaxAge: -1, MaxBackups: -2, MaxSize: -3, Delivery: Delivery{Mode: ModeBlocking}}.validate()
	for _, want := range []string{
		`invalid audit log format xml, allowed formats are "legacy,json"`, "--audit-log-maxage -1 can't be a negative number",
		"--audit-log-maxbackup -2 can't be a negative number", "--audit-log-maxsize -3 can't be a negative number",
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %s", err, want)
		}
	}
}
