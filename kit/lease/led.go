package lease

import (
	"context"
	"errors"
	"fmt"

	"howdah.dev/kit/database"
)

// ErrNoLeader is what Led returns when nobody leads.
var ErrNoLeader = errors.New("nobody leads")

// ledSQL finds the session that holds the role's lock, unless it has not been heard of for $3 seconds.
const ledSQL = "SELECT EXISTS (SELECT" + holderSQL + " AND a.state_change >= clock_timestamp() - make_interval(secs => $3))"

// Led asks the database, over a connection of its own, whether somebody leads the role and gives signs of life.
func Led(ctx context.Context, databaseURL, role string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	conn, err := database.Connect(ctx, databaseURL)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var led bool
	// Twice as long as a standby waits: the answer is for people, not for taking over.
	if err := conn.QueryRow(ctx, ledSQL, int64(class), int64(uint32(lockOf(role))), 2*staleAfter.Seconds()).Scan(&led); err != nil {
		return fmt.Errorf("ask for the leader: %w", err)
	}
	if !led {
		return ErrNoLeader
	}
	return nil
}
