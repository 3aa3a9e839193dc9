package pgtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"time"
)

// Member is a server of a formation, or its monitor: PostgreSQL, and pg_autoctl that keeps it. Faults hit both, as when a machine fails.
type Member struct {
	formation *Formation
	name      string
	port      int

	mu      sync.Mutex
	process *exec.Cmd // nil where none runs
	exited  chan struct{}
	ended   chan struct{} // closed once it is not to be run again
	stopped []int         // processes that Freeze stopped
}

// restartAfter is the pause before a pg_autoctl that ended by itself is run again.
const restartAfter = time.Second

// Address is the server's host:port.
func (m *Member) Address() string { return fmt.Sprintf("127.0.0.1:%d", m.port) }

// URL names the database howdah on this server alone, for its owner.
func (m *Member) URL() string {
	return fmt.Sprintf("postgres://howdah@%s/howdah?sslmode=disable", m.Address())
}

// Kill9 kills all processes of the member with SIGKILL and returns when they are gone.
func (m *Member) Kill9() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended == nil {
		return // it has never run, or was killed before
	}
	close(m.ended)
	m.ended = nil
	all := m.halt()
	if len(all) == 0 {
		return
	}
	for _, pid := range all {
		syscall.Kill(pid, syscall.SIGKILL)
	}
	<-m.exited
	for _, pid := range all[1:] {
		for syscall.Kill(pid, 0) == nil && (isNamed(pid, "postgres") || isNamed(pid, "pg_autoctl")) {
			time.Sleep(time.Millisecond) // not our child: its end cannot be awaited
		}
	}
	m.process, m.stopped = nil, nil
}

// Freeze stops all processes of the member: connections to it stay open, and are silent.
func (m *Member) Freeze() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stopped = m.halt()
}

// Thaw lets the member go on where it was.
func (m *Member) Thaw() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, pid := range m.stopped {
		syscall.Kill(pid, syscall.SIGCONT)
	}
	m.stopped = nil
}

// Start runs the member again after Kill9.
func (m *Member) Start(ctx context.Context) error {
	return m.launch(ctx, "run", "--pgdata", m.data())
}

// TearConfiguration empties what pg_autoctl knows of itself, as one does that is killed while it writes it. The member must not run.
func (m *Member) TearConfiguration() error { return os.Truncate(m.configuration(), 0) }

// halt stops the member's processes, the parents first, so that none is made while it looks.
func (m *Member) halt() (all []int) {
	if m.process == nil {
		return nil
	}
	next := []int{m.process.Process.Pid}
	for len(next) > 0 {
		pid := next[0]
		syscall.Kill(pid, syscall.SIGSTOP)
		all = append(all, pid)
		next = slices.Concat(next[1:], children(pid))
	}
	return all
}

func (m *Member) data() string    { return filepath.Join(m.formation.base.dir, m.name) }
func (m *Member) logFile() string { return m.data() + ".log" }
func (m *Member) configuration() string {
	return filepath.Join(m.formation.base.dir, "pg_autoctl", m.data(), "pg_autoctl.cfg")
}

// initialize makes an empty cluster with settings over those that pg_auto_failover will put in front of them.
func (m *Member) initialize(ctx context.Context, settings string) error {
	base := m.formation.base
	initdb := base.command(ctx, "initdb", "--pgdata", m.data(), "--auth=trust", "--username=postgres", "--no-sync",
		"--encoding=UTF8", "--locale=C", "--no-instructions")
	if out, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w: %s", err, out)
	}
	file, err := os.OpenFile(filepath.Join(m.data(), "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	_, err = fmt.Fprintf(file, "unix_socket_directories = '%s'\nlisten_addresses = '127.0.0.1'\nlogging_collector = off\nfsync = off\n%s", base.dir, settings)
	return err
}

// create registers the member, as a monitor or as a server, and runs it.
func (m *Member) create(ctx context.Context, kind string, args ...string) error {
	common := []string{"create", kind, "--pgdata", m.data(), "--pgctl", filepath.Join(m.formation.base.bin, "pg_ctl"),
		"--pgport", fmt.Sprint(m.port), "--hostname=127.0.0.1", "--auth=trust", "--no-ssl", "--run"}
	if kind == "postgres" {
		common = append(common, "--pghost", m.formation.base.dir, "--listen=127.0.0.1")
	}
	return m.launch(ctx, slices.Concat(common, args)...)
}

// launch runs pg_autoctl until Kill9, anew where it ends by itself, as whatever supervises it does in production.
func (m *Member) launch(ctx context.Context, args ...string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ended = make(chan struct{})
	return m.run(context.WithoutCancel(ctx), args)
}

// keepConfiguration runs what an installation runs before pg_autoctl: it keeps a copy of the configuration, or puts it in the place of a torn one.
func (m *Member) keepConfiguration(ctx context.Context) error {
	_, here, _, _ := runtime.Caller(0)
	script, err := os.ReadFile(filepath.Join(filepath.Dir(here), "../../deploy/images/postgres/keep-configuration"))
	if err != nil {
		return err
	}
	keep := m.formation.base.command(ctx, "sh", "-c", string(script), "keep-configuration", m.configuration())
	keep.Path, _ = lookPath("sh")
	out, err := keep.CombinedOutput()
	if err != nil {
		return fmt.Errorf("keep the configuration: %w: %s", err, out)
	}
	m.note(string(out))
	return nil
}

// run starts pg_autoctl. It is called with the lock.
func (m *Member) run(ctx context.Context, args []string) error {
	if err := m.keepConfiguration(ctx); err != nil {
		return err
	}
	base := m.formation.base
	log, err := os.OpenFile(m.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := base.command(ctx, "pg_autoctl", args...)
	path, _ := lookPath("pg_autoctl")
	cmd.Path = path
	cmd.Stdout, cmd.Stderr = log, log
	for _, name := range []string{"HOME", "XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME"} {
		cmd.Env = append(cmd.Env, name+"="+base.dir)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start pg_autoctl: %w", err)
	}
	exited := make(chan struct{})
	m.process, m.exited = cmd, exited
	go func() {
		ended := cmd.Wait()
		close(exited)
		m.rerun(ctx, cmd, ended, args)
	}()
	return nil
}

// rerun runs a pg_autoctl again that ended by itself.
func (m *Member) rerun(ctx context.Context, cmd *exec.Cmd, ended error, args []string) {
	m.mu.Lock()
	if m.process != cmd {
		m.mu.Unlock()
		return
	}
	m.process = nil
	killed := m.ended
	m.mu.Unlock()
	select {
	case <-killed:
		return
	case <-time.After(restartAfter):
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ended != killed {
		return
	}
	why := fmt.Sprintf("pgtest: pg_autoctl ended (%v) and is run again\n", ended)
	if err := m.run(ctx, args); err != nil {
		why = fmt.Sprintf("pgtest: pg_autoctl ended (%v) and is not run again: %v\n", ended, err)
	}
	m.note(why)
}

// note adds lines to the member's log.
func (m *Member) note(line string) {
	if log, err := os.OpenFile(m.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644); err == nil {
		log.WriteString(line)
		log.Close()
	}
}

func lookPath(program string) (string, bool) {
	path, err := exec.LookPath(program)
	return path, err == nil
}
