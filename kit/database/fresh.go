package database

import (
	"context"
	"log/slog"

	"github.com/jackc/pgx/v5"
)

// Fresh copies a configuration for the next connection, with the certificate, the key and the authorities as their files have them now: they are
// replaced while a process runs, and a configuration has them from when it was parsed. While they cannot be read, what the configuration has counts.
func Fresh(ctx context.Context, config *pgx.ConnConfig) *pgx.ConnConfig {
	fresh := config.Copy()
	refresh(ctx, fresh)
	return fresh
}

func refresh(ctx context.Context, config *pgx.ConnConfig) {
	again, err := pgx.ParseConfig(config.ConnString())
	if err != nil {
		slog.WarnContext(ctx, "the files that the database URL names cannot be read; what they said before counts", "err", err)
		return
	}
	config.TLSConfig = again.TLSConfig
	for i := range min(len(config.Fallbacks), len(again.Fallbacks)) {
		config.Fallbacks[i].TLSConfig = again.Fallbacks[i].TLSConfig
	}
}
