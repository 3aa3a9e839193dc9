// Command bench measures a howdah control plane from outside, through REST
// with client-go, and prints a JSON line a figure, and at the end, on the standard error, a table that compares with Kubernetes.
//
// It starts `howdah standalone` with simulated nodes on a database of its
// own, or measures the cluster of $KUBECONFIG with --cluster.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// figure is one measured value.
type figure struct {
	Scenario string  `json:"scenario"`
	Clients  int     `json:"clients,omitempty"`
	Count    int     `json:"count,omitempty"`
	PerSec   float64 `json:"per_second,omitempty"`
	P50      float64 `json:"p50_ms,omitempty"`
	P99      float64 `json:"p99_ms,omitempty"`
	Seconds  float64 `json:"seconds,omitempty"`
	MiB      float64 `json:"mib,omitempty"`
	CPU      float64 `json:"cpu_percent,omitempty"`
	// What one operation costs in processor time: it hardly depends on what else the machine does.
	Server   float64 `json:"server_us_per_op,omitempty"`
	Database float64 `json:"postgres_us_per_op,omitempty"`
	Client   float64 `json:"client_us_per_op,omitempty"`
	Note     string  `json:"note,omitempty"`
}

// scenario is one thing to measure.
type scenario struct {
	name string
	run  func(ctx context.Context, b *bench) error
}

// scenarios run in this order: the small before the large.
var scenarios = []scenario{
	{"floor", floor}, {"objects", objects}, {"list", list}, {"watch", watch},
	{"deployment-1000", replicas(1000)}, {"deployment-5000", replicas(5000)},
	{"podstart", podStart}, {"services", services}, {"memory", memory},
}

type bench struct {
	config *rest.Config
	client kubernetes.Interface
	out    *json.Encoder
	nodes  int
	real   bool // the nodes run containers
	// prometheus is the address of the cluster's Prometheus.
	prometheus string
	// clients are the numbers of clients for which single requests are measured, each for a period.
	clients []int
	period  time.Duration
	cpu     profiler
	figures []figure    // that were reported
	server  *standalone // nil where a cluster is measured
}

func (b *bench) report(f figure) {
	b.figures = append(b.figures, f)
	_ = b.out.Encode(f)
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	var (
		cluster     = flag.Bool("cluster", false, "measure the cluster of $KUBECONFIG instead of a standalone")
		howdah      = flag.String("howdah", "../.build/bin/howdah", "the binary")
		databaseURL = flag.String("database-url", os.Getenv("HOWDAH_BENCH_DATABASE_URL"), "PostgreSQL in which databases may be made; empty starts one")
		nodes       = flag.Int("nodes", 100, "simulated nodes of the standalone")
		prometheus  = flag.String("prometheus", "http://127.0.0.1:9090", "the cluster's Prometheus, for the memory and CPU of its services")
		profiles    = flag.String("profiles", "", "folder for CPU profiles of the standalone; empty takes none")
		clients     = flag.String("clients", "1,16,128", "numbers of clients for which single requests are measured")
		period      = flag.Duration("period", 3*time.Second, "how long each number of clients creates, and gets")
		only        = flag.String("only", ".", "pattern of the scenarios to run")
	)
	flag.Parse()
	wanted, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	b := &bench{out: json.NewEncoder(os.Stdout), nodes: *nodes, real: *cluster, prometheus: *prometheus, period: *period}
	if b.clients, err = numbers(*clients); err != nil {
		return fmt.Errorf("--clients: %w", err)
	}
	kubeconfig := os.Getenv("KUBECONFIG")
	if !*cluster {
		s, err := startStandalone(ctx, *howdah, *databaseURL, *nodes)
		if err != nil {
			return err
		}
		defer s.stop()
		b.report(figure{Scenario: "standalone start to ready", Seconds: s.ready.Seconds()})
		if wanted.MatchString("idle") {
			if err := s.idle(ctx, b, *nodes); err != nil {
				return err
			}
		}
		kubeconfig, b.server = s.kubeconfig, s
		b.cpu.dir, b.cpu.address = *profiles, s.metrics
		defer b.cpu.running.Wait()
	}
	if b.config, err = clientcmd.BuildConfigFromFlags("", kubeconfig); err != nil {
		return err
	}
	b.config.QPS, b.config.Burst = -1, 0
	b.config.ContentType = "application/vnd.kubernetes.protobuf"
	b.config.AcceptContentTypes = b.config.ContentType
	if b.client, err = kubernetes.NewForConfig(b.config); err != nil {
		return err
	}
	for _, s := range scenarios {
		if !wanted.MatchString(s.name) {
			continue
		}
		bounded, cancel := context.WithTimeout(ctx, 5*time.Minute)
		err := s.run(bounded, b)
		cancel()
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	compare(os.Stderr, b.figures)
	return nil
}

// numbers reads "1,16,128".
func numbers(text string) (list []int, err error) {
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(part)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%q is not a list of positive numbers", text)
		}
		list = append(list, n)
	}
	return list, nil
}
