package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"howdah.dev/kit/object"
	"howdah.dev/kit/rpc"
	"howdah.dev/services/metrics"
)

func resolutionFlag(cmd *cobra.Command, to *time.Duration, name string) {
	cmd.Flags().DurationVar(to, name, metrics.DefaultResolution, "how often nodes are asked what they and their pods use")
}

func metricsCommand() *cobra.Command {
	r := &role{name: "metrics"}
	var api string
	var resolution time.Duration
	cmd := r.command("Find out what nodes and pods use", func(ctx context.Context) error {
		conn, err := r.dialAPI(api)
		if err != nil {
			return err
		}
		defer conn.Close()
		s, err := metrics.New(metrics.Config{
			Objects: object.NewClient(conn, "howdah-metrics"), NodeTLS: r.identity.ClientOrganization(nodesOrganization), Resolution: resolution, Registerer: r.registry,
		})
		if err != nil {
			return err
		}
		return r.serve(ctx, s, s.Ready)
	})
	r.flags(cmd)
	cmd.Flags().StringVar(&api, "apiserver", "dns:///apiserver:7443", "gRPC target of the apiservers")
	resolutionFlag(cmd, &resolution, "metric-resolution")
	return cmd
}

// dialUsage connects to the metrics service; an empty target is none.
func (r *role) dialUsage(target string) (grpc.ClientConnInterface, func(), error) {
	if target == "" {
		return nil, func() {}, nil
	}
	conn, err := rpc.Dial(target, r.identity.Client("metrics"))
	if err != nil {
		return nil, nil, fmt.Errorf("dial metrics: %w", err)
	}
	return conn, func() { _ = conn.Close() }, nil
}
