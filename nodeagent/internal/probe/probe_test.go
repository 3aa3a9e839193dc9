package probe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/ok":
			fmt.Fprint(w, r.UserAgent(), r.Header.Get("X"), r.Host)
		case "/moved":
			http.Redirect(w, r, "/ok", http.StatusFound)
		case "/away":
			http.Redirect(w, r, "http://example.invalid/", http.StatusFound)
		default:
			w.WriteHeader(http.StatusTeapot)
		}
	}))
	t.Cleanup(web.Close)
	_, portText, err := net.SplitHostPort(web.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(portText)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server, states := grpc.NewServer(), health.NewServer()
	healthv1.RegisterHealthServer(server, states)
	states.SetServingStatus("sick", healthv1.HealthCheckResponse_NOT_SERVING)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	grpcPort := int32(listener.Addr().(*net.TCPAddr).Port)

	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closedPort := closed.Addr().(*net.TCPAddr).Port
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	get := func(path string, headers ...corev1.HTTPHeader) corev1.ProbeHandler {
		return corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: path, Port: intstr.FromString("web"), HTTPHeaders: headers}}
	}
	command := func(words ...string) corev1.ProbeHandler {
		return corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: words}}
	}
	sick := "sick"
	checker := NewChecker(func(ctx context.Context, _ string, command []string, _ time.Duration) ([]byte, int32, error) {
		switch command[0] {
		case "fail":
			return []byte("why"), 2, nil
		case "gone":
			return nil, 0, errors.New("no such container")
		case "slow":
			return nil, 0, context.DeadlineExceeded
		case "patience": // with a runtime that hangs
			if end, bounded := ctx.Deadline(); !bounded || time.Until(end) < time.Minute {
				return []byte(time.Until(end).String()), 1, nil
			}
		}
		return nil, 0, nil
	})
	target := Target{Pod: &corev1.Pod{}, PodIP: "127.0.0.1", Container: &corev1.Container{Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: int32(port)}}}}
	for name, test := range map[string]struct {
		handler corev1.ProbeHandler
		ok      bool
		output  string
		err     string
	}{
		"http":              {get("/ok", corev1.HTTPHeader{Name: "X", Value: "v"}, corev1.HTTPHeader{Name: "Host", Value: "h"}), true, "kube-probe/1.36vh", ""},
		"http, moved":       {get("/moved"), true, "kube-probe/1.36", ""},
		"http, moved away":  {get("/away"), true, "Probe terminated redirects, Response body: <a href=\"http://example.invalid/\">Found</a>.", ""},
		"http, refused":     {get("/none"), false, "HTTP probe failed with statuscode: 418", ""},
		"http, no port":     {corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromString("other")}}, false, "", "invalid port number: other"},
		"tcp":               {corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt(port)}}, true, "", ""},
		"tcp, closed":       {corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt(closedPort)}}, false, "connection refused", ""},
		"grpc":              {corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: grpcPort}}, true, "", ""},
		"grpc, not serving": {corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: grpcPort, Service: &sick}}, false, `service unhealthy (responded with "NOT_SERVING")`, ""},
		"grpc, closed":      {corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: int32(closedPort)}}, false, `within 2s: context deadline exceeded`, ""},
		"exec":              {command("true"), true, "", ""},
		"exec, failed":      {command("fail"), false, "why", ""},
		"exec, gone":        {command("gone"), false, "", "no such container"},
		"exec, slow":        {command("slow"), false, "command timed out", ""},
		"exec, patience":    {command("patience"), true, "", ""},
		"nothing":           {corev1.ProbeHandler{}, false, "", "missing probe handler"},
	} {
		found, output, err := checker.Check(t.Context(), &corev1.Probe{ProbeHandler: test.handler, TimeoutSeconds: 2}, target)
		if ok := found != Failed; ok != test.ok || (found == Warned) != (name == "http, moved away") || !strings.Contains(output, test.output) || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("%s: %v, %q, %v; want %v, %q, %q", name, found, output, err, test.ok, test.output, test.err)
		}
	}
}

