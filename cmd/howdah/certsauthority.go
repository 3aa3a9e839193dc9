package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"howdah.dev/kit/pki"
)

func certsAuthorityCommand(dir *string) *cobra.Command {
	cmd := &cobra.Command{
		Use: "authority", Short: "Replace the authority, in three steps, while the cluster goes on", Args: cobra.NoArgs,
		Long:    "Replace the authority, in three steps, while the cluster goes on.\n\nBetween two of them everybody needs the time to read what has changed: roles a minute, others are told of in what each step prints.",
		Example: "  howdah certs authority add --dir pki\n  howdah certs authority switch --dir pki\n  howdah certs authority retire --dir pki",
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var kubeconfig string
	cmd.PersistentFlags().StringVar(&kubeconfig, "kubeconfig", "", "where to put the administrator's kubeconfig as well")
	step := func(use, short string, take func(cmd *cobra.Command) error) {
		cmd.AddCommand(&cobra.Command{Use: use, Short: short, Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
			if err := take(cmd); err != nil {
				return err
			}
			return adminChanged(cmd, *dir, kubeconfig)
		}})
	}
	step("add", "Make the next authority, and have everybody trust it", func(cmd *cobra.Command) error {
		if err := pki.AddAuthority(*dir, time.Now()); err != nil {
			return err
		}
		fmt.Fprintln(cmd.OutOrStdout(), "the next authority is trusted beside the one that signs: roles know it within a minute, PostgreSQL by a reload, the DNS server by a restart")
		fmt.Fprintln(cmd.OutOrStdout(), "machines that have joined know it within two minutes; users need the new kubeconfig or ca.crt before: howdah certs authority switch")
		return nil
	})
	step("switch", "Have the next authority sign, and make all certificates anew", func(cmd *cobra.Command) error {
		renewed, err := pki.SwitchAuthority(*dir, time.Now())
		printRenewed(cmd, renewed)
		if err != nil {
			return err
		}
		fmt.Fprintln(cmd.OutOrStdout(), takenWhen)
		fmt.Fprintln(cmd.OutOrStdout(), "machines that have joined ask for certificates of the new authority within three minutes (kubectl get csr), and users need theirs, before: howdah certs authority retire")
		return nil
	})
	step("retire", "Trust the authority that signs, alone", func(cmd *cobra.Command) error {
		retired, err := pki.RetireAuthorities(*dir, time.Now())
		if err != nil {
			return err
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%d retired: the authority that signs is trusted alone\n", retired)
		return nil
	})
	return cmd
}
