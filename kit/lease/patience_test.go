package lease

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestWithin(t *testing.T) {
	t.Parallel()
	failed := errors.New("failed")
	silent := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	after := func(d time.Duration, err error) func(context.Context) error {
		return func(ctx context.Context) error {
			select {
			case <-time.After(d):
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	for name, tt := range map[string]struct {
		attempt func(ctx context.Context) error
		spent   time.Duration
		want    error
	}{
		"an answer at once":    {after(0, nil), 0, nil},
		"a late answer":        {after(930*time.Millisecond, nil), 900 * time.Millisecond, nil},
		"an error":             {after(70*time.Millisecond, failed), 50 * time.Millisecond, failed},
		"no answer":            {silent, time.Second, errPatience},
		"an answer too late":   {after(1010*time.Millisecond, nil), time.Second, errPatience},
		"an answer at the end": {func(ctx context.Context) error { <-ctx.Done(); return nil }, time.Second, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				spent, err := within(t.Context(), time.Second, tt.attempt)
				if spent != tt.spent || !errors.Is(err, tt.want) {
					t.Errorf("after %v: %v, want %v after %v", spent, err, tt.want, tt.spent)
				}
			})
		})
	}
}

func TestWithinEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		began := time.Now()
		_, err := within(ctx, time.Second, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		if err == nil || errors.Is(err, errPatience) || time.Since(began) != 100*time.Millisecond {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

func TestWatch(t *testing.T) {
	t.Parallel()
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	for name, tt := range map[string]struct {
		seen []time.Duration
		want bool // of the last
	}{
		"alive":                                    {[]time.Duration{ms(0), ms(200), ms(100), ms(250), ms(0), ms(200), ms(100), ms(250)}, false},
		"silent, asked in time":                    {[]time.Duration{ms(500), ms(700), ms(900), ms(1100), ms(1300), ms(1500)}, true},
		"silent, and not for long enough":          {[]time.Duration{ms(500), ms(700), ms(900), ms(1100), ms(1300), ms(1499)}, false},
		"asked with the leader's machine as busy":  {[]time.Duration{ms(700), ms(1600), ms(2500)}, false},
		"asked as late, and the leader stays away": {[]time.Duration{ms(700), ms(1600), ms(2500), ms(3400), ms(4300), ms(5200)}, true},
		"silent when the standby comes":            {[]time.Duration{ms(90000)}, false},
		"heard of again":                           {[]time.Duration{ms(700), ms(1600), ms(2500), ms(3400), ms(4300), ms(100), ms(1600)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var w watch
			var got bool
			for n, silence := range tt.seen {
				if got = w.see(silence); got && n < len(tt.seen)-1 {
					t.Fatalf("to be replaced after %d looks", n+1)
				}
			}
			if got != tt.want {
				t.Errorf("to be replaced: %v, want %v", got, tt.want)
			}
		})
	}
}
