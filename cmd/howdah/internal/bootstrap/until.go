package bootstrap

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// UntilDone tries again until try succeeds, or ctx ends: then it returns why the last try failed. Any refusal may pass: beside an
// apiserver that is making the cluster's first objects, namespaces and the ranges of Services' addresses are not there yet.
func UntilDone(ctx context.Context, period time.Duration, try func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextCancel(ctx, period, true, func(ctx context.Context) (bool, error) {
		err := try(ctx)
		if err != nil && ctx.Err() == nil {
			last = err
			slog.InfoContext(ctx, "will be tried again", "err", err)
		}
		return err == nil, nil
	})
	if last != nil && err != nil {
		return fmt.Errorf("%w: %w", err, last)
	}
	return err
}
