package endpoint

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	stats "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"howdah.dev/kit/pki"
	"howdah.dev/kit/pki/pkitest"
	"howdah.dev/nodeagent/internal/access"
	"howdah.dev/nodeagent/internal/cgroup"
	"howdah.dev/nodeagent/internal/usage"
)

// reading is a source of one made-up reading.
type reading struct {
	err    error
	waited cgroup.Pressures
	quota  time.Duration
}

func (r *reading) Opened(string) (usage.Opened, bool) {
	return usage.Opened{Descriptors: 5, Sockets: 2, MaxFiles: ptr.To(int64(1024))}, true
}

func (r *reading) Read(context.Context) *usage.Reading {
	at := time.Unix(2000, 0)
	rate := uint64(250_000_000)
	measured := func(cpu time.Duration, memory uint64) usage.Measured {
		return usage.Measured{At: at, Rate: &rate, Usage: cgroup.Usage{
			CPU:    &cgroup.CPU{Total: cpu, User: cpu, Throttled: 2, Shares: 512, Period: 100 * time.Millisecond, Quota: r.quota},
			Memory: &cgroup.Memory{Usage: memory + 5, WorkingSet: memory, Limit: 1000, MajorFaults: 9, Kernel: 13, ActiveFile: 14, InactiveFile: 15, Reservation: 16},
			Swap:   &cgroup.Swap{Usage: 7, Limit: 10}, Tasks: &cgroup.Tasks{Processes: 3, Threads: 5, Limit: 99},
			IO: []cgroup.IO{{Device: "/dev/sda", ReadBytes: 11}}, Pressures: r.waited,
		}}
	}
	out := &usage.Reading{At: at, Err: r.err, Node: usage.Node{
		Measured: measured(100*time.Second, 600), Capacity: 800, Booted: time.Unix(1000, 0), MaxPIDs: 100, Processes: 5,
		AllPods:  measured(50*time.Second, 300),
		Networks: []usage.Interface{{Name: "eth0", RxBytes: 1, TxBytes: 2}}, Disk: &usage.Filesystem{At: at, Device: "8:1", Capacity: 50, Available: 20, Used: 30},
		Images: &usage.Filesystem{At: at, Device: "8:1", Capacity: 50, Used: 10, ContainersUsed: 4},
	}}
	if r.err == nil {
		out.Pods = []usage.Pod{{
			Namespace: "ns", Name: "web", UID: "u", Started: time.Unix(1500, 0), Sandbox: "s", Group: "/kubepods/podu", Measured: measured(20*time.Second, 200),
			Networks: []usage.Interface{{Name: "eth0", RxBytes: 3, TxBytes: 4, RxPackets: 5}},
			Containers: []usage.Container{{Name: "main", ID: "c", Image: "web:1", Group: "/kubepods/podu/c", Started: time.Unix(1501, 0), Measured: measured(10*time.Second, 100),
				Rootfs: &usage.Files{At: at, Bytes: 6}, Logs: &usage.Files{At: at, Bytes: 1}}},
			Volumes: []usage.Volume{{Name: "scratch", At: at, Scratch: true, Used: ptr.To[uint64](10), InodesUsed: ptr.To[uint64](1)},
				{Name: "data", Claim: "kept", At: at, Capacity: ptr.To[uint64](90), Used: ptr.To[uint64](80), InodesUsed: ptr.To[uint64](2)}},
		}}
	}
	return out
}

// streams has a log and one stream, which a backend serves.
type streams struct {
	backend *url.URL
	asked   url.Values
}

func (s *streams) Log(_ context.Context, pod *corev1.Pod, query url.Values) (func(context.Context, io.Writer) error, error) {
	if query.Get("container") != "main" {
		return nil, apierrors.NewBadRequest("container " + query.Get("container") + " is not valid for pod " + pod.Name)
	}
	return func(_ context.Context, to io.Writer) error {
		_, err := io.WriteString(to, "line, last "+query.Get("tailLines")+"\n")
		return err
	}, nil
}

func (s *streams) Join(_ context.Context, kind string, _ *corev1.Pod, query url.Values) (*url.URL, error) {
	s.asked = query
	if kind == "attach" {
		return nil, apierrors.NewBadRequest("nothing to attach to")
	}
	return s.backend, nil
}

func (s *streams) Run(_ context.Context, _ *corev1.Pod, container string, command []string) ([]byte, error) {
	if command[0] == "false" {
		return nil, errors.New("command 'false' exited with 1: ")
	}
	return []byte(container + ": " + strings.Join(command, ",")), nil
}

