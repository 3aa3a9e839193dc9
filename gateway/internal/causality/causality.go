// Package causality has every API server decide by what writes have changed that were answered before, whichever of them did those: a webhook, a role or a
// limit that a client has made counts for all that it asks next, although each API server learns of changes by itself.
package causality

import (
	"context"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"howdah.dev/gateway/internal/outcome"
)

// Metadata: an API server tells the revision of a write that others are decided by, and is told the revision that it has to know before it decides.
const (
	decisiveKey = "howdah-decisive"
	knowKey     = "howdah-know"
)

// remembered is how long a revision is told. An API server that is behind for longer decides by what it knows, rather than nothing; and after a database has
// been restored to an earlier state, no revision of before is waited for much longer.
const remembered = 15 * time.Second

// Conn is a connection to API servers whose calls follow each other.
type Conn struct {
	grpc.ClientConnInterface
	newest atomic.Pointer[mark]
	now    func() time.Time
}

// mark is a revision that has to be known, and until when that is asked for.
type mark struct {
	revision int64
	text     string
	until    time.Time
}

// New returns a connection that makes its calls over another one.
func New(conn grpc.ClientConnInterface) *Conn { return &Conn{ClientConnInterface: conn, now: time.Now} }

// Invoke implements grpc.ClientConnInterface.
func (c *Conn) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	ctx = c.after(ctx)
	if !outcome.Writes(method) {
		return c.ClientConnInterface.Invoke(ctx, method, args, reply, opts...)
	}
	var header metadata.MD
	err := c.ClientConnInterface.Invoke(ctx, method, args, reply, append(slices.Clip(opts), grpc.Header(&header))...)
	c.learn(header[decisiveKey])
	return err
}

// NewStream implements grpc.ClientConnInterface.
func (c *Conn) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return c.ClientConnInterface.NewStream(c.after(ctx), desc, method, opts...)
}

// after has a call decided by all that is remembered.
func (c *Conn) after(ctx context.Context) context.Context {
	m := c.newest.Load()
	if m == nil {
		return ctx
	}
	if c.now().After(m.until) {
		c.newest.CompareAndSwap(m, nil)
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, knowKey, m.text)
}

// learn remembers the newest of some revisions.
func (c *Conn) learn(revisions []string) {
	for _, text := range revisions {
		revision, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			continue
		}
		next := &mark{revision: revision, text: text, until: c.now().Add(remembered)}
		for {
			m := c.newest.Load()
			if m != nil && m.revision >= revision || c.newest.CompareAndSwap(m, next) {
				break
			}
		}
	}
}
