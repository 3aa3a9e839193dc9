package task

import (
	"context"
	"errors"
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	t.Parallel()
	failed := errors.New("failed")
	wait := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	tests := []struct {
		name  string
		parts []Func
		want  string
	}{
		{"the first failure ends all and is returned", []Func{wait, func(context.Context) error { return failed }, wait}, "failed"},
		{"a part that ends cleanly ends all", []Func{wait, func(context.Context) error { return nil }}, ""},
		{"a panic is an error", []Func{wait, func(context.Context) error { panic("boom") }}, "panic: boom"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := Run(t.Context(), tt.parts...)
			if tt.want == "" && err != nil {
				t.Fatalf("got %v, want no error", err)
			}
			if tt.want != "" && (err == nil || !strings.HasPrefix(err.Error(), tt.want)) {
				t.Fatalf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Run(ctx, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }); err != nil {
		t.Fatalf("the end of the context is no error, got %v", err)
	}
}
