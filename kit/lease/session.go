package lease

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/kit/database"
)

// holderSQL finds the session that holds the role's lock.
const holderSQL = `
  FROM pg_locks l JOIN pg_stat_activity a ON a.pid = l.pid
 WHERE l.locktype = 'advisory' AND l.granted AND l.classid::bigint = $1::bigint AND l.objid::bigint = $2::bigint AND l.objsubid = 2
   AND l.database = (SELECT oid FROM pg_database WHERE datname = current_database())`

// atRest leaves out a session that is busy in the server, which is alive; one that waits for its client in the middle of a message is not.
const atRest = " AND (a.state <> 'active' OR a.wait_event_type = 'Client')"

// silenceSQL answers for how many seconds it has not been heard of; 0 where there is none.
const silenceSQL = "SELECT coalesce(max(extract(epoch FROM clock_timestamp() - a.state_change)), 0)::float8" + holderSQL + atRest

// endSQL ends it when that is $3 seconds.
const endSQL = "SELECT count(pg_terminate_backend(a.pid))" + holderSQL + atRest + " AND a.state_change < clock_timestamp() - make_interval(secs => $3)"

// session is one connection, and with it possibly the role's lock.
type session struct {
	lease  *Lease
	conn   *pgx.Conn
	leader watch
}

func (l *Lease) open(ctx context.Context) (*session, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, database.Fresh(ctx, l.config))
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return &session{lease: l, conn: conn}, nil
}

// close gives the lock back, if it is held, by ending the session.
func (s *session) close() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	s.conn.Close(ctx)
}

// campaign asks for the lock until it is given, and answers the epoch that begins.
func (s *session) campaign(ctx context.Context) (epoch int64, err error) {
	for {
		won, err := s.ask(ctx)
		if err != nil {
			return 0, fmt.Errorf("ask for the lock: %w", err)
		}
		if won {
			return s.takeOver(ctx)
		}
		if err := wait(ctx, askEvery); err != nil {
			return 0, err
		}
	}
}

func (s *session) ask(ctx context.Context) (won bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	try := func() error {
		return s.conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1, $2)", class, s.lease.object).Scan(&won)
	}
	if err := try(); err != nil || won {
		return won, err
	}
	ended, err := s.endSilent(ctx)
	if err != nil || !ended {
		return false, err
	}
	s.lease.cfg.Logger.WarnContext(ctx, "ended the session of a silent leader", "role", s.lease.cfg.Role)
	// Its server process needs a moment to go; better wait in the queue for it than ask again later.
	for range 20 {
		if err := try(); err != nil || won {
			return won, err
		}
		if err := wait(ctx, 5*time.Millisecond); err != nil {
			return false, err
		}
	}
	return false, nil
}

// endSilent ends the session of a leader that has not been heard of for too long.
func (s *session) endSilent(ctx context.Context) (ended bool, err error) {
	var seconds float64
	lock := []any{int64(class), int64(uint32(s.lease.object))}
	if err := s.conn.QueryRow(ctx, silenceSQL, lock...).Scan(&seconds); err != nil {
		return false, err
	}
	if !s.leader.see(time.Duration(seconds * float64(time.Second))) {
		return false, nil
	}
	var sessions int64
	err = s.conn.QueryRow(ctx, endSQL, append(lock, staleAfter.Seconds())...).Scan(&sessions)
	return sessions > 0, err
}

// takeOver begins a new epoch: from its commit on no write of an older one lands.
func (s *session) takeOver(ctx context.Context) (epoch int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*callTimeout)
	defer cancel()
	err = s.conn.QueryRow(ctx, "SELECT howdah.lead($1, $2)", s.lease.cfg.Role, s.lease.cfg.Holder).Scan(&epoch)
	if err != nil {
		return 0, fmt.Errorf("begin an epoch: %w", err)
	}
	return epoch, nil
}

// beat keeps the session active and answers ErrLost as soon as it cannot be sure of it; nil when ctx ends.
func (s *session) beat(ctx context.Context) error {
	var last time.Duration
	for {
		// Counted from before the last beat was sent: the server heard it later, so a standby counts longer.
		spent, err := within(ctx, max(giveUpAfter-beatEvery-last, leastPatience), func(ctx context.Context) error {
			_, err := s.conn.Exec(ctx, "SELECT 1")
			return err
		})
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w: %w", ErrLost, err)
		}
		last = spent
		if wait(ctx, beatEvery) != nil {
			return nil
		}
	}
}