func (s *streams) Checkpoint(_ context.Context, pod *corev1.Pod, container string, timeout time.Duration) (string, error) {
	if timeout < 0 {
		return "", errors.New("too short")
	}
	return fmt.Sprintf("/%s-%s-%v.tar", pod.Name, container, timeout), nil
}

type fixture struct {
	*Server
	registry *prometheus.Registry
	source   *reading
	streams  *streams
	healthy  error
}

func setup(t *testing.T) *fixture {
	t.Helper()
	logs := t.TempDir()
	if err := os.WriteFile(filepath.Join(logs, "node.log"), []byte("of the node"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/etc/passwd", filepath.Join(logs, "link")); err != nil {
		t.Fatal(err)
	}
	f := &fixture{registry: prometheus.NewRegistry(), source: &reading{}, streams: &streams{}}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "web", UID: "u"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}}}}
	probes := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "prober_probe_total", Help: "x"}, []string{"pod"})
	probes.WithLabelValues("web").Inc()
	f.Server = New(Config{
		NodeName: "n", Version: "v1.36.3", Usage: f.source, Streams: f.streams, Pods: func() []*corev1.Pod { return []*corev1.Pod{pod} },
		Pod:     func(namespace, name string) (*corev1.Pod, bool) { return pod, namespace+"/"+name == "ns/web" },
		Healthy: func() error { return f.healthy }, Settings: map[string]any{"maxPods": 110}, Flags: []string{"max-pods=110"}, LogDir: logs, Clock: clock.RealClock{},
		Gatherer: f.registry, Registerer: f.registry, Probes: []prometheus.Collector{probes}, Cores: 2,
	})
	return f
}

func (f *fixture) get(t *testing.T, method, path string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	f.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, http.NoBody))
	return w.Code, w.Body.String()
}

