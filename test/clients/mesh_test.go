package clients

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	typed "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/clientcmd"

	"howdah.dev/kit/pgtest"
	"howdah.dev/test/internal/standalone"
)

// switchboard passes connections on to whichever apiserver takes them, as a name with several addresses does.
type switchboard struct {
	listener net.Listener
	to       []string
	next     atomic.Int64
	open     sync.WaitGroup
}

func newSwitchboard(t *testing.T, to ...string) *switchboard {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &switchboard{listener: listener, to: to}
	s.open.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			s.open.Go(func() { s.connect(conn) })
		}
	})
	t.Cleanup(func() { _ = listener.Close(); s.open.Wait() })
	return s
}

func (s *switchboard) connect(from net.Conn) {
	defer from.Close()
	for range s.to {
		to, err := net.DialTimeout("tcp", s.to[int(s.next.Add(1))%len(s.to)], 5*time.Second)
		if err != nil {
			continue
		}
		var both sync.WaitGroup
		both.Go(func() { _, _ = io.Copy(to, from); _ = to.Close(); _ = from.Close() })
		both.Go(func() { _, _ = io.Copy(from, to); _ = to.Close(); _ = from.Close() })
		both.Wait()
		return
	}
}

// follow reads the ADDED events of ConfigMaps behind a revision until one of the name has come, and checks that none comes twice or out of
// order. A watch that ends is resumed where it was, as clients do.
func follow(ctx context.Context, maps typed.ConfigMapInterface, revision, last string) (got []string, ends int, err error) {
	newest, _ := strconv.ParseInt(revision, 10, 64)
	for {
		w, err := maps.Watch(ctx, metav1.ListOptions{ResourceVersion: strconv.FormatInt(newest, 10), LabelSelector: "mesh=yes"})
		if err != nil {
			if ctx.Err() != nil {
				return got, ends, ctx.Err()
			}
			time.Sleep(50 * time.Millisecond) // nothing tells when it can be had again
			continue
		}
		for e := range w.ResultChan() {
			m, ok := e.Object.(*corev1.ConfigMap)
			if !ok || e.Type != watch.Added {
				return got, ends, fmt.Errorf("%s %v came", e.Type, e.Object)
			}
			at, err := strconv.ParseInt(m.ResourceVersion, 10, 64)
			if err != nil || at <= newest {
				return got, ends, fmt.Errorf("%s at %s came after %d (%v)", m.Name, m.ResourceVersion, newest, err)
			}
			newest, got = at, append(got, m.Name)
			if m.Name == last {
				w.Stop()
				return got, ends, nil
			}
		}
		ends++
	}
}

// Watches that share an upstream one have every event once while the apiservers behind their gateway are killed in turns.
func TestSharedWatchesThroughCrashesOfAPIServers(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	dir := t.TempDir()
	database, err := pgtest.Launch(ctx, pgtest.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(database.Close)
	mesh, err := standalone.NewMesh(ctx, howdah.bin(t), dir, database.URL())
	if err != nil {
		t.Fatal(err)
	}
	start := func(p *standalone.Process, err error) *standalone.Process {
		t.Helper()
		if err == nil {
			err = p.Start(ctx)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Stop)
		return p
	}
	apiservers := []*standalone.Process{start(mesh.APIServer("apiserver1")), start(mesh.APIServer("apiserver2"))}
	front := newSwitchboard(t, apiservers[0].Address, apiservers[1].Address)
	gateway := start(mesh.Gateway("gateway", "passthrough:///"+front.listener.Addr().String()))
	client := func(contentType string) typed.ConfigMapInterface {
		config, err := clientcmd.BuildConfigFromFlags("https://"+gateway.Address, mesh.Kubeconfig())
		if err != nil {
			t.Fatal(err)
		}
		config.QPS, config.ContentType = -1, contentType
		return kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps("default")
	}
	maps := client(runtime.ContentTypeJSON)
	write := func(name string) string {
		for {
			o, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"mesh": "yes"}}}, metav1.CreateOptions{})
			if err == nil || apierrors.IsAlreadyExists(err) { // by an attempt whose answer was lost
				return o.ResourceVersion
			}
			select {
			case <-ctx.Done():
				t.Fatal(err)
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	const watchers, writes = 20, 300
	name := func(n int) string { return fmt.Sprintf("m%04d", n) }
	from := write("before")
	var readers sync.WaitGroup
	var ends atomic.Int64
	for n := range watchers {
		maps := client([]string{runtime.ContentTypeProtobuf, runtime.ContentTypeJSON}[n%2])
		readers.Go(func() {
			got, ended, err := follow(ctx, maps, from, name(writes-1))
			ends.Add(int64(ended))
			if err != nil {
				t.Errorf("watch %d: %v", n, err)
				return
			}
			if len(got) != writes {
				t.Errorf("watch %d had %d events of %d: %v", n, len(got), writes, got)
			}
		})
	}
	for n := range writes {
		if n%60 == 30 {
			victim := apiservers[n/60%2]
			victim.Kill()
		}
		write(name(n))
		if n%60 == 50 {
			if err := apiservers[n/60%2].Start(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
	readers.Wait()
	text := gatewayMetrics(t, gateway.Metrics)
	for metric, least := range map[string]float64{
		"howdah_gateway_shared_watch_events_received_total": writes, "howdah_gateway_shared_watch_resumes_total": 1,
	} {
		if got := text(metric); got < least {
			t.Errorf("%s is %v, less than %v", metric, got, least)
		}
	}
	t.Logf("%d watches ended and were resumed; %v events came and %v went", ends.Load(), text("howdah_gateway_shared_watch_events_received_total"),
		text("howdah_gateway_shared_watch_events_sent_total"))
}

// gatewayMetrics reads the metrics of a process.
func gatewayMetrics(t *testing.T, address string) func(name string) float64 {
	t.Helper()
	response, err := (&http.Client{Timeout: patience}).Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return func(name string) float64 {
		found := regexp.MustCompile(`(?m)^` + name + ` (\S+)$`).FindSubmatch(text)
		if found == nil {
			t.Fatalf("no metric %s", name)
		}
		value, err := strconv.ParseFloat(string(found[1]), 64)
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}
