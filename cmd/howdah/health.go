package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"howdah.dev/kit/rpc"
)

// healthCommand asks a role's health service, for the containers' checks.
func healthCommand() *cobra.Command {
	var address, dir string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: "health", Short: "Ask a role whether it serves", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			return checkHealth(ctx, address, dir)
		},
	}
	cmd.Flags().StringVar(&address, "address", "127.0.0.1:7443", "host:port of the role")
	cmd.Flags().StringVar(&dir, "tls-dir", "/pki", "folder with ca.crt, tls.crt and tls.key")
	cmd.Flags().DurationVar(&timeout, "timeout", 4*time.Second, "how long to wait for an answer")
	return cmd
}

func checkHealth(ctx context.Context, address, dir string) error {
	identity, err := rpc.LoadIdentity(dir)
	if err != nil {
		return err
	}
	conn, err := rpc.Dial("passthrough:///"+address, identity.ClientAnyName())
	if err != nil {
		return fmt.Errorf("dial %s: %w", address, err)
	}
	defer conn.Close()
	response, err := healthv1.NewHealthClient(conn).Check(ctx, &healthv1.HealthCheckRequest{})
	if status.Code(err) == codes.Unavailable {
		return fmt.Errorf("nobody answers on %s", address)
	}
	if err != nil {
		return err
	}
	if response.GetStatus() != healthv1.HealthCheckResponse_SERVING {
		return fmt.Errorf("%s answers %s", address, response.GetStatus())
	}
	return nil
}
