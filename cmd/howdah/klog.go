package main

import (
	"context"
	"log/slog"
	"sync"

	"k8s.io/klog/v2"
)

// logKlog has Kubernetes' libraries log as the process does. klog has one logger a process, which must not be set while anything logs: it is set with
// the first role, and follows the default logger when another role, as tests start it, sets that anew.
var logKlog = sync.OnceFunc(func() { klog.SetSlogLogger(slog.New(follower{slog.Default})) })

// follower hands records to the logger that is the default when they come.
type follower struct{ logger func() *slog.Logger }

// Enabled implements slog.Handler.
func (f follower) Enabled(ctx context.Context, level slog.Level) bool {
	return f.logger().Handler().Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (f follower) Handle(ctx context.Context, r slog.Record) error {
	return f.logger().Handler().Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (f follower) WithAttrs(attrs []slog.Attr) slog.Handler {
	return follower{func() *slog.Logger { return slog.New(f.logger().Handler().WithAttrs(attrs)) }}
}

// WithGroup implements slog.Handler.
func (f follower) WithGroup(name string) slog.Handler {
	return follower{func() *slog.Logger { return slog.New(f.logger().Handler().WithGroup(name)) }}
}
