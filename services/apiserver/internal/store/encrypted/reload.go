package encrypted

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"howdah.dev/services/apiserver/internal/seal"
)

// reloadEvery is how often the file is looked at.
const reloadEvery = 10 * time.Second

// grace is how long the plugins of a replaced configuration stay, for the calls that still use it.
const grace = time.Minute

func (s *Store) load() (*seal.Set, [32]byte, error) {
	data, err := os.ReadFile(s.cfg.Path)
	if err != nil {
		return nil, [32]byte{}, fmt.Errorf("error while parsing file: error while loading file: %w", err)
	}
	set, err := seal.Parse(data, s.cfg.Clock, s.cfg.Metrics)
	if err != nil {
		return nil, [32]byte{}, fmt.Errorf("%w (%s)", err, s.cfg.Path)
	}
	return set, sha256.Sum256(data), nil
}

// follow runs the present set, and puts a new one in its place when the file has changed. A file that is not valid, or whose
// plugins do not answer, changes nothing.
func (s *Store) follow(ctx context.Context) error {
	var running sync.WaitGroup
	defer running.Wait()
	set := s.set.Load()
	stop := runSet(ctx, &running, set)
	defer func() { stop() }()
	ticker := s.cfg.Clock.NewTicker(reloadEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C():
		}
		if !s.cfg.Reload {
			continue
		}
		next, err := s.reload(ctx)
		if err != nil {
			slog.WarnContext(ctx, "the encryption configuration is not taken over", "err", err)
		}
		if next != nil {
			stop()
			stop = runSet(ctx, &running, next)
		}
	}
}

// runSet runs a set until the function that it returns is called; its connections are closed later, for the calls under way.
func runSet(ctx context.Context, running *sync.WaitGroup, set *seal.Set) (stop func()) {
	inner, cancel := context.WithCancel(ctx)
	running.Go(func() {
		set.Run(inner)
		<-inner.Done()
		select {
		case <-ctx.Done():
		case <-time.After(grace):
		}
		set.Close()
	})
	return cancel
}

// reload returns the new set where the file has changed and is good.
func (s *Store) reload(ctx context.Context) (*seal.Set, error) {
	data, err := os.ReadFile(s.cfg.Path)
	if err != nil {
		return nil, err
	}
	if sha256.Sum256(data) == s.read {
		return nil, nil
	}
	next, sum, err := s.load()
	if err == nil {
		if err = next.Healthy(ctx); err != nil {
			next.Close()
		}
	}
	s.cfg.Metrics.Reloaded(s.cfg.Clock.Now(), err)
	if err != nil {
		return nil, err
	}
	s.read = sum
	s.cfg.Metrics.InForce(sum)
	s.set.Store(next)
	slog.InfoContext(ctx, "the encryption configuration was read anew", "file", s.cfg.Path)
	s.tryAgain(ctx)
	return next, nil
}
