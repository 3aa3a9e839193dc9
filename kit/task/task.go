// Package task runs the long-lived parts of a service together.
package task

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
)

// Func is a part that runs until its context ends or it fails.
type Func func(ctx context.Context) error

// Run starts every part and waits for all of them. The first that returns,
// with an error or without, ends the others. The error is that of the first
// part that failed; the end of ctx is not an error. A panic in a part is an
// error that carries the stack.
func Run(ctx context.Context, parts ...Func) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	var (
		wg    sync.WaitGroup
		once  sync.Once
		first error
	)
	for _, part := range parts {
		wg.Go(func() {
			defer cancel()
			if err := protect(ctx, part); err != nil && !errors.Is(err, context.Canceled) {
				once.Do(func() { first = err })
			}
		})
	}
	wg.Wait()
	return first
}

func protect(ctx context.Context, part Func) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	return part(ctx)
}