func TestCounterSettlesAtThresholds(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		counter counter
		answers string // + success, - failure
		want    string // what each answer settles, . is nothing
	}{
		"liveness":             {counter{success: 1, failure: 3, settled: true, known: true}, "+--+---", "......-"},
		"readiness":            {counter{success: 2, failure: 2, known: true}, "+-++--+", "...+.-."},
		"startup succeeds":     {counter{success: 1, failure: 3}, "--+", "..+"},
		"startup fails":        {counter{success: 1, failure: 2}, "--", ".-"},
		"goes on being unwell": {counter{success: 1, failure: 1, settled: true, known: true}, "---", "-.."},
	} {
		var got strings.Builder
		for _, answer := range test.answers {
			switch {
			case !test.counter.add(answer == '+'):
				got.WriteByte('.')
			case test.counter.settled:
				got.WriteByte('+')
			default:
				got.WriteByte('-')
			}
		}
		if got.String() != test.want {
			t.Errorf("%s: %s settles %s, want %s", name, test.answers, got.String(), test.want)
		}
	}
}

type told struct {
	mu     sync.Mutex
	events []string
}

func (e *told) Event(_ *corev1.Pod, container, _, reason, message string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.events = append(e.events, container+" "+reason+" "+message)
}

func TestRunKeepsItsTimes(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	clk := clocktesting.NewFakeClock(start)
	asked := make(chan time.Duration)
	answers := make(chan int32)
	events := &told{}
	runner := &Runner{Clock: clk, Events: events, Checker: NewChecker(func(context.Context, string, []string, time.Duration) ([]byte, int32, error) {
		asked <- clk.Since(start)
		return []byte("bad"), <-answers, nil
	})}
	settled := make(chan bool, 10)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		runner.Run(ctx, Liveness, &corev1.Probe{
			ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"x"}}}, InitialDelaySeconds: 5, PeriodSeconds: 10, FailureThreshold: 2,
		}, Target{Pod: &corev1.Pod{}, Container: &corev1.Container{Name: "c"}, Started: start}, true, true, func(ok bool) { settled <- ok })
	}()
	step := func(d time.Duration) {
		for !clk.HasWaiters() {
			time.Sleep(time.Millisecond)
		}
		clk.Step(d)
	}
	for i, want := range []time.Duration{5 * time.Second, 15 * time.Second, 25 * time.Second} {
		if i == 0 {
			step(5 * time.Second)
		} else {
			step(10 * time.Second)
		}
		if at := <-asked; at != want {
			t.Errorf("probe %d at %v, want %v", i, at, want)
		}
		answers <- int32(min(i, 1)) // succeeds, fails, fails
	}
	if ok := <-settled; ok {
		t.Error("settled as well")
	}
	cancel()
	<-done
	if want := "c Unhealthy Liveness probe failed: bad"; !slices.Equal(events.events, []string{want, want}) {
		t.Errorf("events: %v", events.events)
	}
}

func TestWarningsAreEventsOfProbesThatSucceed(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(http.RedirectHandler("http://example.invalid/", http.StatusFound))
	t.Cleanup(web.Close)
	_, port, err := net.SplitHostPort(web.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	events := &told{}
	clk := clocktesting.NewFakeClock(time.Unix(0, 0))
	var counted []string
	runner := &Runner{Clock: clk, Events: events, Checker: NewChecker(nil), Count: func(_ Target, kind Kind, outcome string, took time.Duration) {
		counted = append(counted, fmt.Sprint(kind, " ", outcome, " ", took))
	}}
	ok, valid := runner.once(t.Context(), Liveness, &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.Parse(port)}}, TimeoutSeconds: 5,
	}, Target{Pod: &corev1.Pod{}, Container: &corev1.Container{Name: "c"}, PodIP: "127.0.0.1"})
	if !ok || !valid {
		t.Errorf("it did not succeed: %v, %v", ok, valid)
	}
	if !slices.Equal(counted, []string{"Liveness successful 0s"}) {
		t.Errorf("counted: %q", counted)
	}
	if len(events.events) != 1 || !strings.HasPrefix(events.events[0], "c ProbeWarning Liveness probe warning: Probe terminated redirects, Response body: ") {
		t.Errorf("events: %q", events.events)
	}
}
