// Package leading runs what works from informers and may be done by one process at a time: with others that stand by, their caches warm if not
// as new as the leader's, and a leader that begins with what the one before has written, and whose writes are refused once another leads.
package leading

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/kit/task"
)

// Leadership runs lead while this process is the leader, again after each loss; lead's context ends with the leadership, and Run where lead
// ends by itself. Epochs grow with every change of leadership. Package lease has one.
type Leadership interface {
	Run(ctx context.Context, lead func(ctx context.Context, epoch int64) error) error
}

// Role is what a process takes part in leading.
type Role struct {
	Name       string // of the fence
	Leadership Leadership
	Objects    *object.Client // its writes are those of the leader
	Informers  *object.Informers
	Clock      clock.Clock
	// Ready, where there is one, waits for what else has to be there before the process may lead, and answers false when ctx ends before.
	Ready func(ctx context.Context) bool
	// Patience bounds how long the caches of a new leader may take to show what the one before has written; where they do not get there, the
	// leadership ends as one that was lost. Zero is as long as it lasts.
	Patience time.Duration
}

// Terms stands by until ctx ends, and calls lead whenever this process leads. The informers run elsewhere. It returns lead's error where
// lead ends by itself.
func (r Role) Terms(ctx context.Context, lead task.Func) error {
	if !r.Informers.Wait(ctx) || r.Ready != nil && !r.Ready(ctx) {
		return ctx.Err()
	}
	r.Informers.Rest()
	return r.Leadership.Run(ctx, func(ctx context.Context, epoch int64) error {
		r.Objects.SetFence(r.Name, epoch)
		defer r.Informers.Rest()
		if err := r.takeOver(ctx); err != nil {
			return err
		}
		return lead(ctx)
	})
}

// takeOver lets the caches show what the leader before has written.
func (r Role) takeOver(ctx context.Context) error {
	if r.Patience > 0 {
		bounded, cancel := context.WithTimeout(ctx, r.Patience)
		defer cancel()
		ctx = bounded
	}
	err := r.Informers.TakeOver(ctx, r.Clock)
	if err != nil {
		slog.WarnContext(ctx, "caches stay behind: the leadership is given up", "role", r.Name, "err", err)
	}
	return err
}

// errOver ends the parts of a process whose leadership is over.
var errOver = errors.New("leadership is over")

// Once runs parts, the informers among them, stands by beside them, and leads once: with a leadership, however it ends, end the parts, and Once
// returns without an error. It is for those whose memory of what they wrote may be untrue when they lead again, and who begin anew then.
func (r Role) Once(ctx context.Context, lead task.Func, parts ...task.Func) error {
	elect := func(ctx context.Context) error {
		ctx, end := context.WithCancel(ctx)
		defer end()
		r.Leadership = last{r.Leadership, end}
		if err := r.Terms(ctx, lead); err != nil && ctx.Err() == nil {
			return err
		}
		return errOver
	}
	err := task.Run(ctx, append([]task.Func{elect}, parts...)...)
	if errors.Is(err, errOver) {
		return nil
	}
	return err
}

// last is a leadership whose term has none after it.
type last struct {
	of  Leadership
	end context.CancelFunc
}

func (l last) Run(ctx context.Context, lead func(ctx context.Context, epoch int64) error) error {
	return l.of.Run(ctx, func(ctx context.Context, epoch int64) error {
		defer l.end()
		return lead(ctx, epoch)
	})
}
