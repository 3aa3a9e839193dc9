package lease_test

import (
	"errors"
	"testing"
	"time"

	"howdah.dev/kit/lease"
)

func TestLed(t *testing.T) {
	t.Parallel()
	url := database(t)
	awaitLed(t, url, lease.ErrNoLeader)
	leader := stand(t, url, "a")
	receive(t, leader.epochs, time.Minute, "leadership")
	awaitLed(t, url, nil)
	if err := lease.Led(t.Context(), url, "controllers"); !errors.Is(err, lease.ErrNoLeader) {
		t.Errorf("another role: %v", err)
	}
	leader.stop()
	awaitLed(t, url, lease.ErrNoLeader)
}

// awaitLed asks until Led answers want.
func awaitLed(t *testing.T, url string, want error) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		err := lease.Led(t.Context(), url, "scheduler")
		if errors.Is(err, want) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%v, want %v", err, want)
		}
		time.Sleep(20 * time.Millisecond) // nothing tells of it
	}
}

func TestLedWithoutDatabase(t *testing.T) {
	t.Parallel()
	if err := lease.Led(t.Context(), "postgres://nobody@127.0.0.1:1/none", "scheduler"); err == nil || errors.Is(err, lease.ErrNoLeader) {
		t.Errorf("no database: %v", err)
	}
}
