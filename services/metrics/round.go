package metrics

import (
	"context"
	"errors"
	"log/slog"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/services/metrics/internal/scrape"
)

// parallel bounds the nodes that are asked at one time.
const parallel = 32

// rounds asks all nodes, again and again, until ctx ends.
func (s *Server) rounds(ctx context.Context) error {
	ticker := s.cfg.Clock.NewTicker(s.cfg.Resolution)
	defer ticker.Stop()
	silent := map[string]bool{} // nodes of which it was said that they do not answer
	for first := true; ; first = false {
		s.round(ctx, silent)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if first {
			close(s.first)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C():
		}
	}
}

// round asks every node once. A node has two thirds of the time to the next round, so that one that hangs delays nobody. That a node does not answer is
// logged once, until it does.
func (s *Server) round(ctx context.Context, silent map[string]bool) {
	nodes := s.nodes.List("")
	present := make(map[string]bool, len(nodes))
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Resolution*2/3)
	defer cancel()
	slots := make(chan struct{}, parallel)
	var running sync.WaitGroup
	var mu sync.Mutex
	for _, node := range nodes {
		present[node.Name] = true
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			err := s.ask(ctx, node)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				delete(silent, node.Name)
			case !silent[node.Name]:
				silent[node.Name] = true
				slog.WarnContext(ctx, "ask a node what it uses", "node", node.Name, "err", err)
			}
		})
	}
	running.Wait()
	now := s.cfg.Clock.Now()
	for name := range silent {
		if !present[name] {
			delete(silent, name)
		}
	}
	s.known.Keep(present, now)
	s.metrics.known(len(s.known.Nodes("", now)), len(s.known.Pods("", "", now)))
}

// ask asks one node. Simulated nodes have nothing to be asked at, which is no error.
func (s *Server) ask(ctx context.Context, node *corev1.Node) error {
	begun := s.cfg.Clock.Now()
	told, err := s.client.Scrape(ctx, node)
	if errors.Is(err, scrape.ErrNoEndpoint) {
		s.metrics.scraped("none", 0)
		return nil
	}
	now := s.cfg.Clock.Now()
	if err != nil {
		s.metrics.scraped("failed", now.Sub(begun))
		return err
	}
	s.metrics.scraped("ok", now.Sub(begun))
	s.known.Add(node.Name, told, now)
	return nil
}
