package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/clock"

	"howdah.dev/kit/rpc"
	"howdah.dev/services/logs"
)

// logsFlags say what of the containers' lines is kept.
type logsFlags struct {
	retention time.Duration
	size      string
	rate      string
}

func (l *logsFlags) flags(cmd *cobra.Command, prefix string) {
	f := cmd.Flags()
	f.DurationVar(&l.retention, prefix+"retention", logs.DefaultRetention, "how long containers' lines stay, unless they take too much room")
	f.StringVar(&l.size, prefix+"max-size", "10Gi", "how much room in the database containers' lines may take, with their indexes; the oldest hours go when it is more")
	f.StringVar(&l.rate, prefix+"max-rate", "4Mi", "how many bytes of text a second are stored over a while; what is more waits at the nodes")
}

// config reads the settings; name is that of a flag without its prefix.
func (l *logsFlags) config(prefix string) (logs.Config, error) {
	cfg := logs.Config{Retention: l.retention, Clock: clock.RealClock{}}
	for name, f := range map[string]struct {
		text string
		into *int64
	}{"max-size": {l.size, &cfg.MaxBytes}, "max-rate": {l.rate, &cfg.Rate}} {
		q, err := resource.ParseQuantity(f.text)
		if err != nil || q.Sign() <= 0 {
			return cfg, fmt.Errorf("--%s%s: %q is no positive quantity of bytes, as 10Gi", prefix, name, f.text)
		}
		*f.into = q.Value()
	}
	return cfg, nil
}

func logsCommand() *cobra.Command {
	r := &role{name: "logs"}
	var api, databaseURL string
	var flags logsFlags
	cmd := r.command("Keep what containers write, and search it", func(ctx context.Context) error {
		cfg, err := flags.config("")
		if err != nil {
			return err
		}
		conn, err := r.dialAPI(api)
		if err != nil {
			return err
		}
		defer conn.Close()
		cfg.DatabaseURL, cfg.APIServer, cfg.Registerer = databaseURL, conn, r.registry
		s, err := logs.New(cfg)
		if err != nil {
			return err
		}
		return r.serve(ctx, s, s.Ready)
	})
	r.flags(cmd)
	flags.flags(cmd, "")
	cmd.Flags().StringVar(&api, "apiserver", "dns:///apiserver:7443", "gRPC target of the apiservers")
	cmd.Flags().StringVar(&databaseURL, "database-url", "", "PostgreSQL URL of the lines; it may be another database than that of the objects, on which howdah migrate was run too")
	return cmd
}

// dialLogs connects to the service of the logs.
func (r *role) dialLogs(target string) (*grpc.ClientConn, error) {
	conn, err := rpc.Dial(target, r.identity.Client("logs"))
	if err != nil {
		return nil, fmt.Errorf("dial logs: %w", err)
	}
	return conn, nil
}
