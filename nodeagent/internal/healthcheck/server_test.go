package healthcheck

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"howdah.dev/nodeagent/internal/lb"
	"howdah.dev/nodeagent/internal/route/netnstest"
)

var web, other = types.NamespacedName{Namespace: "default", Name: "web"}, types.NamespacedName{Namespace: "default", Name: "other"}

// fixture is a server in a network namespace of its own, where every port is free.
type fixture struct {
	*Server
	t       *testing.T
	ns      *netnstest.Namespace
	healthy atomic.Bool
	node    atomic.Pointer[corev1.Node]
	failed  chan string
}

func start(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t: t, ns: netnstest.New(t, "node"), failed: make(chan string, 8)}
	f.healthy.Store(true)
	f.node.Store(&corev1.Node{})
	f.Server = New(Config{
		Health: func() lb.Health { return lb.Health{Healthy: f.healthy.Load(), Written: time.Unix(1000, 0)} },
		Node:   f.node.Load, Clock: clock.RealClock{},
		Failed: func(service types.NamespacedName, port uint16, _ error) { f.failed <- fmt.Sprint(service, " ", port) },
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- f.ns.Try(func() error { return f.Run(ctx) }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Run: %v", err)
		}
		if _, _, err := f.try("[::1]:10256", "/livez"); !errors.Is(err, unix.ECONNREFUSED) {
			t.Errorf("after the end port 10256 answers: %v", err)
		}
	})
	return f
}

// try asks once, over a connection of its own.
func (f *fixture) try(address, path string) (*http.Response, string, error) {
	var c net.Conn
	if err := f.ns.Try(func() (err error) { c, err = net.DialTimeout("tcp", address, time.Second); return err }); err != nil {
		return nil, "", err
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	if _, err := fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n", path); err != nil {
		return nil, "", err
	}
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return nil, "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return answer, string(body), err
}

// ask asks until the port is open: Run opens it after Set.
func (f *fixture) ask(address, path string) (*http.Response, string) {
	f.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		answer, body, err := f.try(address, path)
		if err == nil {
			return answer, body
		}
		if time.Now().After(deadline) {
			f.t.Fatalf("ask %s: %v", address, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// closed waits until nobody listens there.
func (f *fixture) closed(address string) {
	f.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; {
		_, _, err := f.try(address, "/")
		if errors.Is(err, unix.ECONNREFUSED) {
			return
		}
		if time.Now().After(deadline) {
			f.t.Fatalf("%s is still open: %v", address, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestServices(t *testing.T) {
	f := start(t)
	expect := func(address string, code int, weight, body string) {
		t.Helper()
		answer, got := f.ask(address, "/healthz")
		if answer.StatusCode != code || got != body || answer.Header.Get("X-Load-Balancing-Endpoint-Weight") != weight ||
			answer.Header.Get("Content-Type") != "application/json" || answer.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s answers %d %v %s, want %d, weight %s, %s", address, answer.StatusCode, answer.Header, got, code, weight, body)
		}
	}
	f.Set(map[types.NamespacedName]lb.HealthPort{web: {Port: 32000, Endpoints: 2}, other: {Port: 32001}})
	expect("127.0.0.1:32000", 200, "2", `{"service":{"namespace":"default","name":"web"},"localEndpoints":2,"serviceProxyHealthy":true}`)
	expect("[::1]:32000", 200, "2", `{"service":{"namespace":"default","name":"web"},"localEndpoints":2,"serviceProxyHealthy":true}`)
	expect("127.0.0.1:32001", 503, "0", `{"service":{"namespace":"default","name":"other"},"localEndpoints":0,"serviceProxyHealthy":true}`)

	f.healthy.Store(false)
	expect("127.0.0.1:32000", 503, "2", `{"service":{"namespace":"default","name":"web"},"localEndpoints":2,"serviceProxyHealthy":false}`)
	f.healthy.Store(true)

	// One service takes the port that another leaves.
	f.Set(map[types.NamespacedName]lb.HealthPort{other: {Port: 32000, Endpoints: 1}})
	f.closed("127.0.0.1:32001")
	expect("127.0.0.1:32000", 200, "1", `{"service":{"namespace":"default","name":"other"},"localEndpoints":1,"serviceProxyHealthy":true}`)
	f.Set(nil)
	f.closed("127.0.0.1:32000")
}

// A port that somebody else has is told of once, and had when it is free.
func TestPortIsTaken(t *testing.T) {
	f := start(t)
	var taken net.Listener
	f.ns.Do(func() (err error) { taken, err = net.Listen("tcp", ":32000"); return err })
	f.Set(map[types.NamespacedName]lb.HealthPort{web: {Port: 32000, Endpoints: 1}, other: {Port: 32001, Endpoints: 1}})
	if got := <-f.failed; got != "default/web 32000" {
		t.Errorf("failed: %s", got)
	}
	f.ask("127.0.0.1:32001", "/") // the others are served
	taken.Close()
	if answer, _ := f.ask("127.0.0.1:32000", "/"); answer.StatusCode != 200 {
		t.Errorf("once it is free: %d", answer.StatusCode)
	}
	if len(f.failed) > 0 {
		t.Errorf("told again: %s", <-f.failed)
	}
}

func TestNode(t *testing.T) {
	f := start(t)
	expect := func(when, path string, code int, eligible any) {
		t.Helper()
		answer, body := f.ask("127.0.0.1:10256", path)
		var got struct {
			LastUpdated, CurrentTime time.Time
			NodeEligible             *bool
			Status                   map[string]struct {
				LastUpdated time.Time
				Healthy     bool
			}
		}
		if err := json.Unmarshal([]byte(body), &got); err != nil {
			t.Fatalf("%s: %s %v", when, body, err)
		}
		var gotEligible any
		if got.NodeEligible != nil {
			gotEligible = *got.NodeEligible
		}
		if answer.StatusCode != code || gotEligible != eligible || got.CurrentTime.IsZero() || got.LastUpdated.Equal(got.CurrentTime) != (code == 200) ||
			!got.Status["IPv4"].LastUpdated.Equal(time.Unix(1000, 0)) || got.Status["IPv4"].Healthy != f.healthy.Load() {
			t.Errorf("%s: %s answers %d %s, want %d, eligible %v", when, path, answer.StatusCode, body, code, eligible)
		}
	}
	expect("all is well", "/healthz", 200, true)
	expect("all is well", "/livez", 200, nil)

	f.node.Store(&corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: leaving}}}})
	expect("the node leaves", "/healthz", 503, false)
	expect("the node leaves", "/livez", 200, nil)
	f.node.Store(&corev1.Node{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{Time: time.Unix(1, 0)}}})
	expect("the node is being deleted", "/healthz", 503, false)
	f.node.Store(nil)
	expect("the API has no such node", "/healthz", 503, false)

	f.node.Store(&corev1.Node{})
	f.healthy.Store(false)
	expect("it does not balance", "/healthz", 503, true)
	expect("it does not balance", "/livez", 503, nil)

	if answer, body := f.ask("127.0.0.1:10249", "/proxyMode"); answer.StatusCode != 200 || body != "ebpf" {
		t.Errorf("/proxyMode: %d %s", answer.StatusCode, body)
	}
}
