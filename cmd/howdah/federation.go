package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/services/federation"
	"howdah.dev/services/federation/api"
)

// federationControllers are those that make sense in a cluster whose objects are templates: none that would act on workloads.
var federationControllers = []string{
	"namespace", "garbagecollector", "resourcequota", "policystatus", "serviceaccount", "rootca", "accounttoken", "legacytoken", "csrsigning", "csrapproving", "csrcleaner",
	"clusterroleaggregation", "storagemigration", "storageversion",
}

// federationFlags are the settings of a federation.
type federationFlags struct {
	probe, timeout, inspect time.Duration
	failures, workers       int
}

func (o *federationFlags) flags(cmd *cobra.Command, prefix string) {
	f := cmd.Flags()
	f.DurationVar(&o.probe, prefix+"probe-interval", 10*time.Second, "how often a member is asked whether it is ready")
	f.DurationVar(&o.timeout, prefix+"probe-timeout", 5*time.Second, "how long it may take to answer")
	f.IntVar(&o.failures, prefix+"probe-failures", 3, "how often in succession it has to fail before it is not ready")
	f.DurationVar(&o.inspect, prefix+"inspect-interval", 30*time.Second, "how often a member is asked about its nodes, pods and kinds")
	f.IntVar(&o.workers, prefix+"workers", 4, "objects that are carried to one member at the same time")
}

// config reports all problems at once.
func (o *federationFlags) config(prefix string) (federation.Config, error) {
	var errs []error
	for name, d := range map[string]time.Duration{"probe-interval": o.probe, "probe-timeout": o.timeout, "inspect-interval": o.inspect} {
		if d <= 0 {
			errs = append(errs, fmt.Errorf("--%s%s: %v is not positive", prefix, name, d))
		}
	}
	for name, n := range map[string]int{"probe-failures": o.failures, "workers": o.workers} {
		if n <= 0 {
			errs = append(errs, fmt.Errorf("--%s%s: %d is not positive", prefix, name, n))
		}
	}
	return federation.Config{Probe: o.probe, ProbeTimeout: o.timeout, ProbeFailures: o.failures, Inspect: o.inspect, Workers: o.workers, Clock: clock.RealClock{}}, errors.Join(errs...)
}

func federationCommand() *cobra.Command {
	r := &role{name: "federation"}
	var target, databaseURL string
	var flags federationFlags
	cmd := r.command("Carry objects of this API to several clusters; join, unjoin and list them", func(ctx context.Context) error {
		cfg, err := flags.config("")
		if err != nil {
			return err
		}
		if databaseURL == "" {
			return errors.New("--database-url is required: the federation elects its leader there")
		}
		conn, err := r.dialAPI(target)
		if err != nil {
			return err
		}
		defer conn.Close()
		if cfg.Leadership, err = newLeadership(databaseURL, federation.Role); err != nil {
			return err
		}
		cfg.Objects, cfg.Registerer = object.NewClient(conn, api.Manager), r.registry
		s, err := federation.New(cfg)
		if err != nil {
			return err
		}
		return r.serve(ctx, s, s.Ready)
	})
	cmd.Long = cmd.Short + ".\n\nIn the cluster of a federation the controllers run with\n--controllers=" + strings.Join(federationControllers, ",") + ",\nand there is no scheduler and there are no nodes."
	r.flags(cmd)
	flags.flags(cmd, "")
	cmd.Flags().StringVar(&target, "apiserver", "dns:///apiserver:7443", "gRPC target of the apiservers")
	cmd.Flags().StringVar(&databaseURL, "database-url", "", "PostgreSQL URL, for the election of a leader")
	cmd.AddCommand(federationJoinCommand(), federationUnjoinCommand(), federationClustersCommand())
	return cmd
}
