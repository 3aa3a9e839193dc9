package store

import "context"

type exempt struct{}

// Exempt returns a context whose writes no quota refuses. It is for what a server has to write before it is ready, and of which there is only so much: one that
// waited for room there could not take the deletions that make it.
func Exempt(ctx context.Context) context.Context { return context.WithValue(ctx, exempt{}, true) }

// Exempted reports whether a context is one that Exempt returned, or comes from one.
func Exempted(ctx context.Context) bool { return ctx.Value(exempt{}) != nil }
