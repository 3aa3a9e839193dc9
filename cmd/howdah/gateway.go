package main

import (
	"context"
	"net"
	"time"

	"github.com/spf13/cobra"

	"howdah.dev/cmd/howdah/internal/gate"
	"howdah.dev/gateway"
	"howdah.dev/kit/config"
	"howdah.dev/kit/obs"
	"howdah.dev/kit/rpc"
	"howdah.dev/kit/task"
)

func gatewayCommand() *cobra.Command {
	r := &role{name: "gateway"}
	var api, scheduler, controllers, logs string
	var proxies frontProxyFlags
	var clients clientCAFlag
	var connections connectionsFlags
	var secure tlsFlags
	var features featureFlags
	var requestTimeout time.Duration
	var profiling bool
	var sharedWatches int
	var readRatio float64
	var console consoleFlags
	var cmd *cobra.Command
	cmd = r.command("Serve the Kubernetes API as REST", func(ctx context.Context) error {
		conn, err := r.dialAPI(api)
		if err != nil {
			return err
		}
		defer conn.Close()
		schedulerConn, err := rpc.Dial(scheduler, r.identity.Client("scheduler"))
		if err != nil {
			return err
		}
		defer schedulerConn.Close()
		controllersConn, err := rpc.Dial(controllers, r.identity.Client("controllers"))
		if err != nil {
			return err
		}
		defer controllersConn.Close()
		logsConn, err := r.dialLogs(logs)
		if err != nil {
			return err
		}
		defer logsConn.Close()
		frontProxy, err := proxies.config()
		if err != nil {
			return err
		}
		clientCAs, err := clients.authorities()
		if err != nil {
			return err
		}
		told, err := connections.config()
		if err != nil {
			return err
		}
		shown, err := secure.server(r.identity.Public())
		if err != nil {
			return err
		}
		gates, err := features.gates()
		if err != nil {
			return err
		}
		tell(gates, r.registry)
		listener, err := net.Listen("tcp", r.listen)
		if err != nil {
			return explainListen(err)
		}
		g, err := gateway.New(gateway.Config{
			Listener: listener, TLS: shown, Authority: r.identity.Authorities(), FrontProxy: frontProxy, ClientCAs: clientCAs, Connections: told, APIServer: conn, Scheduler: schedulerConn, Controllers: controllersConn, Logs: logsConn,
			Registerer: r.registry, Gatherer: r.registry, RequestTimeout: requestTimeout, SharedWatches: sharedWatches, UntracedReads: 1 - readRatio, CBOR: gates.Enabled(gate.CBOR),
			Profiling: profiling, Settings: config.Effective(cmd.Flags()), LogLevel: &r.level, Console: console.config(),
		})
		if err != nil {
			return err
		}
		return task.Run(ctx, g.Run,
			func(ctx context.Context) error { return obs.ServeMetrics(ctx, r.metricsListen, r.registry, nil) })
	})
	r.flags(cmd)
	proxies.flags(cmd.Flags())
	connections.flags(cmd.Flags())
	secure.flags(cmd.Flags())
	secure.byName(cmd.Flags())
	clients.flags(cmd.Flags(), "authorities that sign certificates of users beside the cluster's own; names that begin with howdah: stay the cluster's")
	features.flags(cmd.Flags())
	cmd.Flags().BoolVar(&profiling, "profiling", true, "serve /debug/pprof/ to those who may get it")
	sharedWatchesFlag(cmd, &sharedWatches)
	readRatioFlag(cmd, &readRatio)
	console.flags(cmd.Flags())
	cmd.Flags().DurationVar(&requestTimeout, "request-timeout", time.Minute, "how long a request may take, watches and streams excepted")
	cmd.Flags().Lookup("listen").DefValue = ":6443"
	r.listen = ":6443"
	cmd.Flags().StringVar(&api, "apiserver", "dns:///apiserver:7443", "gRPC target of the apiservers")
	cmd.Flags().StringVar(&scheduler, "scheduler", "dns:///scheduler:7443", "gRPC target of the schedulers")
	cmd.Flags().StringVar(&logs, "logs", "dns:///logs:7443", "gRPC target of the logs")
	cmd.Flags().StringVar(&controllers, "controllers", "dns:///controllers:7443", "gRPC target of the controllers")
	return cmd
}

// readRatioFlag is a setting of gateways, which the standalone has too.
func readRatioFlag(cmd *cobra.Command, ratio *float64) {
	cmd.Flags().Float64Var(ratio, "trace-read-ratio", 0.1, "share of the gets and lists among new traces that are recorded, 0 to 1, of what --trace-sample-ratio leaves")
}

// sharedWatchesFlag is a setting of gateways, which the standalone has too.
func sharedWatchesFlag(cmd *cobra.Command, most *int) {
	cmd.Flags().IntVar(most, "shared-watches", 1000, "how many watches at apiservers may stand that many clients' watches share; 0 lets each client's watch bring its own events")
}
