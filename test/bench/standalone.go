package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/kit/pgtest"
)

// standalone is a control plane in a process of its own.
type standalone struct {
	kubeconfig string
	metrics    string // address of its metrics and profiles
	ready      time.Duration
	postmaster int // of the PostgreSQL that was started; 0 is none
	cmd        *exec.Cmd
	cleanup    []func()
}

// startStandalone makes a database and starts the binary on it.
func startStandalone(ctx context.Context, binary, databaseURL string, nodes int) (*standalone, error) {
	s := &standalone{}
	dir, err := os.MkdirTemp("", "howdah-bench")
	if err != nil {
		return nil, err
	}
	s.cleanup = append(s.cleanup, func() { _ = os.RemoveAll(dir) })
	if databaseURL == "" {
		server, err := pgtest.Launch(ctx, pgtest.Config{TCP: true, Fsync: true})
		if err != nil {
			s.stop()
			return nil, err
		}
		s.cleanup = append(s.cleanup, server.Close)
		s.postmaster = server.PID()
		databaseURL = "postgres://postgres@" + server.Address() + "/postgres?sslmode=disable"
	}
	database, err := freshDatabase(ctx, databaseURL)
	if err != nil {
		s.stop()
		return nil, err
	}
	address, err := freeAddress()
	if err != nil {
		s.stop()
		return nil, err
	}
	if s.metrics, err = freeAddress(); err != nil {
		s.stop()
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		s.stop()
		return nil, err
	}
	start := time.Now()
	s.cmd = exec.CommandContext(ctx, binary, "standalone", "--database-url", database, "--listen", address, "--metrics-listen", s.metrics,
		"--dir", filepath.Join(dir, "keys"), "--simulate", strconv.Itoa(nodes), "--log-level", "warn")
	s.cmd.Stderr = log
	s.cmd.Cancel = func() error { return s.cmd.Process.Signal(syscall.SIGTERM) }
	if err := s.cmd.Start(); err != nil {
		s.stop()
		return nil, err
	}
	s.kubeconfig = filepath.Join(dir, "keys", "admin", "kubeconfig")
	if err := awaitReady(ctx, "https://"+address+"/readyz"); err != nil {
		said, _ := os.ReadFile(log.Name())
		s.stop()
		return nil, fmt.Errorf("%w; it said:\n%s", err, said)
	}
	s.ready = time.Since(start)
	return s, nil
}

func (s *standalone) stop() {
	if s.cmd != nil && s.cmd.Process != nil {
		_ = s.cmd.Process.Signal(syscall.SIGTERM)
		_ = s.cmd.Wait()
	}
	for i := len(s.cleanup) - 1; i >= 0; i-- {
		s.cleanup[i]()
	}
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

func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer listener.Close()
	return listener.Addr().String(), nil
}

func awaitReady(ctx context.Context, url string) error {
	// The certificate is made by the process that is being awaited; what it
	// answers is not trusted with anything.
	client := &http.Client{Timeout: time.Second, Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	deadline := time.Now().Add(30 * time.Second)
	for time.Now().Before(deadline) && ctx.Err() == nil {
		response, err := client.Get(url)
		if err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK || response.StatusCode == http.StatusUnauthorized {
				return nil
			}
		}
		time.Sleep(2 * time.Millisecond)
	}
	return errors.New("the standalone did not become ready within 30 s")
}

// idle measures memory and CPU of the process while nothing is asked of it.
func (s *standalone) idle(ctx context.Context, b *bench, nodes int) error {
	const period = 20 * time.Second
	select {
	case <-time.After(10 * time.Second): // until the nodes have registered
	case <-ctx.Done():
		return ctx.Err()
	}
	before, err := cpuSeconds(s.cmd.Process.Pid)
	if err != nil {
		return err
	}
	select {
	case <-time.After(period):
	case <-ctx.Done():
		return ctx.Err()
	}
	after, err := cpuSeconds(s.cmd.Process.Pid)
	if err != nil {
		return err
	}
	mib, err := residentMiB(s.cmd.Process.Pid)
	if err != nil {
		return err
	}
	b.report(figure{
		Scenario: "idle standalone with simulated nodes", Count: nodes, MiB: mib,
		CPU: 100 * (after - before) / period.Seconds(), Note: "all roles and the simulated nodes in one process, without PostgreSQL",
	})
	return nil
}

// cpuSeconds reads what a process has used, from proc(5).
func cpuSeconds(pid int) (float64, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	user, err1 := strconv.ParseFloat(fields[11], 64)
	system, err2 := strconv.ParseFloat(fields[12], 64)
	const ticks = 100 // USER_HZ on Linux
	return (user + system) / ticks, errors.Join(err1, err2)
}

func residentMiB(pid int) (float64, error) {
	statm, err := os.ReadFile(fmt.Sprintf("/proc/%d/statm", pid))
	if err != nil {
		return 0, err
	}
	pages, err := strconv.ParseFloat(strings.Fields(string(statm))[1], 64)
	return pages * float64(os.Getpagesize()) / (1 << 20), err
}
