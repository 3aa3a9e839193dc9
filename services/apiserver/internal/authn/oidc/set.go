package oidc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"howdah.dev/services/apiserver/internal/authn"
)

// Patience is how long a new set of providers may take to be found before the old one goes on.
const Patience = time.Minute

// Set is the providers of a configuration, which may change.
type Set struct {
	current atomic.Pointer[running]
}

// running are providers whose Run goes on until stop.
type running struct {
	providers []*Provider
	stop      context.CancelFunc
	done      *sync.WaitGroup
}

// NewSet returns a set of these providers. They are looked for when Run begins.
func NewSet(providers []*Provider) *Set {
	s := &Set{}
	s.current.Store(&running{providers: providers})
	return s
}

// Holder returns the user of a token of any of the providers.
func (s *Set) Holder(ctx context.Context, token string) (*authn.User, error) {
	for _, p := range s.current.Load().providers {
		user, err := p.Holder(ctx, token)
		if !errors.Is(err, authn.ErrNotMine) {
			return user, err
		}
	}
	return nil, authn.ErrNotMine
}

// Run looks for the providers and replaces them by those that come, until ctx ends. Those that come are taken when all are found; if
// they are not, reply says why and the old ones go on.
func (s *Set) Run(ctx context.Context, changes <-chan Change) error {
	s.current.Store(run(ctx, s.current.Load().providers))
	defer func() { s.current.Load().end() }()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case c := <-changes:
			c.Reply <- s.replace(ctx, c.Providers)
		}
	}
}

// Change is a new set of providers.
type Change struct {
	Providers []*Provider
	// Reply takes the outcome; it has room for it.
	Reply chan<- error
}

func (s *Set) replace(ctx context.Context, providers []*Provider) error {
	next := run(ctx, providers)
	patience, cancel := context.WithTimeout(ctx, Patience)
	defer cancel()
	for _, p := range providers {
		select {
		case <-p.found:
		case <-patience.Done():
			next.end()
			return fmt.Errorf("the issuer %q cannot be found", p.Issuer.URL)
		}
	}
	old := s.current.Swap(next)
	old.end()
	for _, p := range old.providers {
		if !slices.ContainsFunc(providers, func(now *Provider) bool { return now.Issuer.URL == p.Issuer.URL }) {
			p.Metrics.forget(p.Issuer.URL)
		}
	}
	return nil
}

func run(ctx context.Context, providers []*Provider) *running {
	ctx, stop := context.WithCancel(ctx)
	r := &running{providers: providers, stop: stop, done: &sync.WaitGroup{}}
	for _, p := range providers {
		r.done.Go(func() { _ = p.Run(ctx) }) // it ends with ctx only
	}
	return r
}

func (r *running) end() {
	r.stop()
	r.done.Wait()
}