func TestPaths(t *testing.T) {
	t.Parallel()
	f := setup(t)
	for request, want := range map[string]struct {
		code  int
		texts []string
	}{
		"GET /healthz":             {200, []string{"ok"}},
		"GET /healthz/ping":        {200, []string{"ok"}},
		"GET /healthz/syncloop":    {200, []string{"ok"}},
		"GET /healthz/other":       {404, nil},
		"GET /healthz?verbose":     {200, []string{"[+]ping ok\n[+]log ok\n[+]syncloop ok\nhealthz check passed\n"}},
		"GET /pods":                {200, []string{`"kind":"PodList"`, `"name":"web"`}},
		"GET /pods/":               {200, []string{`"kind":"PodList"`}},
		"POST /pods":               {405, nil},
		"GET /runningpods/":        {200, []string{`"image":"web:1"`, `"uid":"u"`}},
		"GET /metrics":             {200, []string{"kubelet_http_requests_total{"}},
		"GET /metrics/probes":      {200, []string{`prober_probe_total{pod="web"} 1`}},
		"GET /configz":             {200, []string{`{"kubeletconfig":{"maxPods":110}}`}},
		"GET /logs/":               {200, []string{"node.log"}},
		"GET /logs/node.log":       {200, []string{"of the node"}},
		"GET /logs/link":           {500, nil}, // leads out of the folder
		"GET /logs/../etc/passwd":  {307, nil},
		"GET /flagz":               {200, []string{"\nkubelet flagz\n", "\nmax-pods: 110\n"}},
		"GET /statusz":             {200, []string{"\nkubelet statusz\n", "\nBinary version= v1.36.3\nEmulation version= 1.36\n", " /metrics/slis "}},
		"GET /debug/pprof/cmdline": {200, nil},
		"GET /nothing":             {404, nil},

		"GET /containerLogs/ns/web/main?tailLines=2": {200, []string{"line, last 2\n"}},
		"GET /containerLogs/ns/web/main?tail=3":      {200, []string{"line, last 3\n"}},
		"GET /containerLogs/ns/web/side":             {400, []string{"container side is not valid for pod web"}},
		"GET /containerLogs/ns/none/main":            {404, []string{`pod "none" does not exist`}},
		"POST /attach/ns/web/main":                   {400, []string{"nothing to attach to"}},
		"POST /exec/ns/web/other-uid/main":           {404, []string{"pod does not exist"}},
		"POST /run/ns/web/main?cmd=echo+a+b":         {200, []string{"main: echo,a,b"}},
		"POST /run/ns/web/u/main?cmd=echo":           {200, []string{"main: echo"}},
		"POST /run/ns/web/other/main?cmd=echo":       {404, []string{"pod does not exist"}},
		"POST /run/ns/web/main?cmd=false":            {500, []string{"command 'false' exited with 1: "}},
		"GET /run/ns/web/main?cmd=echo":              {404, nil},
		"POST /checkpoint/ns/web/main":               {200, []string{`{"items":["/web-main-0s.tar"]}`}},
		"POST /checkpoint/ns/web/main?timeout=3":     {200, []string{`{"items":["/web-main-3s.tar"]}`}},
		"POST /checkpoint/ns/web/main?timeout=-3":    {500, []string{"checkpointing of ns/web/main failed (too short)"}},
		"POST /checkpoint/ns/web/main?timeout=x":     {404, []string{"cannot parse value of timeout parameter"}},
		"POST /checkpoint/ns/web/other":              {404, []string{"container other does not exist"}},
		"POST /checkpoint/ns/none/main":              {404, []string{"pod does not exist"}},
	} {
		method, path, _ := strings.Cut(request, " ")
		code, body := f.get(t, method, path)
		if code != want.code {
			t.Errorf("%s: %d %s", request, code, body)
		}
		for _, text := range want.texts {
			if !strings.Contains(body, text) {
				t.Errorf("%s: %q is not in %s", request, text, body)
			}
		}
	}
	f.healthy = errors.New("not yet")
	if code, body := f.get(t, "GET", "/healthz"); code != 500 || body != "[+]ping ok\n[+]log ok\n[-]syncloop failed: not yet\nhealthz check failed\n" {
		t.Errorf("%d %s", code, body)
	}
	if _, body := f.get(t, "GET", "/metrics/slis"); !strings.Contains(body, `kubernetes_healthcheck{name="syncloop",type="healthz"} 0`) ||
		!strings.Contains(body, `kubernetes_healthchecks_total{name="syncloop",status="error",type="healthz"} 1`) {
		t.Errorf("checks are told as %s", body)
	}
	if _, body := f.get(t, "DELETE", "/metrics/slis"); body != "metrics reset\n" {
		t.Errorf("answered %q", body)
	}
	if _, body := f.get(t, "GET", "/metrics/slis"); strings.Contains(body, "syncloop") {
		t.Errorf("left %s", body)
	}
	if code, _ := f.get(t, "GET", "/healthz/ping"); code != 200 {
		t.Errorf("ping: %d", code)
	}
	if n := testutil.ToFloat64(f.metrics.requests.WithLabelValues("GET", "containerLogs", "trusted", "true")); n != 4 {
		t.Errorf("%v requests of logs counted", n)
	}
}

