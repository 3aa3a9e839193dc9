package scrape

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"howdah.dev/services/metrics/internal/sample"
)

const told = `# TYPE node_cpu_usage_seconds_total counter
node_cpu_usage_seconds_total 1234.5 1700000000123
# TYPE node_memory_working_set_bytes gauge
node_memory_working_set_bytes 1.073741824e+09 1700000000123
# TYPE container_cpu_usage_seconds_total counter
container_cpu_usage_seconds_total{container="c",namespace="a",pod="web"} 2.5 1700000000456
container_cpu_usage_seconds_total{container="untold",namespace="a",pod="web"} 2.5 1700000000456
container_cpu_usage_seconds_total{container="c",namespace="b",pod="db"} 3
# TYPE container_memory_working_set_bytes gauge
container_memory_working_set_bytes{container="c",namespace="a",pod="web"} 4096 1700000000456
container_memory_working_set_bytes{container="c",namespace="b",pod="db"} -1
# TYPE container_start_time_seconds gauge
container_start_time_seconds{container="c",namespace="a",pod="web"} 1.7e+09
# TYPE scrape_error gauge
scrape_error 0
`

func TestParse(t *testing.T) {
	t.Parallel()
	now := time.Unix(1700000001, 0)
	got, err := parse(strings.NewReader(told), now)
	if err != nil {
		t.Fatal(err)
	}
	if got.Node != (sample.Reading{Time: time.UnixMilli(1700000000123), CPU: 1234.5, Memory: 1 << 30}) {
		t.Errorf("node: %+v", got.Node)
	}
	web, db := got.Pods[sample.Pod{Namespace: "a", Name: "web"}], got.Pods[sample.Pod{Namespace: "b", Name: "db"}]
	if len(got.Pods) != 2 || len(web) != 1 || len(db) != 1 {
		t.Fatalf("pods: %+v", got.Pods)
	}
	if web["c"] != (sample.Reading{Time: time.UnixMilli(1700000000456), CPU: 2.5, Memory: 4096, Started: time.Unix(1700000000, 0)}) {
		t.Errorf("web: %+v", web["c"])
	}
	if db["c"] != (sample.Reading{Time: now, CPU: 3}) {
		t.Errorf("db: %+v", db["c"])
	}
	for _, bad := range []string{"", "node_cpu_usage_seconds_total 1\n", "{", "node_cpu_usage_seconds_total x\n", strings.Replace(told, "1234.5", "NaN", 1), strings.Replace(told, "1234.5", "-1", 1)} {
		if _, err := parse(strings.NewReader(bad), now); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(told)
	f.Fuzz(func(t *testing.T, text string) {
		got, err := parse(strings.NewReader(text), time.Unix(0, 0))
		if err == nil && got.Pods == nil {
			t.Error("no error and no answer")
		}
	})
}

func TestScrape(t *testing.T) {
	t.Parallel()
	answer := func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(told)) }
	for _, tt := range []struct {
		name   string
		answer http.HandlerFunc
		err    string
	}{
		{"tells", answer, ""},
		{"refuses", func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "Forbidden (user=x)", http.StatusForbidden)
		}, "403 Forbidden: Forbidden (user=x)"},
		{"leads elsewhere", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/other", http.StatusFound) }, "302 Found"},
		{"babbles", func(w http.ResponseWriter, _ *http.Request) {
			for range maxAnswer>>20 + 1 {
				_, _ = w.Write([]byte(strings.Repeat("#"+strings.Repeat("x", 1022)+"\n", 1024)))
			}
		}, "longer than"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/metrics/resource" {
					answer(w, r)
					return
				}
				tt.answer(w, r)
			}))
			defer server.Close()
			transport, ok := server.Client().Transport.(*http.Transport)
			if !ok {
				t.Fatal("no transport")
			}
			c := NewClient(transport.TLSClientConfig, clocktesting.NewFakePassiveClock(time.Unix(1700000001, 0)))
			defer c.Close()
			got, err := c.Scrape(t.Context(), nodeAt(t, server.Listener.Addr().String()))
			if tt.err == "" && (err != nil || got.Node.CPU != 1234.5) {
				t.Errorf("%+v, %v", got, err)
			}
			if tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
				t.Errorf("%v, not %q", err, tt.err)
			}
		})
	}
	if _, err := NewClient(&tls.Config{}, clocktesting.NewFakePassiveClock(time.Unix(0, 0))).Scrape(t.Context(), &corev1.Node{}); !errors.Is(err, ErrNoEndpoint) {
		t.Errorf("a node without an endpoint: %v", err)
	}
}

func nodeAt(t *testing.T, address string) *corev1.Node {
	t.Helper()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.ParseInt(port, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.Node{Status: corev1.NodeStatus{
		Addresses:       []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "none.invalid"}, {Type: corev1.NodeInternalIP, Address: host}},
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: int32(number)}},
	}}
}
