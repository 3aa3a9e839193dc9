// Command howdah is the one binary: a subcommand a role, and the tools to
// set a cluster up and to look into it.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"howdah.dev/kit/config"
	"howdah.dev/nodeagent"
)

func main() {
	// containerd calls the binary as a CNI plugin, with the verb in the environment.
	if nodeagent.CNIRequested(os.Getenv) {
		nodeagent.CNIMain(os.Args[0])
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command().ExecuteContext(ctx); err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, nodeagent.ErrShutDown) {
		if errors.Is(err, errDifferent) {
			os.Exit(1) // the difference is printed
		}
		fmt.Fprintln(os.Stderr, "howdah:", err)
		if _, ok := errors.AsType[comparisonFailed](err); ok {
			os.Exit(2)
		}
		os.Exit(1)
	}
}

func command() *cobra.Command {
	root := &cobra.Command{
		Use:           "howdah",
		Short:         "A Kubernetes-compatible cluster on PostgreSQL",
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			return config.FromEnvironment(cmd.Flags())
		},
	}
	root.AddCommand(
		apiserverCommand(), gatewayCommand(), schedulerCommand(), controllersCommand(), nodeagentCommand(), ingressCommand(), logsCommand(), metricsCommand(), federationCommand(), standaloneCommand(),
		initCommand(), configCommand(), upgradeCommand(), migrateCommand(), pkiCommand(), addonsCommand(), tokenCommand(), joinCommand(), certsCommand(), resetCommand(), healthCommand(),
		traceCommand(), explainCommand(), historyCommand(), diffCommand(), getCommand(), transactionCommand(), searchLogsCommand(), versionCommand(),
	)
	return root
}
