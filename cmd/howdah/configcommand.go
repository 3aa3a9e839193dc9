package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/cmd/howdah/internal/clusterfile"
	"howdah.dev/cmd/howdah/internal/initialize"
)

func configCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Print, check and view the configuration of clusters and machines", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		return cmd.Help()
	}}
	cmd.AddCommand(configPrintCommand(), configValidateCommand(), configViewCommand())
	return cmd
}

func configPrintCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "print", Short: "Print a configuration with its defaults, to begin with", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		return cmd.Help()
	}}
	printing := func(use, short string, documents func() []any) {
		cmd.AddCommand(&cobra.Command{Use: use, Short: short, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
			text, err := clusterfile.Encode(documents()...)
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(text)
			return err
		}})
	}
	printing("init-defaults", "Print what howdah init --config takes", func() []any {
		init, cluster := clusterfile.InitDefaults()
		return []any{init, cluster}
	})
	printing("join-defaults", "Print what howdah join --config takes", func() []any { return []any{clusterfile.JoinDefaults()} })
	return cmd
}

func configValidateCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use: "validate", Short: "Report all that is wrong with a file of --config", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			d, err := readDocuments(file)
			if err != nil {
				return err
			}
			var problems field.ErrorList
			host := thisHost()
			if d.Init != nil {
				d.Init.Complete(host)
				problems = append(problems, d.Init.Validate(initialize.Names(initialize.Phases()))...)
			}
			if d.Cluster != nil {
				d.Cluster.Complete()
				problems = append(problems, d.Cluster.Validate(standaloneFlags{})...)
			}
			if d.Join != nil {
				d.Join.Complete(host)
				problems = append(problems, d.Join.Validate()...)
			}
			if len(problems) > 0 {
				return fmt.Errorf("%s: %w", file, problems.ToAggregate())
			}
			fmt.Fprintln(cmd.OutOrStdout(), "ok")
			return nil
		},
	}
	cmd.Flags().StringVar(&file, "config", "", "file to look at")
	_ = cmd.MarkFlagRequired("config")
	return cmd
}

func configViewCommand() *cobra.Command {
	var kubeconfig string
	cmd := &cobra.Command{
		Use: "view", Short: "Print the cluster's configuration, as the cluster keeps it", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := clientset(kubeconfig)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), tokenTimeout)
			defer cancel()
			m, err := client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, initialize.ConfigName, metav1.GetOptions{})
			if err != nil {
				return fmt.Errorf("the cluster's configuration (was it made by howdah init?): %w", err)
			}
			text, ok := m.Data[initialize.ConfigKey]
			if !ok {
				return errors.New("the ConfigMap kube-system/" + initialize.ConfigName + " has no " + initialize.ConfigKey)
			}
			fmt.Fprint(cmd.OutOrStdout(), text)
			return nil
		},
	}
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig file; $KUBECONFIG or ~/.kube/config where empty")
	return cmd
}
