package lease_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"howdah.dev/kit/lease"
	"howdah.dev/kit/pgtest"
	"howdah.dev/kit/pgtest/proxy"
)

// The machine of the database is gone without a word, and its replica takes its place: the one who led has stopped by then, and somebody leads again.
func TestLeadershipMovesWithTheDatabase(t *testing.T) {
	t.Parallel()
	primary := pgtest.Start(t, pgtest.Config{TCP: true})
	if err := schema(t.Context(), primary.URL()); err != nil {
		t.Fatal(err)
	}
	replica := primary.Replica(t)
	network := proxy.Start(t, primary.Address())
	leader := stand(t, fmt.Sprintf("postgres://postgres@%s,%s/postgres?sslmode=disable", network.Address(), replica.Address()), "only")
	receive(t, leader.epochs, time.Minute, "it leads")
	network.Freeze()
	if cause := receive(t, leader.lost, time.Minute, "its context ends"); !errors.Is(cause, lease.ErrLost) {
		t.Errorf("cause = %v, want ErrLost", cause)
	}
	if err := replica.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	if epoch := receive(t, leader.epochs, 2*time.Minute, "it leads where the replica is the primary"); epoch != 2 {
		t.Errorf("epoch = %d, want 2", epoch)
	}
}
