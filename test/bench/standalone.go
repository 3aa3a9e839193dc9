package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/kit/pgtest"
	"howdah.dev/test/internal/standalone"
)

// startStandalone makes a database and starts the binary on it, with secrets encrypted by the cipher, if there is one.
func startStandalone(ctx context.Context, binary, databaseURL string, nodes int, cipher string) (_ *target, err error) {
	t := &target{system: howdahSystem, nodes: nodes, note: "all roles and the simulated nodes in one process, without PostgreSQL"}
	defer func() {
		if err != nil {
			t.stop()
		}
	}()
	dir, err := os.MkdirTemp("", "howdah-bench")
	if err != nil {
		return nil, err
	}
	t.cleanup = append(t.cleanup, func() { _ = os.RemoveAll(dir) })
	if databaseURL == "" {
		server, err := pgtest.Launch(ctx, pgtest.Config{TCP: true, Fsync: true})
		if err != nil {
			return nil, err
		}
		t.cleanup = append(t.cleanup, server.Close)
		t.database = server.PID()
		databaseURL = "postgres://postgres@" + server.Address() + "/postgres?sslmode=disable"
	}
	database, err := freshDatabase(ctx, databaseURL)
	if err != nil {
		return nil, err
	}
	if t.metrics, err = standalone.FreeAddress(); err != nil {
		return nil, err
	}
	flags, err := encryption(dir, cipher)
	if err != nil {
		return nil, err
	}
	process, err := standalone.New(binary, dir, database, append(flags, "--metrics-listen", t.metrics, "--simulate", strconv.Itoa(nodes))...)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	if err := process.Start(ctx); err != nil {
		return nil, err
	}
	t.ready = time.Since(start)
	t.cleanup = append(t.cleanup, process.Stop)
	t.kubeconfig, t.server = process.Kubeconfig(), process.PID()
	return t, nil
}

func freshDatabase(ctx context.Context, url string) (string, error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return "", err
	}
	defer conn.Close(ctx)
	name := fmt.Sprintf("bench_%d", time.Now().UnixNano())
	if _, err := conn.Exec(ctx, "CREATE DATABASE "+name); err != nil {
		return "", err
	}
	config := conn.Config()
	return fmt.Sprintf("postgres://%s:%s@%s:%d/%s?sslmode=disable", config.User, config.Password, config.Host, config.Port, name), nil
}

// idle measures memory and CPU of the process while nothing is asked of it.
func idle(ctx context.Context, b *bench) error {
	if b.target == nil || b.target.kubernetes() {
		return nil // services reports that of a cluster
	}
	const settled, period = 10 * time.Second, 20 * time.Second // until the nodes have registered
	if err := pause(ctx, settled); err != nil {
		return err
	}
	before, err := cpuSeconds(b.target.server)
	if err != nil {
		return err
	}
	if err := pause(ctx, period); err != nil {
		return err
	}
	after, err := cpuSeconds(b.target.server)
	if err != nil {
		return err
	}
	mib, err := residentMiB(b.target.server)
	if err != nil {
		return err
	}
	b.report(figure{
		Scenario: "idle standalone with simulated nodes", Count: b.target.nodes, MiB: mib,
		CPU: 100 * (after - before) / period.Seconds(), Note: b.target.note,
	})
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
