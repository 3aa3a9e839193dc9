package database

import (
	"context"
	"crypto/tls"
	"log/slog"

	"github.com/jackc/pgx/v5"
)

// Fresh copies a configuration for the next connection, with the authorities as their files have them now: they are replaced while a process runs,
// and a configuration has them from when it was parsed. While they cannot be read, what the configuration has counts. The certificate and its key
// are read by pgx whenever a server asks for them.
func Fresh(ctx context.Context, config *pgx.ConnConfig) *pgx.ConnConfig {
	fresh := config.Copy()
	refresh(ctx, fresh)
	return fresh
}

func refresh(ctx context.Context, config *pgx.ConnConfig) {
	again, err := pgx.ParseConfig(config.ConnString())
	if err != nil {
		slog.WarnContext(ctx, "the files that the database URL names cannot be read; the authorities that they had before count", "err", err)
		return
	}
	trust(config.TLSConfig, again.TLSConfig)
	for i := range min(len(config.Fallbacks), len(again.Fallbacks)) {
		trust(config.Fallbacks[i].TLSConfig, again.Fallbacks[i].TLSConfig)
	}
}

// trust has one configuration of TLS trust whom another does. It stays the same configuration: pgx knows by it which certificate to present.
func trust(config, as *tls.Config) {
	if config == nil || as == nil {
		return
	}
	config.RootCAs, config.VerifyPeerCertificate = as.RootCAs, as.VerifyPeerCertificate
}
