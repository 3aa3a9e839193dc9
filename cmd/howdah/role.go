package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"k8s.io/utils/clock"

	"howdah.dev/kit/config"
	"howdah.dev/kit/memory"
	"howdah.dev/kit/obs"
	"howdah.dev/kit/rpc"
	"howdah.dev/kit/task"
)

// role is what every long-running subcommand has: its settings, and once it
// runs, its identity, its metrics and its gRPC server.
type role struct {
	name string

	listen, metricsListen, tlsDir string
	otlpEndpoint, logLevel        string
	sampleRatio                   float64
	level                         slog.LevelVar // of the log, as it is now

	identity *rpc.Identity
	registry *prometheus.Registry
	pages    []obs.Page // of metrics, beside those of the registry
}

func (r *role) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&r.listen, "listen", ":7443", "address to serve on")
	f.StringVar(&r.metricsListen, "metrics-listen", ":9464", "address of /metrics, /healthz and profiles; empty serves none")
	f.StringVar(&r.tlsDir, "tls-dir", "/pki", "folder with ca.crt, tls.crt and tls.key")
	r.telemetryFlags(cmd)
}

func (r *role) telemetryFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&r.otlpEndpoint, "otlp-endpoint", "", "host:port that takes traces over OTLP gRPC; empty records none")
	f.Float64Var(&r.sampleRatio, "trace-sample-ratio", 1, "share of new traces that are recorded, 0 to 1")
	f.StringVar(&r.logLevel, "log-level", "info", "debug, info, warn or error")
}

// command returns the subcommand of a role. run gets a context that ends
// with the process.
func (r *role) command(short string, run func(ctx context.Context) error) *cobra.Command {
	return &cobra.Command{
		Use: r.name, Short: short, Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			finish, err := r.start(cmd)
			if err != nil {
				return err
			}
			defer finish()
			slog.Info("starting", "settings", config.Effective(cmd.Flags()))
			err = r.runKept(cmd.Context(), run)
			slog.Info("stopped", "err", err)
			return err
		},
	}
}

// runKept runs the role, and what keeps its memory small beside it.
func (r *role) runKept(ctx context.Context, run func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		_ = memory.New(clock.RealClock{}).Run(ctx) // it ends with the role
	}()
	defer func() { cancel(); <-kept }()
	return run(ctx)
}

// start sets telemetry up and reads the identity.
func (r *role) start(cmd *cobra.Command) (func(), error) {
	host, _ := os.Hostname()
	finish, err := obs.Setup(cmd.Context(), obs.Config{
		Service: r.name, Instance: host, Endpoint: r.otlpEndpoint, SampleRatio: r.sampleRatio,
		LogLevel: r.logLevel, LogOutput: os.Stderr, Level: &r.level,
	})
	if err != nil {
		return nil, err
	}
	logKlog()
	r.registry = prometheus.NewRegistry()
	r.registry.MustRegister(collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(collectors.MetricsAll)), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if r.tlsDir == "" {
		return finish, nil
	}
	if r.identity, err = rpc.LoadIdentity(r.tlsDir); err != nil {
		finish()
		return nil, err
	}
	return finish, nil
}

// page adds a page of metrics, and returns what they are registered with.
func (r *role) page(path string) prometheus.Registerer {
	registry := prometheus.NewRegistry()
	r.pages = append(r.pages, obs.Page{Path: path, Registry: registry})
	return registry
}

// service is a role's part that serves gRPC.
type service interface {
	Register(grpc.ServiceRegistrar)
	Run(ctx context.Context) error
}

// serve runs a service with its server and its metrics. ready is called in
// the background; the health service says SERVING when it returns true.
func (r *role) serve(ctx context.Context, s service, ready func(ctx context.Context) bool) error {
	listener, err := net.Listen("tcp", r.listen)
	if err != nil {
		return explainListen(err)
	}
	return r.serveOn(ctx, listener, r.identity.Server(), s, ready)
}

func (r *role) serveOn(ctx context.Context, listener net.Listener, tlsConfig *tls.Config, s service, ready func(ctx context.Context) bool) error {
	server := rpc.NewServer(tlsConfig, r.registry)
	s.Register(server)
	return task.Run(ctx,
		s.Run,
		func(ctx context.Context) error { return server.ServeUntil(ctx, listener) },
		func(ctx context.Context) error {
			return obs.ServeMetrics(ctx, r.metricsListen, r.registry, server.Ready, r.pages...)
		},
		func(ctx context.Context) error {
			server.SetReady(ready(ctx))
			<-ctx.Done()
			return ctx.Err()
		},
	)
}

// dialAPI connects to the apiservers.
func (r *role) dialAPI(target string) (*grpc.ClientConn, error) {
	conn, err := rpc.Dial(target, r.identity.Client("apiserver"), rpc.Pack()...)
	if err != nil {
		return nil, fmt.Errorf("dial apiserver: %w", err)
	}
	return conn, nil
}

// explainListen says what to do about a port that is taken.
func explainListen(err error) error {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "listen" {
		return fmt.Errorf("%w: another program holds the port; choose another with --listen", err)
	}
	return err
}
