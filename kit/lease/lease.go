// Package lease lets one process at a time lead a role.
//
// A leader holds a PostgreSQL session lock and an epoch, which grows with every change of leadership. It sends the
// epoch along with its writes; the store refuses those of an epoch that has passed (howdah.lead takes over
// under the writers' lock). So safety never rests on time. Time only decides how soon another takes over:
//
//   - a leader that dies, or stops, gives its session up, and a standby that asks every 0.2 s has the lock;
//   - a leader that hangs, or is cut off, is not heard by the server for 1.5 s; a standby then ends its session;
//   - a leader that gets no answer for 1.3 s, or loses its session, stops leading by itself, before it is replaced.
//
// A machine that has too much to do is no reason to replace a leader by a standby on it, nor to stop leading where nobody else would: each
// counts the time in which it ran itself. The leader learns from the next answer whether its session, and with it the lock, is still there.
//
// The leader's sign of life is the activity of its session, which PostgreSQL tracks anyway: it writes nothing.
package lease

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/kit/database"
)

const (
	askEvery    = 200 * time.Millisecond
	beatEvery   = 250 * time.Millisecond
	giveUpAfter = 1300 * time.Millisecond
	staleAfter  = 1500 * time.Millisecond
	// leastPatience is what a server that was slow to answer is given the next time.
	leastPatience = 500 * time.Millisecond
	// callTimeout bounds every other call of the server; taking over may have to wait for a batch of writes.
	callTimeout = 5 * time.Second
	// class keeps the locks of roles apart from other advisory locks.
	class = int32(0x6c656164)
)

// ErrLost is the cause of the leader's context when another may lead.
var ErrLost = errors.New("leadership lost")

// Config of a Lease.
type Config struct {
	// DatabaseURL as pgx takes it, straight to the server: a pooler in between breaks sessions up.
	DatabaseURL string
	// Role to lead, as in "scheduler".
	Role string
	// Holder names this process to people.
	Holder string
	Logger *slog.Logger
}

// Lease takes part in the election of one role.
type Lease struct {
	cfg    Config
	config *pgx.ConnConfig
	// object is the role's lock within class.
	object int32
}

// New builds a Lease. It connects to nothing before Run.
func New(cfg Config) (*Lease, error) {
	if cfg.Role == "" || cfg.Holder == "" {
		return nil, errors.New("lease: role and holder must be named")
	}
	config, err := database.Config(cfg.DatabaseURL, callTimeout)
	if err != nil {
		return nil, fmt.Errorf("lease: database URL: %w", err)
	}
	config.RuntimeParams["application_name"] = "howdah-lease " + cfg.Role
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	return &Lease{cfg: cfg, config: config, object: lockOf(cfg.Role)}, nil
}

// lockOf is the lock of a role within class.
func lockOf(role string) int32 {
	sum := fnv.New32a()
	sum.Write([]byte(role))
	return int32(sum.Sum32())
}

// Run waits until this process leads and then calls lead. When leadership is lost, lead's context ends, and once lead has
// returned Run waits for leadership again. It returns lead's result when lead ends by itself, and ctx's error when ctx ends.
// While the database is away it keeps trying.
func (l *Lease) Run(ctx context.Context, lead func(ctx context.Context, epoch int64) error) error {
	pause := askEvery
	for {
		ended, err := l.term(ctx, lead)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if ended {
			return err
		}
		l.cfg.Logger.WarnContext(ctx, "no leadership session", "role", l.cfg.Role, "holder", l.cfg.Holder, "err", err)
		if errors.Is(err, ErrLost) {
			pause = askEvery
		}
		if err := wait(ctx, pause); err != nil {
			return err
		}
		pause = min(2*pause, time.Second)
	}
}

// term lives one session: campaigns, leads, releases. It answers whether lead ended by itself, and with what.
func (l *Lease) term(ctx context.Context, lead func(context.Context, int64) error) (ended bool, err error) {
	s, err := l.open(ctx)
	if err != nil {
		return false, err
	}
	defer s.close()
	epoch, err := s.campaign(ctx)
	if err != nil {
		return false, err
	}
	l.cfg.Logger.InfoContext(ctx, "leading", "role", l.cfg.Role, "holder", l.cfg.Holder, "epoch", epoch)
	leading, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	beating := make(chan struct{})
	go func() {
		defer close(beating)
		stop(s.beat(leading))
	}()
	err = lead(leading, epoch)
	// Only lead's own end ends Run; if the session was lost meanwhile, its result is that of the interruption.
	lost := context.Cause(leading)
	stop(nil)
	<-beating
	if lost != nil && ctx.Err() == nil {
		return false, lost
	}
	return true, err
}

func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
