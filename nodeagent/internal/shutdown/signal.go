package shutdown

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// Signal is told of the shutdown by SIGPWR, as LXC has containers told of theirs: for nodes that are containers, which have no logind. It cannot be
// called off, and who sends it waits for the agent's end.
type Signal struct{}

// Await waits for the signal.
func (Signal) Await(ctx context.Context, _ time.Duration) (Notice, error) {
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, syscall.SIGPWR)
	defer signal.Stop(heard)
	select {
	case <-ctx.Done():
		return Notice{}, ctx.Err()
	case <-heard:
		return Notice{Done: func() {}}, nil
	}
}
