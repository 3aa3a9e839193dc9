package cache

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestAcknowledged(t *testing.T) {
	w := setup(t)
	if err := w.pods.Acknowledged(t.Context()); err != nil {
		t.Errorf("nobody was told of anything: %v", err)
	}
	w.pods.Acknowledge(2)
	w.pods.Acknowledge(1) // an earlier one, told later
	w.put("a", "", "")
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := w.pods.Acknowledged(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a change that is not in: %v", err)
	}
	waited := make(chan error, 1)
	go func() { waited <- w.pods.Acknowledged(context.Background()) }()
	w.put("b", "", "")
	if err := <-waited; err != nil {
		t.Error(err)
	}
}
