package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// silence is how long the listening connection may hear nothing before it is asked whether it lives.
const silence = 5 * time.Second

// listen keeps the process's one listening connection and wakes the tails.
func (s *Store) listen(ctx context.Context) error {
	var retry backoff
	for {
		err := s.listenOnce(ctx, &retry)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		s.cfg.Logger.WarnContext(ctx, "listening connection lost", "err", err)
		if err := retry.wait(ctx); err != nil {
			return err
		}
	}
}

func (s *Store) listenOnce(ctx context.Context, retry *backoff) error {
	conn, err := s.dial.connect(ctx, map[string]string{"application_name": "howdah-apiserver-listen"})
	if err != nil {
		return err
	}
	defer closeNow(conn)
	if err := listenTo(ctx, conn); err != nil {
		return err
	}
	retry.reset()
	// Whatever was committed until here was announced to nobody of us.
	s.hub.wake()
	for {
		notification, err := waitForNotification(ctx, conn)
		if err != nil {
			return err
		}
		if notification != 0 {
			s.hub.notified(notification)
		}
	}
}

func listenTo(ctx context.Context, conn *pgx.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	_, err := conn.Exec(ctx, "LISTEN howdah_change")
	return err
}

// waitForNotification answers the server process that notified, or 0 after a silence in which the connection proved to be alive.
func waitForNotification(ctx context.Context, conn *pgx.Conn) (pid uint32, err error) {
	waiting, cancel := context.WithTimeout(ctx, silence)
	defer cancel()
	notification, err := conn.WaitForNotification(waiting)
	if err == nil {
		return notification.PID, nil
	}
	if ctx.Err() != nil || waiting.Err() == nil || conn.IsClosed() {
		return 0, err
	}
	ping, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	return 0, conn.Ping(ping)
}
