package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"k8s.io/utils/clock"

	"howdah.dev/cmd/howdah/internal/gate"
	"howdah.dev/gateway"
	"howdah.dev/kit/config"
	"howdah.dev/kit/object"
	"howdah.dev/kit/obs"
	"howdah.dev/kit/pki"
	"howdah.dev/kit/rpc"
	"howdah.dev/kit/task"
	"howdah.dev/migrations"
	"howdah.dev/nodeagent"
	"howdah.dev/services/apiserver"
	"howdah.dev/services/controllers"
	"howdah.dev/services/federation"
	fedapi "howdah.dev/services/federation/api"
	"howdah.dev/services/logs"
	"howdah.dev/services/metrics"
	"howdah.dev/services/scheduler"
)

// standalone is all control-plane roles in one process: the mesh with
// shorter wires. Its roles call each other's gRPC services over rpc.Local,
// each as its own user.
type standalone struct {
	role
	apiserverFlags
	proxies     frontProxyFlags
	connections connectionsFlags
	secure      tlsFlags
	nodes       nodesFlags
	legacy      legacyTokenFlag
	autoscaling autoscalingFlags
	health      nodeHealthFlags
	dir         string
	clusterCIDR string
	simulate    int
	since       time.Time
	profiling   bool
	settings    []string // effective, for /configz

	sharedWatches   int
	readRatio       float64
	console         consoleFlags
	schedulerConfig string
	scheduling      *scheduler.Configuration

	federated  bool
	federating federationFlags

	keepLogs bool
	logging  logsFlags
	logs     *logs.Server // nil keeps none

	metricResolution time.Duration
}

func standaloneCommand() *cobra.Command {
	s := &standalone{role: role{name: "standalone"}, since: time.Now()}
	var cmd *cobra.Command
	cmd = s.command("Run the whole control plane in one process", func(ctx context.Context) error {
		s.settings = config.Effective(cmd.Flags())
		return s.run(ctx)
	})
	f := cmd.Flags()
	f.BoolVar(&s.profiling, "profiling", true, "serve /debug/pprof/ to those who may get it")
	f.StringVar(&s.listen, "listen", "127.0.0.1:6443", "address of the Kubernetes API")
	f.StringVar(&s.metricsListen, "metrics-listen", "", "address of /metrics, /healthz and profiles; empty serves none")
	f.StringVar(&s.dir, "dir", ".howdah/standalone", "folder for keys and the kubeconfig")
	f.StringVar(&s.clusterCIDR, "cluster-cidr", "10.244.0.0/16", "addresses of pods")
	f.IntVar(&s.simulate, "simulate", 0, "run so many simulated nodes as well")
	f.StringVar(&s.schedulerConfig, "scheduler-config", "", schedulerConfigUsage)
	sharedWatchesFlag(cmd, &s.sharedWatches)
	readRatioFlag(cmd, &s.readRatio)
	s.console.flags(f)
	f.BoolVar(&s.keepLogs, "logs", false, "keep what containers of nodes that join write, in the same database, and search it")
	s.logging.flags(cmd, "logs-")
	resolutionFlag(cmd, &s.metricResolution, "metric-resolution")
	f.BoolVar(&s.federated, "federation", false, "be the control plane of a federation: without a scheduler, and with only the controllers that act on no workloads; what is created is carried to member clusters")
	s.federating.flags(cmd, "federation-")
	s.telemetryFlags(cmd)
	s.apiserverFlags.flags(cmd)
	s.proxies.flags(f)
	s.connections.flags(f)
	s.secure.flags(f)
	s.secure.byName(f)
	s.nodes.flags(f)
	s.legacy.flags(f)
	s.autoscaling.flags(f)
	s.health.flags(f)
	return cmd
}

