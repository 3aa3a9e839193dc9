package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/services/scheduler"
)

func schedulerCommand() *cobra.Command {
	r := &role{name: "scheduler"}
	var api, databaseURL, name, file string
	var cmd *cobra.Command
	cmd = r.command("Assign pods to nodes", func(ctx context.Context) error {
		if databaseURL == "" {
			return errors.New("--database-url is required: the schedulers elect their leader there")
		}
		if file != "" && cmd.Flags().Changed("scheduler-name") {
			return errors.New("--scheduler-name: the profiles of --config have names of their own")
		}
		configuration, err := schedulerConfiguration(file)
		if err != nil {
			return err
		}
		conn, err := r.dialAPI(api)
		if err != nil {
			return err
		}
		defer conn.Close()
		leadership, err := newLeadership(databaseURL, scheduler.Role)
		if err != nil {
			return err
		}
		s := scheduler.New(scheduler.Config{
			Objects: object.NewClient(conn, "kube-scheduler"), Leadership: leadership,
			Name: name, Configuration: configuration, Clock: clock.RealClock{}, Registerer: r.registry, Resources: r.page("/metrics/resources"),
		})
		return r.serve(ctx, s, s.Ready)
	})
	r.flags(cmd)
	cmd.Flags().StringVar(&api, "apiserver", "dns:///apiserver:7443", "gRPC target of the apiservers")
	cmd.Flags().StringVar(&databaseURL, "database-url", "", "PostgreSQL URL, for the election of a leader")
	cmd.Flags().StringVar(&name, "scheduler-name", "default-scheduler", "schedulerName of the pods to place")
	cmd.Flags().StringVar(&file, "config", "", schedulerConfigUsage)
	return cmd
}

const schedulerConfigUsage = "file with a KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1); empty is the default profile"

// schedulerConfiguration reads a file, where one is named.
func schedulerConfiguration(file string) (*scheduler.Configuration, error) {
	if file == "" {
		return nil, nil
	}
	return scheduler.LoadConfiguration(file)
}
