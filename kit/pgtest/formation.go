package pgtest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	// members is the least with which the loss of any one leaves a primary with a synchronous replica.
	members = 3
	// formationPatience bounds the making of a formation, and each of its changes.
	formationPatience = 4 * time.Minute
)

var errNoAutoFailover = errors.New("no pg_autoctl in PATH, or no extension pgautofailover: hack/install.sh --test installs pg_auto_failover")

// monitorSettings make the monitor quick, but not as quick as docs/high-availability.md has it: on a busy machine all are slow.
const monitorSettings = `
pgautofailover.health_check_period = 1000
pgautofailover.health_check_timeout = 5000
pgautofailover.health_check_retry_delay = 1000
pgautofailover.node_considered_unhealthy_timeout = 8000
pgautofailover.primary_demote_timeout = 5000
pgautofailover.startup_grace_period = 5000
`

// memberSettings go over those that pg_auto_failover computes from the machine. pg_rewind wants full pages.
const memberSettings = `
shared_buffers = '64MB'
work_mem = '4MB'
maintenance_work_mem = '64MB'
wal_keep_size = '256MB'
wal_sender_timeout = '5s'
wal_receiver_timeout = '5s'
autovacuum_naptime = '5s'
`

// Formation is three servers of pg_auto_failover, a primary and two replicas one of whom takes its place by itself, and the monitor that decides on it.
type Formation struct {
	base    *Server // finds the binaries, owns the folder and has it removed
	monitor *Member
	Members []*Member
}

// StartFormation runs a formation until the test ends. It fails the test where pg_auto_failover is not installed.
func StartFormation(t testing.TB) *Formation {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), formationPatience)
	defer cancel()
	bin, err := findBinaries()
	check(t, err)
	check(t, autoFailoverInstalled(bin))
	f := &Formation{base: &Server{bin: bin}}
	f.base.dir, err = os.MkdirTemp("", "pgtest-")
	check(t, err)
	t.Cleanup(func() { os.RemoveAll(f.base.dir) })
	check(t, f.base.claim())
	t.Cleanup(f.close)
	if err := f.make(ctx); err != nil {
		t.Fatalf("pgtest: make a formation: %v%s", err, f.logs())
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the formation's logs:%s", f.logs())
		}
	})
	return f
}

func autoFailoverInstalled(bin string) error {
	_, inPath := lookPath("pg_autoctl")
	version := filepath.Base(filepath.Dir(bin))
	if _, err := os.Stat("/usr/share/postgresql/" + version + "/extension/pgautofailover.control"); err != nil || !inPath {
		return errNoAutoFailover
	}
	return nil
}

func (f *Formation) close() {
	for _, m := range append(f.Members, f.monitor) {
		if m != nil {
			m.Kill9()
		}
	}
	f.base.watcher.Close()
	os.RemoveAll(f.base.dir)
}

func (f *Formation) make(ctx context.Context) error {
	var err error
	if f.monitor, err = f.newMember("monitor"); err != nil {
		return err
	}
	for i := range members {
		m, err := f.newMember(fmt.Sprintf("server%d", i+1))
		if err != nil {
			return err
		}
		f.Members = append(f.Members, m)
	}
	for m, settings := range map[*Member]string{f.monitor: monitorSettings, f.Members[0]: memberSettings} {
		if err := m.initialize(ctx, settings); err != nil {
			return err
		}
	}
	// A server that is a copy of the first already needs no base backup, which would wait for the disk.
	for _, m := range f.Members[1:] {
		copied := f.base.command(ctx, "cp", "-a", f.Members[0].data(), m.data())
		copied.Path, _ = lookPath("cp")
		if out, err := copied.CombinedOutput(); err != nil {
			return fmt.Errorf("copy: %w: %s", err, out)
		}
	}
	if err := f.monitor.create(ctx, "monitor"); err != nil {
		return err
	}
	if err := f.await(ctx, "the monitor to answer", func(ctx context.Context) (bool, error) {
		_, err := f.states(ctx)
		return err == nil, nil
	}); err != nil {
		return err
	}
	for i, m := range f.Members {
		if err := m.create(ctx, "postgres", "--name", m.name, "--dbname=howdah", "--username=howdah", "--monitor", f.monitorURL("autoctl_node")); err != nil {
			return err
		}
		if i == 0 {
			if err := f.await(ctx, "the first server", func(ctx context.Context) (bool, error) {
				states, err := f.states(ctx)
				return states[m.name] == "single", err
			}); err != nil {
				return err
			}
		}
	}
	if err := f.AwaitSettled(ctx); err != nil {
		return err
	}
	for _, m := range append(f.Members, f.monitor) {
		if err := m.keepConfiguration(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (f *Formation) newMember(name string) (*Member, error) {
	port, err := freePort()
	return &Member{formation: f, name: name, port: port}, err
}

func (f *Formation) monitorURL(user string) string {
	return fmt.Sprintf("postgres://%s@127.0.0.1:%d/pg_auto_failover?sslmode=disable", user, f.monitor.port)
}

// URL names the database howdah on all servers, for its owner.
func (f *Formation) URL() string {
	var hosts []string
	for _, m := range f.Members {
		hosts = append(hosts, m.Address())
	}
	return "postgres://howdah@" + strings.Join(hosts, ",") + "/howdah?sslmode=disable"
}

// Primary answers which server the monitor has as the primary.
func (f *Formation) Primary(ctx context.Context) (*Member, error) {
	states, err := f.states(ctx)
	if err != nil {
		return nil, err
	}
	for _, m := range f.Members {
		if states[m.name] == "primary" || states[m.name] == "wait_primary" {
			return m, nil
		}
	}
	return nil, fmt.Errorf("there is no primary: %v", states)
}

// AwaitSettled returns when there is a primary and all others follow it.
func (f *Formation) AwaitSettled(ctx context.Context) error {
	return f.await(ctx, "a primary with two replicas", func(ctx context.Context) (bool, error) {
		states, err := f.states(ctx)
		primaries, secondaries := 0, 0
		for _, state := range states {
			switch state {
			case "primary":
				primaries++
			case "secondary":
				secondaries++
			}
		}
		return primaries == 1 && secondaries == members-1, err
	})
}

// states answers the servers' states by name, empty for those that are changing theirs.
func (f *Formation) states(ctx context.Context) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	conn, err := pgx.Connect(ctx, f.monitorURL("postgres"))
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	rows, err := conn.Query(ctx, "SELECT nodename, CASE WHEN reportedstate = goalstate THEN goalstate::text ELSE '' END FROM pgautofailover.node")
	if err != nil {
		return nil, err
	}
	states := map[string]string{}
	var name, state string
	_, err = pgx.ForEachRow(rows, []any{&name, &state}, func() error {
		states[name] = state
		return nil
	})
	return states, err
}

func (f *Formation) await(ctx context.Context, what string, done func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, formationPatience)
	defer cancel()
	for {
		ready, err := done(ctx)
		if ready && err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			states, _ := f.states(context.WithoutCancel(ctx))
			return fmt.Errorf("wait for %s: %w, %v; the states are %v", what, ctx.Err(), err, states)
		case <-time.After(10 * askEvery): // it offers no event to wait for
		}
	}
}

// logs are the ends of what the processes wrote.
func (f *Formation) logs() string {
	var all strings.Builder
	for _, m := range append([]*Member{f.monitor}, f.Members...) {
		if m == nil {
			continue
		}
		text, _ := os.ReadFile(m.logFile())
		fmt.Fprintf(&all, "\n--- %s\n%s", m.name, text[max(0, len(text)-3000):])
	}
	return all.String()
}
