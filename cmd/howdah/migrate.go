package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"howdah.dev/migrations"
)

func migrateCommand() *cobra.Command {
	var databaseURL string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use: "migrate", Short: "Bring the database's schema up to date", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if databaseURL == "" {
				return errors.New("--database-url is required")
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
			defer cancel()
			if err := migrations.Apply(ctx, databaseURL); err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), "the schema is up to date")
			return nil
		},
	}
	cmd.Flags().StringVar(&databaseURL, "database-url", "", "PostgreSQL URL")
	cmd.Flags().DurationVar(&timeout, "timeout", time.Minute, "how long to try")
	return cmd
}
