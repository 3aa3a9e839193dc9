// Command bench measures a howdah control plane from outside, through REST
// with client-go, and prints a JSON line a figure, and at the end, on the standard error, a table that compares with Kubernetes.
//
// It starts `howdah standalone` with simulated nodes on a database of its
// own, or measures the cluster of $KUBECONFIG with --cluster. With --kubernetes it first runs the same
// scenarios, with the same client, against Kubernetes' own programs.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// figure is one measured value.
type figure struct {
	System   string  `json:"system,omitempty"`
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
	Database float64 `json:"database_us_per_op,omitempty"`
	Client   float64 `json:"client_us_per_op,omitempty"`
	Note     string  `json:"note,omitempty"`
}

// scenario is one thing to measure.
type scenario struct {
	name string
	run  func(ctx context.Context, b *bench) error
}

// scenarios run in this order: the small before the large.
var scenarios = slices.Concat([]scenario{
	{"idle", idle}, {"floor", floor}, {"objects", objects}, {"json", inJSON}, {"list", list}, {"watch", watch},
}, breadthScenarios(), []scenario{
	{"deployment-1000", replicas(1000)}, {"deployment-5000", replicas(5000)},
	{"crowd", crowd}, {"podstart", podStart}, {"services", services}, {"memory", memory},
})

// bench measures one control plane.
type bench struct {
	settings
	config  *rest.Config
	client  clientset.Interface
	cpu     profiler
	figures []figure // that were reported
	target  *target  // nil where a cluster is measured
}

// settings are what all control planes are measured with.
type settings struct {
	out *json.Encoder
	// prometheus is the address of the cluster's Prometheus.
	prometheus string
	// clients are the numbers of clients for which single requests are measured, each for a period.
	clients  []int
	period   time.Duration
	profiles string         // folder; empty: none are taken
	only     *regexp.Regexp // names of the scenarios that are run
	kinds    *regexp.Regexp // names of the requests that the scenarios of breadth measure
	crowd    int            // pods of the scenario that has many at once; 0: it is not run
}

func (b *bench) report(f figure) {
	if b.target != nil {
		f.System = b.target.system
	}
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

func run(ctx context.Context) (err error) {
	var (
		cluster     = flag.Bool("cluster", false, "measure the cluster of $KUBECONFIG instead of a standalone")
		gateway     = flag.Bool("gateway", false, "measure watches only, through gateways in processes of their own: one that shares them beside one that does not")
		howdah      = flag.String("howdah", "../.build/bin/howdah", "the binary")
		databaseURL = flag.String("database-url", os.Getenv("HOWDAH_BENCH_DATABASE_URL"), "PostgreSQL in which databases may be made; empty starts one")
		nodes       = flag.Int("nodes", 100, "simulated nodes of the standalone")
		kubernetes  = flag.Bool("kubernetes", false, "measure Kubernetes' own programs first, and compare")
		oracle      = flag.String("oracle", "../hack/oracle.sh", "the script that starts Kubernetes, and builds it where it is not there")
		prometheus  = flag.String("prometheus", "http://127.0.0.1:9090", "the cluster's Prometheus, for the memory and CPU of its services")
		profiles    = flag.String("profiles", "", "folder for CPU profiles of the standalone; empty takes none")
		clients     = flag.String("clients", "1,16,128", "numbers of clients for which single requests are measured")
		period      = flag.Duration("period", 3*time.Second, "how long each number of clients creates, and gets")
		encrypt     = flag.String("encrypt", "", "how secrets are encrypted in the database: aescbc, aesgcm or secretbox; empty: they are not")
		many        = flag.Int("crowd", 0, "pods of the scenario crowd, which needs as much room on simulated nodes; 0 leaves it out")
		only        = flag.String("only", ".", "pattern of the scenarios to run")
		kinds       = flag.String("kinds", ".", "pattern of the kinds of requests that the scenarios breadth-... measure")
	)
	flag.Parse()
	s := settings{out: json.NewEncoder(os.Stdout), prometheus: *prometheus, period: *period, profiles: *profiles, crowd: *many}
	if s.only, err = regexp.Compile(*only); err != nil {
		return err
	}
	if s.kinds, err = regexp.Compile(*kinds); err != nil {
		return err
	}
	if s.clients, err = numbers(*clients); err != nil {
		return fmt.Errorf("--clients: %w", err)
	}
	if *gateway {
		return s.behindGateways(ctx, *howdah, *databaseURL)
	}
	var theirs, ours []figure
	if *kubernetes {
		theirs, err = s.measureStarted(ctx, func() (*target, error) { return startKubernetes(ctx, *oracle, *encrypt) })
		if err != nil {
			return fmt.Errorf("measure Kubernetes: %w", err)
		}
	}
	if *cluster {
		ours, err = s.measure(ctx, nil, os.Getenv("KUBECONFIG"))
	} else {
		ours, err = s.measureStarted(ctx, func() (*target, error) { return startStandalone(ctx, *howdah, *databaseURL, *nodes, *encrypt) })
	}
	if err != nil {
		return err
	}
	compare(os.Stderr, ours, theirs)
	return nil
}

// measureStarted starts a control plane, measures it, and stops it.
func (s settings) measureStarted(ctx context.Context, start func() (*target, error)) ([]figure, error) {
	t, err := start()
	if err != nil {
		return nil, err
	}
	defer t.stop()
	return s.measure(ctx, t, t.kubeconfig)
}

// measure runs the scenarios; t is nil for a cluster.
func (s settings) measure(ctx context.Context, t *target, kubeconfig string) ([]figure, error) {
	b := &bench{settings: s, target: t}
	if t != nil {
		b.report(figure{Scenario: "standalone start to ready", Seconds: t.ready.Seconds()})
		b.cpu.dir, b.cpu.address = s.profiles, t.metrics
		defer b.cpu.running.Wait()
	}
	var err error
	if b.config, err = clientcmd.BuildConfigFromFlags("", kubeconfig); err != nil {
		return nil, err
	}
	if err := b.connect(); err != nil {
		return nil, err
	}
	for _, sc := range scenarios {
		if !s.only.MatchString(sc.name) {
			continue
		}
		bounded, cancel := context.WithTimeout(ctx, scenarioTimeout)
		err := sc.run(bounded, b)
		cancel()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", sc.name, err)
		}
	}
	return b.figures, nil
}

// connect makes the client of the configuration.
func (b *bench) connect() (err error) {
	b.config.QPS, b.config.Burst = -1, 0
	b.config.ContentType = "application/vnd.kubernetes.protobuf"
	b.config.AcceptContentTypes = b.config.ContentType
	b.client, err = clientset.NewForConfig(b.config)
	return err
}

// scenarioTimeout bounds a scenario: Kubernetes takes minutes to remove a namespace of 10,000 pods.
const scenarioTimeout = 15 * time.Minute

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
