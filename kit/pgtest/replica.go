package pgtest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	replicaPatience = time.Minute
	askEvery        = 10 * time.Millisecond
)

// Replica runs a copy of the server that follows it until the test ends. From its return on, the server acknowledges a commit only when the replica has it, too.
func (s *Server) Replica(t testing.TB) *Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), replicaPatience)
	defer cancel()
	r := &Server{config: s.config, bin: s.bin, port: s.port}
	var err error
	r.dir, err = os.MkdirTemp("", "pgtest-")
	check(t, err)
	t.Cleanup(func() { os.RemoveAll(r.dir) })
	check(t, r.claim())
	t.Cleanup(r.Close)
	check(t, r.follow(ctx, s))
	check(t, s.awaitReplica(ctx))
	return r
}

// Promote makes a replica a primary of its own.
func (s *Server) Promote(ctx context.Context) error {
	return s.exec(ctx, fmt.Sprintf("SELECT pg_promote(true, %d)", int(replicaPatience.Seconds())))
}

// follow copies the primary and starts the copy.
func (s *Server) follow(ctx context.Context, primary *Server) error {
	copied := s.command(ctx, "pg_basebackup", "--pgdata", s.data(), "--host", primary.dir, "--port", fmt.Sprint(primary.port),
		"--username=postgres", "--checkpoint=fast", "--no-sync", "--wal-method=stream")
	if out, err := copied.CombinedOutput(); err != nil {
		return fmt.Errorf("pg_basebackup: %w: %s", err, out)
	}
	if err := s.settle(); err != nil {
		return err
	}
	origin := fmt.Sprintf("primary_conninfo = 'host=%s port=%d user=postgres'\n", primary.dir, primary.port)
	for name, text := range map[string]string{"postgresql.auto.conf": s.configuration() + origin, "standby.signal": ""} {
		if err := os.WriteFile(filepath.Join(s.data(), name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return s.launch(ctx)
}

// awaitReplica makes the server wait for its replica at each commit, and returns once it does.
func (s *Server) awaitReplica(ctx context.Context) error {
	for _, sql := range []string{"ALTER SYSTEM SET synchronous_standby_names = '*'", "SELECT pg_reload_conf()"} {
		if err := s.exec(ctx, sql); err != nil {
			return err
		}
	}
	conn, err := pgx.Connect(ctx, s.URL())
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	for {
		var following bool
		if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync')").Scan(&following); err != nil || following {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the replica does not follow: %w", ctx.Err())
		case <-time.After(askEvery): // it offers no event to wait for
		}
	}
}
