package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/services/controllers"
)

func controllersCommand() *cobra.Command {
	r := &role{name: "controllers"}
	var (
		api, databaseURL, clusterCIDR string
		enabled, name                 string
		nodeMask                      int
	)
	cmd := r.command("Run the controllers", func(ctx context.Context) error {
		if databaseURL == "" {
			return errors.New("--database-url is required: the controllers elect their leader there")
		}
		conn, err := r.dialAPI(api)
		if err != nil {
			return err
		}
		defer conn.Close()
		leadership, err := newLeadership(databaseURL, name)
		if err != nil {
			return err
		}
		ca, err := os.ReadFile(filepath.Join(r.tlsDir, "ca.crt"))
		if err != nil {
			return fmt.Errorf("root certificate: %w", err)
		}
		s, err := controllers.New(controllers.Config{
			Objects: object.NewClient(conn, "kube-controller-manager"), Leadership: leadership, Clock: clock.RealClock{},
			Registerer: r.registry, Role: name, Enabled: enabled, ClusterCIDR: clusterCIDR, NodeCIDRMaskSize: nodeMask, RootCA: ca,
		})
		if err != nil {
			return err
		}
		return r.serve(ctx, s, s.Ready)
	})
	r.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&api, "apiserver", "dns:///apiserver:7443", "gRPC target of the apiservers")
	f.StringVar(&databaseURL, "database-url", "", "PostgreSQL URL, for the election of a leader")
	f.StringVar(&enabled, "controllers", "*", "controllers or groups of them to run: * is all, +name one more, -name one less")
	f.StringVar(&name, "role", controllers.Role, "name of the election; processes that run different controllers take different ones")
	f.StringVar(&clusterCIDR, "cluster-cidr", "10.244.0.0/16", "addresses of pods")
	f.IntVar(&nodeMask, "node-cidr-mask-size", 24, "bits of the network part of a node's share of --cluster-cidr")
	return cmd
}