// TestHealthForEverybody asks after the agent's health where nobody has to say who he is, once the port is free.
func TestHealthForEverybody(t *testing.T) {
	t.Parallel()
	f := setup(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	clock := clocktesting.NewFakeClock(time.Now())
	cfg := f.cfg
	cfg.Registerer, cfg.Health, cfg.Clock = prometheus.NewRegistry(), taken.Addr().String(), clock
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- New(cfg).Run(ctx) }()
	for !clock.HasWaiters() {
		time.Sleep(time.Millisecond)
	}
	if err := taken.Close(); err != nil {
		t.Fatal(err)
	}
	clock.Step(healthAgain)
	get := func(path string) (int, string) {
		t.Helper()
		for {
			response, err := http.Get("http://" + cfg.Health + path) //nolint:noctx // a test's
			if err != nil {
				time.Sleep(time.Millisecond)
				continue
			}
			defer response.Body.Close()
			body, err := io.ReadAll(response.Body)
			if err != nil {
				t.Fatal(err)
			}
			return response.StatusCode, string(body)
		}
	}
	for path, want := range map[string]int{"/healthz": 200, "/healthz/syncloop": 200, "/pods": 404, "/metrics": 404, "/configz": 404} {
		if code, body := get(path); code != want {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
	stop()
	if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestLogQuery asks for what services have logged, where that is switched on.
func TestLogQuery(t *testing.T) {
	t.Parallel()
	f := setup(t)
	if code, body := f.get(t, "GET", "/logs/?query=containerd"); code != 200 || !strings.Contains(body, "node.log") { // the folder, whatever is asked
		t.Errorf("switched off: %d %s", code, body)
	}
	cfg := f.cfg
	cfg.Registerer = prometheus.NewRegistry()
	cfg.Journal = func(_ context.Context, to io.Writer, arguments ...string) error {
		if arguments[0] == "--field=_SYSTEMD_UNIT" {
			_, err := io.WriteString(to, "containerd.service\n")
			return err
		}
		_, err := fmt.Fprintln(to, arguments[3:])
		return err
	}
	f.Server = New(cfg)
	for path, want := range map[string]struct {
		code int
		body string
	}{
		"/logs/?query=containerd&tailLines=5": {200, "[--lines=5 --unit=containerd]\n"},
		"/logs/?query=node":                   {200, "of the node"},
		"/logs/?query=/node.log":              {200, "of the node"},
		"/logs/node.log":                      {200, "of the node"},
		"/logs/?query=link":                   {200, "\nerror getting log for link: statat link: path escapes from parent\n"},
		"/logs/?query=/link":                  {406, "query: Invalid value: [\"/link\"]: statat link: path escapes from parent\n"},
		"/logs/?query=/../x":                  {406, "query: Invalid value: [\"/../x\"]: statat ../x: path escapes from parent\n"},
		"/logs/?query=a&boot=1":               {406, "boot: Invalid value: 1: must be less than 1\n"},
		"/logs/?boot=x":                       {400, "boot: Invalid value: \"x\": strconv.Atoi: parsing \"x\": invalid syntax\n"},
		"/logs/node.log?query=a":              {406, "path not allowed in query mode\n"},
	} {
		if code, body := f.get(t, "GET", path); code != want.code || body != want.body {
			t.Errorf("%s: %d %q, want %d %q", path, code, body, want.code, want.body)
		}
	}
}

func TestResourceMetrics(t *testing.T) {
	t.Parallel()
	f := setup(t)
	_, body := f.get(t, "GET", "/metrics/resource")
	for _, line := range []string{
		"# TYPE node_cpu_usage_seconds_total counter", "node_cpu_usage_seconds_total 100 2000000", "node_memory_working_set_bytes 600 2000000", "node_swap_usage_bytes 7 2000000",
		`pod_cpu_usage_seconds_total{namespace="ns",pod="web"} 20 2000000`, `pod_memory_working_set_bytes{namespace="ns",pod="web"} 200 2000000`,
		`pod_swap_usage_bytes{namespace="ns",pod="web"} 7 2000000`,
		`container_cpu_usage_seconds_total{container="main",namespace="ns",pod="web"} 10 2000000`, `container_memory_working_set_bytes{container="main",namespace="ns",pod="web"} 100 2000000`,
		`container_start_time_seconds{container="main",namespace="ns",pod="web"} 1501`, `container_swap_usage_bytes{container="main",namespace="ns",pod="web"} 7 2000000`,
		`container_swap_limit_bytes{container="main",namespace="ns",pod="web"} 10 2000000`, "resource_scrape_error 0", "scrape_error 0",
	} {
		if !strings.Contains(body, line+"\n") {
			t.Errorf("%s is not in\n%s", line, body)
		}
	}
	f.source.err = errors.New("away")
	code, body := f.get(t, "GET", "/metrics/resource")
	if code != 200 || !strings.Contains(body, "resource_scrape_error 1\n") || strings.Contains(body, "container_cpu") {
		t.Errorf("without the runtime: %d\n%s", code, body)
	}
}

func TestCadvisorMetrics(t *testing.T) {
	t.Parallel()
	f := setup(t)
	code, body := f.get(t, "GET", "/metrics/cadvisor")
	const main = `container="main",%sid="/kubepods/podu/c",image="web:1",name="c",namespace="ns",pod="web"`
	c := func(more string) string { return fmt.Sprintf(main, more) }
	for _, line := range []string{
		"machine_cpu_cores 2", "machine_memory_bytes 800", `cadvisor_version_info{cadvisorVersion="howdah v1.36.3"} 1`,
		"container_cpu_usage_seconds_total{" + c(`cpu="total",`) + "} 10 2000000",
		`container_cpu_usage_seconds_total{container="",cpu="total",id="/",image="",name="",namespace="",pod=""} 100 2000000`,
		`container_cpu_usage_seconds_total{container="",cpu="total",id="/kubepods/podu",image="",name="",namespace="ns",pod="web"} 20 2000000`,
		"container_cpu_cfs_throttled_periods_total{" + c("") + "} 2 2000000", "container_memory_working_set_bytes{" + c("") + "} 100 2000000",
		`container_memory_failures_total{container="main",failure_type="pgmajfault",id="/kubepods/podu/c",image="web:1",name="c",namespace="ns",pod="web",scope="hierarchy"} 9 2000000`,
		`container_network_receive_bytes_total{container="",id="/kubepods/podu/s",image="",interface="eth0",name="s",namespace="ns",pod="web"} 3 2000000`,
		`container_network_receive_packets_total{container="",id="/kubepods/podu/s",image="",interface="eth0",name="s",namespace="ns",pod="web"} 5 2000000`,
		`container_fs_usage_bytes{container="main",device="8:1",id="/kubepods/podu/c",image="web:1",name="c",namespace="ns",pod="web"} 6 2000000`,
		`container_fs_reads_bytes_total{container="main",device="/dev/sda",id="/kubepods/podu/c",image="web:1",name="c",namespace="ns",pod="web"} 11 2000000`,
		"container_processes{" + c("") + "} 3 2000000", "container_threads{" + c("") + "} 5 2000000", "container_threads_max{" + c("") + "} 99 2000000",
		"container_spec_cpu_shares{" + c("") + "} 512 2000000", "container_spec_cpu_period{" + c("") + "} 100000 2000000",
		"container_spec_memory_limit_bytes{" + c("") + "} 1000 2000000", "container_spec_memory_reservation_limit_bytes{" + c("") + "} 16 2000000",
		"container_spec_memory_swap_limit_bytes{" + c("") + "} 10 2000000", "container_memory_swap{" + c("") + "} 7 2000000", "container_memory_kernel_usage{" + c("") + "} 13 2000000",
		"container_memory_total_active_file_bytes{" + c("") + "} 14 2000000", "container_memory_total_inactive_file_bytes{" + c("") + "} 15 2000000",
		"container_file_descriptors{" + c("") + "} 5 2000000", "container_sockets{" + c("") + "} 2 2000000",
		`container_ulimits_soft{container="main",id="/kubepods/podu/c",image="web:1",name="c",namespace="ns",pod="web",ulimit="max_open_files"} 1024 2000000`,
		"container_start_time_seconds{" + c("") + "} 1501", "container_scrape_error 0",
	} {
		if !strings.Contains(body, line+"\n") {
			t.Errorf("%s is not in\n%s", line, body)
		}
	}
	if code != 200 {
		t.Errorf("%d", code)
	}
	if strings.Contains(body, "container_spec_cpu_quota") {
		t.Error("a quota is told where there is none")
	}
	f.source.quota = 50 * time.Millisecond
	if _, body = f.get(t, "GET", "/metrics/cadvisor"); !strings.Contains(body, "container_spec_cpu_quota{"+c("")+"} 50000 2000000\n") {
		t.Errorf("no quota in\n%s", body)
	}
}

// TestPressure has the groups tell of what they have waited for, of part of it, and of nothing.
func TestPressure(t *testing.T) {
	t.Parallel()
	f := setup(t)
	_, body := f.get(t, "GET", "/metrics/cadvisor")
	_, brief := f.get(t, "GET", "/stats/summary")
	if strings.Contains(body, "container_pressure") || strings.Contains(brief, "psi") || strings.Contains(brief, `"io"`) {
		t.Errorf("the kernel tells of no pressure:\n%s\n%s", body, brief)
	}
	f.source.waited = cgroup.Pressures{
		CPU: &cgroup.Pressure{Some: cgroup.Stall{Total: 3 * time.Second, Avg10: 1.5, Avg60: 0.5, Avg300: 0.25}, Full: cgroup.Stall{Total: 250 * time.Millisecond}},
		IO:  &cgroup.Pressure{Some: cgroup.Stall{Total: 2 * time.Second}, Full: cgroup.Stall{Total: time.Second}},
	}
	_, body = f.get(t, "GET", "/metrics/cadvisor")
	for _, line := range []string{
		`container_pressure_cpu_waiting_seconds_total{container="",id="/",image="",name="",namespace="",pod=""} 3 2000000`,
		`container_pressure_cpu_stalled_seconds_total{container="main",id="/kubepods/podu/c",image="web:1",name="c",namespace="ns",pod="web"} 0.25 2000000`,
		`container_pressure_io_waiting_seconds_total{container="",id="/kubepods/podu",image="",name="",namespace="ns",pod="web"} 2 2000000`,
		`container_pressure_io_stalled_seconds_total{container="",id="/kubepods",image="",name="",namespace="",pod=""} 1 2000000`,
	} {
		if !strings.Contains(body, line+"\n") {
			t.Errorf("%s is not in\n%s", line, body)
		}
	}
	if strings.Contains(body, "container_pressure_memory") {
		t.Error("of memory nothing is known")
	}
	for _, path := range []string{"/stats/summary", "/stats/summary?only_cpu_and_memory=true"} {
		_, text := f.get(t, "GET", path)
		var s stats.Summary
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			t.Fatal(err)
		}
		want := stats.PSIStats{Some: stats.PSIData{Total: 3e9, Avg10: 1.5, Avg60: 0.5, Avg300: 0.25}, Full: stats.PSIData{Total: 25e7}}
		p, c := s.Pods[0], s.Pods[0].Containers[0]
		for what, cpu := range map[string]*stats.CPUStats{"node": s.Node.CPU, "pods": s.Node.SystemContainers[0].CPU, "pod": p.CPU, "container": c.CPU} {
			if cpu.PSI == nil || *cpu.PSI != want {
				t.Errorf("%s: %s: %+v", path, what, cpu.PSI)
			}
		}
		if s.Node.Memory.PSI != nil || c.Memory.PSI != nil {
			t.Errorf("%s: memory %+v %+v", path, s.Node.Memory.PSI, c.Memory.PSI)
		}
		for what, io := range map[string]*stats.IOStats{"node": s.Node.IO, "pods": s.Node.SystemContainers[0].IO, "pod": p.IO, "container": c.IO} {
			switch {
			case strings.Contains(path, "only"):
				if io != nil {
					t.Errorf("%s: %s: %+v", path, what, io)
				}
			case io == nil || io.PSI.Some.Total != 2e9 || io.PSI.Full.Total != 1e9:
				t.Errorf("%s: %s: %+v", path, what, io)
			}
		}
	}
}

func TestSummary(t *testing.T) {
	t.Parallel()
	f := setup(t)
	read := func(path string) (s stats.Summary) {
		code, body := f.get(t, "GET", path)
		if err := json.Unmarshal([]byte(body), &s); err != nil || code != 200 {
			t.Fatalf("%d %s: %v", code, body, err)
		}
		return s
	}
	s := read("/stats/summary")
	n, p := s.Node, s.Pods[0]
	if n.NodeName != "n" || *n.CPU.UsageNanoCores != 250_000_000 || *n.CPU.UsageCoreNanoSeconds != 100e9 || *n.Memory.AvailableBytes != 200 || *n.Network.RxBytes != 1 ||
		*n.Fs.CapacityBytes != 50 || *n.Runtime.ImageFs.UsedBytes != 10 || *n.Runtime.ContainerFs.UsedBytes != 4 || *n.Rlimit.MaxPID != 100 || *n.Swap.SwapAvailableBytes != 3 {
		t.Errorf("node %+v", n)
	}
	if p.PodRef != (stats.PodReference{Name: "web", Namespace: "ns", UID: "u"}) || *p.CPU.UsageCoreNanoSeconds != 20e9 || *p.Network.TxBytes != 4 ||
		*p.EphemeralStorage.UsedBytes != 17 || *p.EphemeralStorage.InodesUsed != 1 || len(p.VolumeStats) != 2 || p.VolumeStats[0].PVCRef != nil ||
		*p.VolumeStats[1].PVCRef != (stats.PVCReference{Name: "kept", Namespace: "ns"}) || *p.VolumeStats[1].CapacityBytes != 90 || *p.VolumeStats[1].UsedBytes != 80 || p.VolumeStats[1].Inodes != nil ||
		*p.ProcessStats.ProcessCount != 3 {
		t.Errorf("pod %+v", p)
	}
	if c := p.Containers[0]; c.Name != "main" || *c.Memory.WorkingSetBytes != 100 || *c.Memory.AvailableBytes != 900 || *c.Rootfs.UsedBytes != 6 || *c.Logs.UsedBytes != 1 {
		t.Errorf("container %+v", c)
	}
	if s = read("/stats/summary?only_cpu_and_memory=true"); s.Node.Fs != nil || s.Pods[0].Network != nil || s.Pods[0].VolumeStats != nil || s.Pods[0].Containers[0].Rootfs != nil || s.Node.CPU == nil {
		t.Errorf("only time and memory: %+v", s)
	}
	f.source.err = errors.New("away")
	if code, body := f.get(t, "GET", "/stats/summary"); code != 500 || !strings.Contains(body, "Internal Error: away") {
		t.Errorf("%d %s", code, body)
	}
}

// nobody lets the token "good" of "meter" read metrics.
type reviewer struct{}

func (reviewer) ReviewToken(_ context.Context, token string) (authenticationv1.TokenReviewStatus, error) {
	return authenticationv1.TokenReviewStatus{Authenticated: token == "good", User: authenticationv1.UserInfo{Username: "meter"}}, nil
}

func (reviewer) ReviewAccess(_ context.Context, spec authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error) {
	return authorizationv1.SubjectAccessReviewStatus{Allowed: spec.User == "meter" && spec.ResourceAttributes.Subresource == "metrics"}, nil
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestRun(t *testing.T) {
	t.Parallel()
	authority := pkitest.Authority(t)
	issue := func(s pki.Subject) tls.Certificate { return pkitest.Certificate(t, authority, s) }
	f := setup(t)
	f.cfg.Addresses, f.cfg.ReadOnly = []string{freeAddress(t), freeAddress(t)}, []string{freeAddress(t)}
	f.cfg.TLS = &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{issue(pki.Subject{CommonName: "n", Hosts: []string{"127.0.0.1"}})}, ClientAuth: tls.RequireAndVerifyClientCert}
	f.cfg.Guard = access.New(access.Config{NodeName: "n", Authorities: authority.Pool, Trusted: "trusted", Reviewer: reviewer{}, Clock: clock.RealClock{}})
	// The runtime's end of an upgraded stream.
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n%q %s", r.Header.Get("Authorization"), r.URL.Path)
	}))
	defer backend.Close()
	var err error
	f.streams.backend, err = url.Parse(backend.URL + "/exec/token")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := f.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	defer func() { cancel(); wg.Wait() }()
	ask := func(base, path, token string, certificates []tls.Certificate, roots *x509.CertPool) (code int, body string) {
		transport := &http.Transport{TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, Certificates: certificates}}
		defer transport.CloseIdleConnections()
		request, err := http.NewRequestWithContext(ctx, "GET", base+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		if strings.HasPrefix(path, "/exec") {
			request.Header.Set("Connection", "Upgrade")
			request.Header.Set("Upgrade", "x")
		}
		deadline := time.Now().Add(time.Minute)
		for {
			response, err := transport.RoundTrip(request)
			if err != nil {
				if time.Now().After(deadline) {
					t.Fatal(err)
				}
				continue // it is about to listen
			}
			defer response.Body.Close()
			data, err := io.ReadAll(response.Body)
			if err != nil {
				t.Fatal(err)
			}
			return response.StatusCode, string(data)
		}
	}
	secure, plain := "https://"+f.cfg.Addresses[1], "http://"+f.cfg.ReadOnly[0]
	trusted := []tls.Certificate{issue(pki.Subject{CommonName: "api", Organizations: []string{"trusted"}, Client: true})}
	if code, body := ask(secure, "/metrics/resource", "good", nil, authority.Pool()); code != 200 || !strings.Contains(body, "node_cpu") {
		t.Errorf("a token: %d %s", code, body)
	}
	if code, body := ask(secure, "/stats/summary", "good", nil, authority.Pool()); code != 403 {
		t.Errorf("more than the token may: %d %s", code, body)
	}
	if code, _ := ask(secure, "/metrics", "", nil, authority.Pool()); code != 401 {
		t.Errorf("nobody: %d", code)
	}
	if code, body := ask(secure, "/exec/ns/web/main?command=ls&output=1", "", trusted, authority.Pool()); code != 101 || body != `"" /exec/token` || f.streams.asked.Get("stdout") != "1" {
		t.Errorf("a stream: %d %s, %v", code, body, f.streams.asked)
	}
	if code, _ := ask(plain, "/metrics/cadvisor", "", nil, nil); code != 200 {
		t.Errorf("the read-only port: %d", code)
	}
	for _, path := range []string{"/configz", "/runningpods/", "/logs/", "/exec/ns/web/main?command=ls", "/containerLogs/ns/web/main"} {
		if code, _ := ask(plain, path, "", nil, nil); code != 404 {
			t.Errorf("the read-only port tells %s: %d", path, code)
		}
	}
}
