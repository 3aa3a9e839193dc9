// Package database opens connections to howdah's PostgreSQL: one server, or a primary with those that take its place when it is gone.
package database

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	// patience is how long Connect waits.
	patience = 10 * time.Second
	// dialPatience bounds the first step of a connection where another server can be tried: machines that are gone do not answer at all.
	dialPatience = time.Second
	keepAlive    = 10 * time.Second
)

// Config parses a database URL for connections that are given up after the timeout.
//
// The URL may name several hosts (postgres://user@one,two/howdah). They are tried in their order, each for its share of the timeout, until one
// takes writes. A replica is passed over, whatever the URL's target_session_attrs: all of howdah's work is the primary's. So is a primary that cannot
// have a commit replicated where replication is synchronous: another may have taken its place.
func Config(databaseURL string, timeout time.Duration) (*pgx.ConnConfig, error) {
	config, err := pgx.ParseConfig(databaseURL)
	if err != nil {
		return nil, err
	}
	prepare(&config.Config, timeout)
	return config, nil
}

// PoolConfig is Config for a pool of connections. Each is made with what the files that the URL names say then, as Fresh does it.
func PoolConfig(databaseURL string, timeout time.Duration) (*pgxpool.Config, error) {
	config, err := pgxpool.ParseConfig(databaseURL)
	if err != nil {
		return nil, err
	}
	prepare(&config.ConnConfig.Config, timeout)
	config.BeforeConnect = func(ctx context.Context, of *pgx.ConnConfig) error {
		refresh(ctx, of)
		return nil
	}
	return config, nil
}

// Connect opens one connection.
func Connect(ctx context.Context, databaseURL string) (*pgx.Conn, error) {
	config, err := Config(databaseURL, patience)
	if err != nil {
		return nil, fmt.Errorf("database URL: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return pgx.ConnectConfig(ctx, config)
}

func prepare(config *pgconn.Config, timeout time.Duration) {
	hosts := hostsOf(config)
	share := timeout / time.Duration(len(hosts))
	config.ConnectTimeout = share
	dialer := net.Dialer{Timeout: share, KeepAlive: keepAlive}
	if len(hosts) > 1 {
		dialer.Timeout = min(share, dialPatience)
		config.LookupFunc = lookUpWithin(dialer.Timeout)
		config.ValidateConnect = isPrimary
	}
	config.DialFunc = dialer.DialContext
	config.OnNotice = noteUnreplicated
}

// Several reports whether a configuration names several servers.
func Several(config *pgconn.Config) bool { return len(hostsOf(config)) > 1 }

// hostsOf returns the hosts that a configuration names. One host may stand there twice, with and without TLS.
func hostsOf(config *pgconn.Config) map[string]bool {
	hosts := map[string]bool{address(config.Host, config.Port): true}
	for _, other := range config.Fallbacks {
		hosts[address(other.Host, other.Port)] = true
	}
	return hosts
}

func address(host string, port uint16) string { return net.JoinHostPort(host, fmt.Sprint(port)) }

// lookUpWithin bounds how long the name of one host may keep the others from being tried.
func lookUpWithin(timeout time.Duration) pgconn.LookupFunc {
	return func(ctx context.Context, host string) ([]string, error) {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		return net.DefaultResolver.LookupHost(ctx, host)
	}
}
