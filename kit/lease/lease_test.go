package lease_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/kit/lease"
	"howdah.dev/kit/pgtest"
	"howdah.dev/kit/pgtest/proxy"
)

// schema is what the package needs of the store's migrations, which another module owns.
func schema(ctx context.Context, url string) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, `
CREATE SCHEMA howdah;
CREATE TABLE howdah.leadership (role text PRIMARY KEY, epoch bigint, holder text);
CREATE FUNCTION howdah.lead(role text, holder text) RETURNS bigint LANGUAGE sql AS $$
    INSERT INTO howdah.leadership AS l VALUES ($1, 1, $2)
    ON CONFLICT ON CONSTRAINT leadership_pkey DO UPDATE SET epoch = l.epoch + 1, holder = excluded.holder RETURNING epoch
$$`)
	return err
}

func database(t *testing.T) string {
	return pgtest.New(t, pgtest.Template{Name: "lease", Setup: schema})
}

// candidate runs a lease in the test's process.
type candidate struct {
	epochs chan int64 // begins of leading
	lost   chan error // causes of its ends
	stop   context.CancelFunc
	ended  chan error
}

func stand(t *testing.T, url, holder string) *candidate {
	t.Helper()
	l, err := lease.New(lease.Config{DatabaseURL: url, Role: "scheduler", Holder: holder})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &candidate{epochs: make(chan int64, 100), lost: make(chan error, 100), stop: cancel, ended: make(chan error, 1)}
	go func() {
		c.ended <- l.Run(ctx, func(ctx context.Context, epoch int64) error {
			c.epochs <- epoch
			<-ctx.Done()
			c.lost <- context.Cause(ctx)
			return ctx.Err()
		})
	}()
	t.Cleanup(func() { cancel(); <-c.ended })
	return c
}

func receive[T any](t *testing.T, c <-chan T, within time.Duration, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(within):
		t.Fatalf("not within %v: %s", within, what)
		panic("unreachable")
	}
}

func TestStandbyFollowsLeaderThatStops(t *testing.T) {
	t.Parallel()
	url := database(t)
	first := stand(t, url, "first")
	if epoch := receive(t, first.epochs, time.Minute, "first leads"); epoch != 1 {
		t.Errorf("first epoch = %d, want 1", epoch)
	}
	second := stand(t, url, "second")
	select {
	case <-second.epochs:
		t.Fatal("two leaders")
	case <-time.After(2 * time.Second): // longer than any leader may stay silent
	}
	first.stop()
	if epoch := receive(t, second.epochs, time.Minute, "second leads"); epoch != 2 {
		t.Errorf("second epoch = %d, want 2", epoch)
	}
}

func TestLeaderNoticesThatItsSessionWasEnded(t *testing.T) {
	t.Parallel()
	url := database(t)
	leader := stand(t, url, "only")
	receive(t, leader.epochs, time.Minute, "it leads")
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"); err != nil {
		t.Fatal(err)
	}
	if cause := receive(t, leader.lost, time.Minute, "its context ends"); !errors.Is(cause, lease.ErrLost) {
		t.Errorf("cause = %v, want ErrLost", cause)
	}
	if epoch := receive(t, leader.epochs, time.Minute, "it leads again"); epoch != 2 {
		t.Errorf("epoch = %d, want 2", epoch)
	}
}

func TestLeaderCutOffStopsBeforeStandbyLeads(t *testing.T) {
	t.Parallel()
	server := pgtest.Start(t, pgtest.Config{TCP: true})
	if err := schema(t.Context(), server.URL()); err != nil {
		t.Fatal(err)
	}
	network := proxy.Start(t, server.Address())
	first := stand(t, fmt.Sprintf("postgres://postgres@%s/postgres?sslmode=disable", network.Address()), "first")
	receive(t, first.epochs, time.Minute, "first leads")
	second := stand(t, server.URL(), "second")
	network.Freeze()
	cut := time.Now()
	epoch := receive(t, second.epochs, time.Minute, "second leads")
	t.Logf("failover after %v", time.Since(cut))
	if epoch != 2 {
		t.Errorf("epoch = %d, want 2", epoch)
	}
	select {
	case <-first.lost:
	default:
		t.Error("second leads while first still thinks that it does")
	}
}

// TestMain doubles as the process that TestStoppedProcessIsReplaced stops.
func TestMain(m *testing.M) {
	if url := os.Getenv("LEASE_TEST_URL"); url != "" {
		l, err := lease.New(lease.Config{DatabaseURL: url, Role: "scheduler", Holder: "child"})
		if err == nil {
			err = l.Run(context.Background(), func(ctx context.Context, epoch int64) error {
				fmt.Println("leading", epoch)
				<-ctx.Done()
				fmt.Println("lost")
				return ctx.Err()
			})
		}
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func TestStoppedProcessIsReplaced(t *testing.T) {
	t.Parallel()
	for _, signal := range []string{"STOP", "KILL"} {
		t.Run(signal, func(t *testing.T) {
			t.Parallel()
			url := database(t)
			leader := startLeader(t, url)
			standby := stand(t, url, "standby")
			if err := leader.Signal(signals[signal]); err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			if epoch := receive(t, standby.epochs, time.Minute, "standby leads"); epoch != 2 {
				t.Errorf("epoch = %d, want 2", epoch)
			}
			t.Logf("failover after %v", time.Since(begin))
		})
	}
}

// TestStoppedLeaderGoesOn stops a leader that has no standby for longer than a standby would wait: it leads on when it runs again.
func TestStoppedLeaderGoesOn(t *testing.T) {
	t.Parallel()
	url := database(t)
	leader := startLeader(t, url)
	for range 3 { // stopped in the middle of a beat as well as between two
		if err := leader.Signal(signals["STOP"]); err != nil {
			t.Fatal(err)
		}
		awaitLed(t, url, lease.ErrNoLeader)
		if err := leader.Signal(signals["CONT"]); err != nil {
			t.Fatal(err)
		}
		awaitLed(t, url, nil)
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	var epoch int64
	if err := conn.QueryRow(t.Context(), "SELECT epoch FROM howdah.leadership").Scan(&epoch); err != nil {
		t.Fatal(err)
	}
	if epoch != 1 {
		t.Errorf("epoch = %d, want 1: it was elected again", epoch)
	}
}

// startLeader runs a process that leads until the test ends.
func startLeader(t *testing.T, url string) *os.Process {
	t.Helper()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), "LEASE_TEST_URL="+url)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { child.Process.Kill(); child.Wait() })
	var epoch int64
	if _, err := fmt.Fscanf(out, "leading %d\n", &epoch); err != nil || epoch != 1 {
		t.Fatalf("child leads epoch %d, %v", epoch, err)
	}
	return child.Process
}
