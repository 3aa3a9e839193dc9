package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"howdah.dev/kit/database"
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
			if err := migrate(ctx, databaseURL); err != nil {
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

// migrate waits for a database that does not answer yet, as long as ctx does: whoever starts both need not know when it is ready.
func migrate(ctx context.Context, databaseURL string) error {
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		err := migrations.Apply(ctx, databaseURL)
		if !database.Starting(err) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}