func (s *standalone) run(ctx context.Context) error {
	if err := errors.Join(s.legacy.validate(), s.autoscaling.validate()); err != nil {
		return err
	}
	if s.federated && (s.simulate > 0 || s.nodes.listen != "" || s.keepLogs) {
		return errors.New("--federation is a control plane without nodes: there is none for --simulate, --node-listen or --logs to be of use")
	}
	var err error
	if s.scheduling, err = schedulerConfiguration(s.schedulerConfig); err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(s.listen)
	if err != nil {
		return fmt.Errorf("--listen: %w", err)
	}
	if err := s.nodes.complete(s.listen); err != nil {
		return err
	}
	if host == "" {
		host = "127.0.0.1"
	}
	options := pki.Options{AdminServer: "https://" + net.JoinHostPort(host, port), Hosts: map[string][]string{"gateway": append([]string{host}, s.nodes.hosts()...)}}
	if err := pki.Init(s.dir, options); err != nil {
		return err
	}
	if err := migrations.Apply(ctx, s.databaseURL); err != nil {
		return err
	}
	mesh := mesh{rpc.NewLocal(), rpc.NewLocal(), rpc.NewLocal(), rpc.NewLocal(), rpc.NewLocal(), rpc.NewLocal()}
	parts, ready, err := s.parts(mesh)
	if err != nil {
		return err
	}
	return task.Run(ctx, append(parts, func(ctx context.Context) error {
		for _, r := range ready {
			if !r(ctx) {
				return ctx.Err()
			}
		}
		slog.Info("ready", "after", time.Since(s.since).Round(time.Millisecond).String(), "kubeconfig", filepath.Join(s.dir, "admin", "kubeconfig"))
		<-ctx.Done()
		return ctx.Err()
	})...)
}

// mesh is the wires to the roles.
type mesh struct{ apiserver, scheduler, controllers, logs, metrics, federation *rpc.Local }

// Identities are what the roles' certificates say in the mesh.
var (
	gatewayUser     = rpc.User{Name: "howdah:gateway", Groups: []string{"howdah:gateways"}}
	schedulerUser   = rpc.User{Name: "system:kube-scheduler"}
	controllersUser = rpc.User{Name: "system:kube-controller-manager"}
	logsUser        = rpc.User{Name: "howdah:logs", Groups: []string{"howdah:loggers"}}
	metricsUser     = rpc.User{Name: "howdah:metrics", Groups: []string{"howdah:meters"}}
	apiserverUser   = rpc.User{Name: "howdah:apiserver", Groups: []string{"howdah:apiservers"}}
	federationUser  = rpc.User{Name: "howdah:federation", Groups: []string{"howdah:federations"}}
)

// parts builds every role and returns what to run, and what to wait for.
func (s *standalone) parts(m mesh) (parts []task.Func, ready []func(context.Context) bool, err error) {
	var kept part
	if s.keepLogs { // before the API server's, which serves it to nodes
		if kept, err = s.logsPart(m); err != nil {
			return nil, nil, err
		}
	}
	api, err := s.apiserverPart(m)
	if err != nil {
		return nil, nil, err
	}
	decide := s.schedulerPart
	if s.federated { // which decides where objects go, instead of where pods do
		decide = s.federationPart
	}
	decider, err := decide(m)
	if err != nil {
		return nil, nil, err
	}
	control, err := s.controllersPart(m)
	if err != nil {
		return nil, nil, err
	}
	front, err := s.gatewayPart(m)
	if err != nil {
		return nil, nil, err
	}
	parts = append(parts, api.run, decider.run, control.run, front,
		func(ctx context.Context) error {
			return obs.ServeMetrics(ctx, s.metricsListen, s.registry, nil, s.pages...)
		})
	if s.simulate > 0 {
		nodes, err := s.simulatedPart(m)
		if err != nil {
			return nil, nil, err
		}
		parts = append(parts, nodes)
	}
	ready = []func(context.Context) bool{api.ready, decider.ready, control.ready}
	if s.logs != nil {
		parts, ready = append(parts, kept.run), append(ready, kept.ready)
	}
	if s.nodes.listen != "" { // simulated nodes use nothing
		used, err := s.metricsPart(m)
		if err != nil {
			return nil, nil, err
		}
		parts = append(parts, used.run)
	}
	return parts, ready, nil
}

