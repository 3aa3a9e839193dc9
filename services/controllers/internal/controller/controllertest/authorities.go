package controllertest

import (
	"context"
	"sync/atomic"

	"howdah.dev/kit/pki"
)

// Authorities are some that a test replaces, for one controller to follow.
type Authorities struct {
	now      atomic.Pointer[pki.Authorities]
	replaced chan struct{}
}

// NewAuthorities returns those of a text.
func NewAuthorities(text string) *Authorities {
	a := &Authorities{replaced: make(chan struct{}, 1)}
	a.now.Store(&pki.Authorities{PEM: []byte(text)})
	return a
}

// Replace makes them those of another text, and returns once the controller is to be told of it.
func (a *Authorities) Replace(text string) {
	a.now.Store(&pki.Authorities{PEM: []byte(text)})
	a.replaced <- struct{}{}
}

// Now returns the authorities.
func (a *Authorities) Now() *pki.Authorities { return a.now.Load() }

// Follow calls changed after each Replace.
func (a *Authorities) Follow(ctx context.Context, changed func()) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-a.replaced:
			changed()
		}
	}
}
