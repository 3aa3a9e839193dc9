package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

var errNotInstalled = errors.New("no initdb in /usr/lib/postgresql/*/bin or PATH: hack/install.sh --test installs PostgreSQL")

// Config of a server.
type Config struct {
	// Fsync makes commits as durable as in production; only benchmarks need it: kill -9 loses nothing without it.
	Fsync bool
	// TCP listens on a loopback port too, for tests that put something in between.
	TCP bool
	// Settings go into postgresql.conf, over the defaults of this package.
	Settings map[string]string
}

// Server is a PostgreSQL that belongs to one test.
type Server struct {
	config  Config
	bin     string
	dir     string
	port    int
	owner   *syscall.Credential
	watcher *os.File

	mu      sync.Mutex
	process *exec.Cmd
	exited  chan struct{}
}

// Start runs a server until the test ends. It fails the test where no PostgreSQL is installed.
func Start(t testing.TB, config Config) *Server {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s, err := start(ctx, config)
	check(t, err)
	t.Cleanup(s.Close)
	return s
}

// Launch runs a server for a program that is no test; Close ends it.
func Launch(ctx context.Context, config Config) (*Server, error) { return start(ctx, config) }

// Close kills the server and removes its data.
func (s *Server) Close() {
	s.Kill9()
	s.watcher.Close()
	os.RemoveAll(s.dir)
}

// URL of the server's database "postgres".
func (s *Server) URL() string { return s.url("postgres") }

// Address is the server's host:port on the loopback, when Config.TCP is set.
func (s *Server) Address() string { return fmt.Sprintf("127.0.0.1:%d", s.port) }

// PID returns the postmaster's process id.
func (s *Server) PID() int { return s.process.Process.Pid }

// Kill9 kills every process of the server with SIGKILL and returns when they are gone.
func (s *Server) Kill9() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return
	}
	postmaster := s.process.Process.Pid
	// Stopped first, so that it forks nothing while we look.
	syscall.Kill(postmaster, syscall.SIGSTOP)
	backends := children(postmaster)
	syscall.Kill(postmaster, syscall.SIGKILL)
	for _, pid := range backends {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	<-s.exited
	for _, pid := range backends {
		for syscall.Kill(pid, 0) == nil && isPostgres(pid) {
			time.Sleep(time.Millisecond) // not our child: its end cannot be awaited
		}
	}
	s.process = nil
}

// Stop shuts the server down in order, cutting its clients off, as an operator's restart does.
func (s *Server) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return nil
	}
	if err := s.process.Process.Signal(syscall.SIGINT); err != nil {
		return fmt.Errorf("stop postgres: %w", err)
	}
	<-s.exited
	s.process = nil
	return nil
}

// Restart starts the server again after Kill9 or Stop (it stops a running one first) and returns when it takes connections.
func (s *Server) Restart(ctx context.Context) error {
	if err := s.Stop(); err != nil {
		return err
	}
	return s.launch(ctx)
}

func start(ctx context.Context, config Config) (*Server, error) {
	bin, err := findBinaries()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "pgtest-")
	if err != nil {
		return nil, err
	}
	s := &Server{config: config, bin: bin, dir: dir, port: 5432}
	if err := s.initialize(ctx); err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	if err := s.launch(ctx); err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	return s, nil
}

func (s *Server) initialize(ctx context.Context) error {
	if err := s.claim(); err != nil {
		return err
	}
	initdb := s.command(ctx, "initdb", "--pgdata", s.data(), "--auth=trust", "--username=postgres", "--no-sync",
		"--encoding=UTF8", "--locale=C", "--no-instructions")
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	if err := s.settle(); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(s.data(), "postgresql.auto.conf"), []byte(s.configuration()), 0o644)
}

// claim gives the folder to who runs the server, and has it end with this process.
func (s *Server) claim() error {
	if os.Getuid() == 0 {
		// PostgreSQL refuses to run as root.
		account, err := user.Lookup("postgres")
		if err != nil {
			return err
		}
		uid, _ := strconv.Atoi(account.Uid)
		gid, _ := strconv.Atoi(account.Gid)
		s.owner = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		if err := os.Chown(s.dir, uid, gid); err != nil {
			return err
		}
	}
	return s.watch()
}

// settle finds the server a port where it needs one of its own.
func (s *Server) settle() error {
	if !s.config.TCP {
		return nil
	}
	var err error
	s.port, err = freePort()
	return err
}

func (s *Server) configuration() string {
	settings := map[string]string{
		"unix_socket_directories": s.dir, "listen_addresses": "", "port": strconv.Itoa(s.port),
		"fsync": "off", "full_page_writes": "off", "max_connections": "200", "shared_buffers": "64MB", "max_wal_size": "1GB",
		"autovacuum_naptime": "5s", "log_checkpoints": "off", "logging_collector": "off",
	}
	if s.config.TCP {
		settings["listen_addresses"] = "127.0.0.1"
	}
	if s.config.Fsync {
		settings["fsync"], settings["full_page_writes"] = "on", "on"
	}
	for name, value := range s.config.Settings {
		settings[name] = value
	}
	var lines []string
	for name, value := range settings {
		lines = append(lines, fmt.Sprintf("%s = '%s'\n", name, strings.ReplaceAll(value, "'", "''")))
	}
	sort.Strings(lines)
	return strings.Join(lines, "")
}

// launch runs the postmaster and waits until it answers.
func (s *Server) launch(ctx context.Context) error {
	log, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := s.command(context.WithoutCancel(ctx), "postgres", "-D", s.data())
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start postgres: %w", err)
	}
	exited := make(chan struct{})
	go func() { cmd.Wait(); close(exited) }()
	s.mu.Lock()
	s.process, s.exited = cmd, exited
	s.mu.Unlock()
	for {
		attempt, cancel := context.WithTimeout(ctx, time.Second)
		conn, err := pgx.Connect(attempt, s.url("template1"))
		cancel()
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-exited:
			return fmt.Errorf("postgres ended: %w: %s", err, s.logTail())
		case <-ctx.Done():
			return fmt.Errorf("postgres does not answer: %w: %s", err, s.logTail())
		case <-time.After(5 * time.Millisecond): // it offers no event to wait for
		}
	}
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

func (s *Server) logTail() string {
	text, err := os.ReadFile(filepath.Join(s.dir, "log"))
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-2000):])
}

func (s *Server) command(ctx context.Context, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(s.bin, program), args...)
	cmd.Dir = s.dir
	cmd.Env = []string{"PATH=" + s.bin + ":/usr/bin:/bin", "LC_ALL=C", "TZ=UTC"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.owner, Setpgid: true}
	return cmd
}

// findBinaries answers the directory of the newest installed PostgreSQL.
func findBinaries() (string, error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	sort.Slice(found, func(i, j int) bool { return version(found[i]) < version(found[j]) })
	if len(found) > 0 {
		return filepath.Dir(found[len(found)-1]), nil
	}
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path), nil
	}
	return "", errNotInstalled
}

func version(initdb string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(initdb))))
	return n
}