// part is a role that serves in memory.
type part struct {
	run   task.Func
	ready func(context.Context) bool
}

func servedPart(wire *rpc.Local, s service, ready func(context.Context) bool) part {
	server := rpc.NewServer(nil, nil)
	s.Register(server)
	return part{
		run: func(ctx context.Context) error {
			return task.Run(ctx, s.Run, func(ctx context.Context) error { return server.ServeLocal(ctx, wire) })
		},
		ready: ready,
	}
}

func (s *standalone) apiserverPart(m mesh) (part, error) {
	signer, err := s.signer(filepath.Join(s.dir, "apiserver"))
	if err != nil {
		return part{}, err
	}
	cfg, err := s.config(signer, s.registry)
	if err != nil {
		return part{}, err
	}
	if len(cfg.GatewayEndpoints) == 0 {
		cfg.GatewayEndpoints = advertised(s.listen)
	}
	identity, err := rpc.LoadIdentity(filepath.Join(s.dir, "apiserver"))
	if err != nil {
		return part{}, err
	}
	if err := frontProxy(&cfg, identity); err != nil {
		return part{}, err
	}
	if s.nodes.listen != "" {
		cfg.Authentication.BootstrapTokens = true
		reachNodes(&cfg, identity)
		cfg.Usage = m.metrics.Dial(apiserverUser)
	}
	server, err := apiserver.New(cfg)
	if err != nil {
		return part{}, err
	}
	served := servedPart(m.apiserver, server, closed(server.Ready()))
	if s.nodes.listen == "" {
		return served, nil
	}
	nodes, err := s.nodesPart(m, server, identity, served.ready)
	if err != nil {
		return part{}, err
	}
	alone := served.run
	served.run = func(ctx context.Context) error { return task.Run(ctx, alone, nodes) }
	return served, nil
}

func (s *standalone) schedulerPart(m mesh) (part, error) {
	conn := m.apiserver.Dial(schedulerUser)
	leadership, err := newLeadership(s.databaseURL, scheduler.Role)
	if err != nil {
		return part{}, err
	}
	server := scheduler.New(scheduler.Config{
		Objects: object.NewClient(conn, "kube-scheduler"), Leadership: leadership,
		Name: "default-scheduler", Configuration: s.scheduling, Clock: clock.RealClock{}, Registerer: s.registry, Resources: s.page("/metrics/resources"),
	})
	return servedPart(m.scheduler, server, server.Ready), nil
}

func (s *standalone) controllersPart(m mesh) (part, error) {
	conn := m.apiserver.Dial(controllersUser)
	leadership, err := newLeadership(s.databaseURL, controllers.Role)
	if err != nil {
		return part{}, err
	}
	ca, err := pki.LoadBundle(filepath.Join(s.dir, "gateway", "ca.crt"))
	if err != nil {
		return part{}, fmt.Errorf("root certificate: %w", err)
	}
	gates, err := s.features.gates()
	if err != nil {
		return part{}, err
	}
	s.autoscaling.ToZero = gates.Enabled(gate.ToZero)
	var enabled string // the default's
	if s.federated {
		enabled = strings.Join(federationControllers, ",")
	}
	if s.nodes.listen != "" {
		enabled = "*,+bootstrapsigner,+tokencleaner"
	}
	cfg := controllers.Config{
		Enabled: enabled, Objects: object.NewClient(conn, "kube-controller-manager"), Leadership: leadership, Clock: clock.RealClock{},
		Registerer: s.registry, ClusterCIDR: s.clusterCIDR, RootCA: ca, TrustBundles: gates.Enabled(gate.TrustBundle),
		Signing: signingAuthority{}.source(filepath.Join(s.dir, "ca")), LegacyTokenPeriod: s.legacy.period,
		Autoscaling: s.autoscaling.Autoscaling,
	}
	if err := s.health.apply(&cfg); err != nil {
		return part{}, err
	}
	server, err := controllers.New(cfg)
	if err != nil {
		return part{}, err
	}
	return servedPart(m.controllers, server, server.Ready), nil
}

