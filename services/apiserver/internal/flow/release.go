package flow

import (
	"context"
	"sync/atomic"
)

// Holder is where a request's ticket is found by whoever knows that it does not need it any more.
type Holder struct{ ticket atomic.Pointer[Ticket] }

type holderKey struct{}

// WithHolder returns a context that carries the holder.
func WithHolder(ctx context.Context, h *Holder) context.Context {
	return context.WithValue(ctx, holderKey{}, h)
}

// Put keeps a ticket.
func (h *Holder) Put(t *Ticket) { h.ticket.Store(t) }

// Release gives the seats of the context's request back before it has ended: a watch that has begun costs nothing more.
func Release(ctx context.Context) {
	if h, ok := ctx.Value(holderKey{}).(*Holder); ok {
		h.ticket.Load().Leave()
	}
}
