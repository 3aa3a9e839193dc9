package metrics

import (
	"context"
	"crypto/tls"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/kit/apistatus"
	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
	"howdah.dev/kit/rpc"
	metricsv1 "howdah.dev/proto/gen/howdah/metrics/v1"
	"howdah.dev/services/metrics/internal/sample"
	"howdah.dev/services/metrics/internal/scrape"
)

// nodes answers for nodes: each uses one processor, of which its pod uses a half.
type nodes struct {
	mu     sync.Mutex
	silent map[string]bool
	asked  map[string]int
}

func (n *nodes) Scrape(ctx context.Context, node *corev1.Node) (sample.Scrape, error) {
	n.mu.Lock()
	n.asked[node.Name]++
	silent := n.silent[node.Name]
	n.mu.Unlock()
	if node.Name == "hollow" {
		return sample.Scrape{}, scrape.ErrNoEndpoint
	}
	if silent {
		<-ctx.Done() // it hangs
		return sample.Scrape{}, ctx.Err()
	}
	now := time.Now()
	used := now.Sub(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)).Seconds()
	return sample.Scrape{
		Node: sample.Reading{Time: now, CPU: used, Memory: 1 << 30},
		Pods: map[sample.Pod]map[string]sample.Reading{{Namespace: "a", Name: "on-" + node.Name}: {"c": {Time: now, CPU: used / 2, Memory: 1 << 20}}},
	}, nil
}

func (n *nodes) Close() {}

func (n *nodes) silence(name string, silent bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.silent[name] = silent
}

// TestRounds runs the service on the bubble's clock: what nodes tell is known after two rounds, a node that hangs delays nobody and is left out
// when it has been silent for three rounds, and one that comes back is told again.
func TestRounds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, client := objecttest.Start(t)
		for _, name := range []string{"n1", "n2", "hollow"} {
			if _, err := object.For(client, object.Node).Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
				t.Fatal(err)
			}
		}
		registry := prometheus.NewRegistry()
		s, err := New(Config{Objects: client, NodeTLS: &tls.Config{}, Registerer: registry})
		if err != nil {
			t.Fatal(err)
		}
		told := &nodes{silent: map[string]bool{}, asked: map[string]int{}}
		s.client = told
		ctx, cancel := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- s.Run(ctx) }()
		defer func() { cancel(); <-ran }()
		if !s.Ready(ctx) {
			t.Fatal("never ready")
		}
		known := func(name string) []sample.NodeUsage { return s.known.Nodes(name, time.Now()) }
		pass := func(rounds int) {
			time.Sleep(time.Duration(rounds) * DefaultResolution)
			synctest.Wait()
		}
		if got := known(""); len(got) != 0 {
			t.Errorf("after one round: %v", got)
		}
		pass(1)
		if got := known(""); len(got) != 2 || math.Abs(got[0].CPU-1) > 1e-6 {
			t.Errorf("after two rounds: %v", got)
		}
		told.silence("n2", true)
		pass(2)
		if got := known(""); len(got) != 2 {
			t.Errorf("while a node misses two rounds: %v", got)
		}
		pass(2)
		if got := known(""); len(got) != 1 || got[0].Name != "n1" {
			t.Errorf("when a node has missed four rounds: %v", got)
		}
		told.silence("n2", false)
		pass(2)
		if got := known("n2"); len(got) != 1 {
			t.Errorf("when it is back: %v", got)
		}
		told.mu.Lock()
		defer told.mu.Unlock()
		if n := told.asked["n1"]; n != 8 {
			t.Errorf("the node that answers was asked %d times in 8 rounds", n)
		}
		want := `
# HELP howdah_metrics_known Of how many nodes and pods it is known what they use.
# TYPE howdah_metrics_known gauge
howdah_metrics_known{kind="node"} 2
howdah_metrics_known{kind="pod"} 2
`
		if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "howdah_metrics_known"); err != nil {
			t.Error(err)
		}
	})
}

// TestOnlyAPIServersAsk: others are refused, and everybody until the nodes have been asked.
func TestOnlyAPIServersAsk(t *testing.T) {
	t.Parallel()
	_, client := objecttest.Start(t)
	s, err := New(Config{Objects: client, NodeTLS: &tls.Config{}})
	if err != nil {
		t.Fatal(err)
	}
	wire := rpc.NewLocal()
	server := rpc.NewServer(nil, nil)
	s.Register(server)
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- server.ServeLocal(ctx, wire) }()
	defer func() { cancel(); <-served }()
	as := func(group string) metricsv1.UsageServiceClient {
		return metricsv1.NewUsageServiceClient(wire.Dial(rpc.User{Name: "u", Groups: []string{group}}))
	}
	for group, code := range map[string]int32{"system:nodes": 403, "howdah:gateways": 403, apiserversGroup: 503} {
		if _, err := as(group).ListPodUsage(ctx, &metricsv1.ListPodUsageRequest{}); apistatus.Of(apistatus.FromGRPC(err)).Code != code {
			t.Errorf("%s: %v", group, err)
		}
	}
	close(s.first)
	now := time.Now()
	for i, cpu := range []float64{1, 2.5} {
		at := now.Add(time.Duration(i) * 15 * time.Second)
		s.known.Add("n", sample.Scrape{
			Node: sample.Reading{Time: at, CPU: cpu},
			Pods: map[sample.Pod]map[string]sample.Reading{{Namespace: "a", Name: "p"}: {"z": {Time: at, CPU: cpu, Memory: 4096}, "c": {Time: at, CPU: 2 * cpu}}},
		}, now)
	}
	pods, err := as(apiserversGroup).ListPodUsage(ctx, &metricsv1.ListPodUsageRequest{Namespace: "a", Name: "p"})
	if err != nil || len(pods.GetPods()) != 1 || pods.GetPods()[0].GetWindow().AsDuration() != 15*time.Second {
		t.Fatalf("%v %v", pods, err)
	}
	containers := pods.GetPods()[0].GetContainers()
	if len(containers) != 2 || containers[0].GetName() != "c" || containers[0].GetUsage().GetCpuNanocores() != 200_000_000 || containers[1].GetUsage().GetMemoryBytes() != 4096 {
		t.Errorf("%v", containers)
	}
	nodes, err := as(apiserversGroup).ListNodeUsage(ctx, &metricsv1.ListNodeUsageRequest{Name: "n"})
	if err != nil || len(nodes.GetNodes()) != 1 || nodes.GetNodes()[0].GetUsage().GetCpuNanocores() != 100_000_000 {
		t.Errorf("%v %v", nodes, err)
	}
}

// TestConfig: all that is wrong is told at once.
func TestConfig(t *testing.T) {
	t.Parallel()
	_, err := New(Config{Resolution: time.Second})
	for _, want := range []string{"client of the apiserver is missing", "certificate for nodes is missing", "resolution of 1s"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in %v", want, err)
		}
	}
}