func (s *standalone) federationPart(m mesh) (part, error) {
	cfg, err := s.federating.config("federation-")
	if err != nil {
		return part{}, err
	}
	if cfg.Leadership, err = newLeadership(s.databaseURL, federation.Role); err != nil {
		return part{}, err
	}
	cfg.Objects, cfg.Registerer = object.NewClient(m.apiserver.Dial(federationUser), fedapi.Manager), s.registry
	server, err := federation.New(cfg)
	if err != nil {
		return part{}, err
	}
	return servedPart(m.federation, server, server.Ready), nil
}

func (s *standalone) logsPart(m mesh) (part, error) {
	cfg, err := s.logging.config("logs-")
	if err != nil {
		return part{}, err
	}
	cfg.DatabaseURL, cfg.APIServer, cfg.Registerer = s.databaseURL, m.apiserver.Dial(logsUser), s.registry
	if s.logs, err = logs.New(cfg); err != nil {
		return part{}, err
	}
	return servedPart(m.logs, s.logs, s.logs.Ready), nil
}

func (s *standalone) metricsPart(m mesh) (part, error) {
	identity, err := rpc.LoadIdentity(filepath.Join(s.dir, "metrics"))
	if err != nil {
		return part{}, err
	}
	server, err := metrics.New(metrics.Config{
		Objects: object.NewClient(m.apiserver.Dial(metricsUser), "howdah-metrics"), NodeTLS: identity.ClientOrganization(nodesOrganization), Resolution: s.metricResolution, Registerer: s.registry,
	})
	if err != nil {
		return part{}, err
	}
	return servedPart(m.metrics, server, server.Ready), nil
}

func (s *standalone) gatewayPart(m mesh) (task.Func, error) {
	identity, err := rpc.LoadIdentity(filepath.Join(s.dir, "gateway"))
	if err != nil {
		return nil, err
	}
	frontProxy, err := s.proxies.config()
	if err != nil {
		return nil, err
	}
	told, err := s.connections.config()
	if err != nil {
		return nil, err
	}
	shown, err := s.secure.server(identity.Public())
	if err != nil {
		return nil, err
	}
	clientCAs, err := s.clientCA.authorities()
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", s.listen)
	if err != nil {
		return nil, explainListen(err)
	}
	gates, err := s.features.gates()
	if err != nil {
		return nil, err
	}
	var kept, deciding grpc.ClientConnInterface
	if !s.federated {
		deciding = m.scheduler.Dial(gatewayUser)
	}
	if s.logs != nil {
		kept = m.logs.Dial(gatewayUser)
	}
	g, err := gateway.New(gateway.Config{
		Listener: listener, TLS: shown, Authority: identity.Authorities(), FrontProxy: frontProxy, ClientCAs: clientCAs, Connections: told, APIServer: m.apiserver.Dial(gatewayUser),
		Scheduler: deciding, Controllers: m.controllers.Dial(gatewayUser), Logs: kept,
		Registerer: s.registry, Gatherer: s.registry, RequestTimeout: s.protection.requestTimeout,
		Profiling: s.profiling, Settings: s.settings, LogLevel: &s.level, CBOR: gates.Enabled(gate.CBOR), SharedWatches: s.sharedWatches, UntracedReads: 1 - s.readRatio,
		Console: s.console.config(),
	})
	if err != nil {
		return nil, err
	}
	return g.Run, nil
}

// simulatedPart runs hollow nodes, as the user that administrates the cluster.
func (s *standalone) simulatedPart(m mesh) (task.Func, error) {
	conn := m.apiserver.Dial(rpc.User{Name: "howdah:simulator", Groups: []string{"system:masters"}})
	nodes, err := nodeagent.NewSimulation(nodeagent.Config{
		NodeName: "hollow", Objects: object.NewClient(conn, "kubelet"), Clock: clock.RealClock{}, Registerer: s.registry,
	}, s.simulate, nodeagent.Hollow{})
	if err != nil {
		return nil, err
	}
	return nodes.Run, nil
}
