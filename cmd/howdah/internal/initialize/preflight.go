package initialize

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"time"

	"howdah.dev/cmd/howdah/internal/clusterfile"
	"howdah.dev/cmd/howdah/internal/daemon"
	"howdah.dev/cmd/howdah/internal/preflight"
	"howdah.dev/migrations"
)

const (
	// leastPostgres is the oldest release of PostgreSQL that does, and leastMemory what a control plane needs at the least.
	leastPostgres = 15
	leastMemory   = 512 << 20
	// clocksApart is by how much the database's clock may differ: certificates are good from five minutes before they are made.
	clocksApart = time.Minute
)

func preflightPhase() Phase {
	return Phase{Name: "preflight", Short: "Look whether this machine can be a control plane", Run: func(ctx context.Context, e *Env) error {
		return e.preflight(ctx, e.checks())
	}}
}

func (e *Env) preflight(ctx context.Context, checks []preflight.Check) error {
	e.say("[preflight] looking whether this machine can be a control plane")
	return preflight.Run(ctx, checks, e.Init.Machine.IgnorePreflightErrors, func(text string) { e.say("[preflight] warning: %s", text) })
}

// checks are those of the first control plane.
func (e *Env) checks() []preflight.Check {
	database := e.databaseChecks()
	return append([]preflight.Check{
		{Name: "Initialized", Run: func(context.Context) error { return e.initialized() }},
		{Name: "DatabaseEmpty", Run: func(ctx context.Context) error { return e.databaseEmpty(ctx, database.look) }},
	}, append(e.machineChecks(), database.checks...)...)
}

func (e *Env) machineChecks() []preflight.Check {
	checks := []preflight.Check{
		preflight.Privileged(e.UID),
		{Name: "Mem", Run: func(context.Context) error { return memory("/proc/meminfo") }},
		{Name: "ControlPlaneEndpoint", Run: e.resolves},
	}
	for _, port := range []int32{e.Cluster.Ports.API, e.Cluster.Ports.Nodes} {
		free := preflight.AddressFree(e.Init.LocalEndpoint.BindAddress, int(port))
		checks = append(checks, preflight.Check{Name: free.Name, Run: func(ctx context.Context) error {
			if s, err := e.Services.Status(ctx, daemon.ControlPlane); err == nil && s.Running {
				return nil // it is this control plane's: an earlier try has come so far
			}
			return free.Run(ctx)
		}})
	}
	return checks
}

func (e *Env) initialized() error {
	since, err := e.Folder.Since()
	if err != nil || since == "" {
		return err
	}
	return fmt.Errorf("this machine is a control plane since %s: howdah init phase NAME repairs a part of it, howdah reset takes it away", since)
}

// resolves looks whether the name of the control plane is known here.
func (e *Env) resolves(ctx context.Context) error {
	host, _, err := net.SplitHostPort(e.Cluster.Endpoint(e.Init.LocalEndpoint))
	if err != nil {
		return err
	}
	if _, err := net.DefaultResolver.LookupHost(ctx, host); err != nil {
		return fmt.Errorf("clients and nodes are to reach the control plane by a name that is not known: %w", err)
	}
	return nil
}

// lookOnce is a database's status, asked for once.
type lookOnce func(ctx context.Context) (migrations.Status, error)

type databaseChecks struct {
	look   lookOnce
	checks []preflight.Check
}

func (e *Env) databaseChecks() databaseChecks {
	var once sync.Once
	var status migrations.Status
	var failed error
	look := func(ctx context.Context) (migrations.Status, error) {
		once.Do(func() { status, failed = migrations.Look(ctx, e.Cluster.Database.URL) })
		return status, failed
	}
	return databaseChecks{look, []preflight.Check{
		{Name: "Database", Run: func(ctx context.Context) error {
			_, err := look(ctx)
			return err
		}},
		{Name: "DatabaseVersion", Run: afterLook(look, func(s migrations.Status) error { return postgresVersion(s.Server) })},
		{Name: "Schema", Run: afterLook(look, func(s migrations.Status) error { return s.Err })},
		{Name: "Clock", Run: afterLook(look, func(s migrations.Status) error { return clocks(e.Clock.Now(), s.Now) })},
	}}
}

// afterLook checks a status. Where there is none, the check Database says why.
func afterLook(look lookOnce, check func(migrations.Status) error) func(context.Context) error {
	return func(ctx context.Context) error {
		s, err := look(ctx)
		if err != nil {
			return nil
		}
		return check(s)
	}
}

func postgresVersion(number int) error {
	if major := number / 10000; major < leastPostgres {
		return fmt.Errorf("PostgreSQL %d is too old: %d or newer is needed", major, leastPostgres)
	}
	return nil
}

func clocks(here, there time.Time) error {
	if apart := here.Sub(there).Abs(); apart > clocksApart {
		return fmt.Errorf("this machine's clock and the database's are %s apart", apart.Round(time.Second))
	}
	return nil
}

// databaseEmpty refuses a database in which another cluster is, whose authority is not here.
func (e *Env) databaseEmpty(ctx context.Context, look lookOnce) error {
	s, err := look(ctx)
	if err != nil || !s.Objects {
		return nil
	}
	if _, err := os.Stat(filepath.Join(e.Folder.PKI(), "ca", "ca.key")); err == nil {
		return nil // it is this one's, by an earlier try
	}
	return errors.New("the database has a cluster, whose keys are not on this machine: howdah join --control-plane, or another database")
}

var memTotal = regexp.MustCompile(`(?m)^MemTotal:\s+(\d+) kB$`)

// memory checks how much there is. Swap does no harm.
func memory(file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	found := memTotal.FindSubmatch(data)
	if found == nil {
		return fmt.Errorf("%s does not say how much memory there is", file)
	}
	kilobytes, err := strconv.ParseInt(string(found[1]), 10, 64)
	if err != nil {
		return err
	}
	if kilobytes<<10 < leastMemory {
		return fmt.Errorf("%d MiB of memory are too few: %d MiB are needed", kilobytes>>10, leastMemory>>20)
	}
	return nil
}

// CheckNames are those of checks that may be ignored.
func CheckNames() []string {
	names := []string{"all"}
	e := Env{Cluster: clusterfile.ClusterConfiguration{Ports: clusterfile.Ports{API: clusterfile.APIPort, Nodes: clusterfile.NodesPort}}}
	for _, c := range e.checks() {
		names = append(names, c.Name)
	}
	return names
}
