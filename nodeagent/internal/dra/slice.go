package dra

import (
	"context"
	"log/slog"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"howdah.dev/kit/object"
	"howdah.dev/kit/obs"
)

const (
	// wipeAfter is how long a driver may be away until its ResourceSlices go: long enough for the next one of it to start.
	wipeAfter = 30 * time.Second
	// startGrace is how long drivers that run have to register when the agent starts.
	startGrace = 5 * time.Second
	// wipeRetryMax is the longest pause between tries; the first is a second, and each is twice the one before.
	wipeRetryMax = 5 * time.Minute
)

// Slices deletes the ResourceSlices of the node whose drivers are not there, so that nobody is given what cannot be prepared.
type Slices struct {
	drivers *Drivers
	node    string
	client  *object.Client
}

// Run goes on until ctx ends; then drivers are let go. In the beginning drivers have a little time to register.
func (s *Slices) Run(ctx context.Context) error {
	defer s.drivers.close()
	looked, pause := false, time.Duration(0)
	for {
		if !looked {
			looked = s.begin(ctx)
		}
		next, ok := s.wipe(ctx)
		if looked && ok {
			pause = 0
		} else {
			pause = min(max(2*pause, time.Second), wipeRetryMax)
			if next == 0 || pause < next {
				next = pause
			}
		}
		var timer <-chan time.Time
		stop := func() bool { return false }
		if next > 0 {
			t := s.drivers.clock.NewTimer(next)
			timer, stop = t.C(), t.Stop
		}
		select {
		case <-ctx.Done():
			stop()
			return ctx.Err()
		case <-s.drivers.poke:
		case <-timer:
		}
		stop()
	}
}

// begin notes the drivers of which there are slices and nothing else.
func (s *Slices) begin(ctx context.Context) bool {
	all, err := s.list(ctx, "")
	if err != nil {
		if ctx.Err() == nil {
			slog.Warn("list the node's ResourceSlices", "err", err)
		}
		return false
	}
	s.drivers.mu.Lock()
	defer s.drivers.mu.Unlock()
	for _, slice := range all {
		name := slice.Spec.Driver
		if _, known := s.drivers.away[name]; !known && !s.drivers.usable(name) {
			s.drivers.away[name] = s.drivers.clock.Now().Add(startGrace - wipeAfter)
		}
	}
	return true
}

// due returns the drivers that have been away for too long, and when the next one will have been; 0 is never.
func due(away map[string]time.Time, now time.Time) (names []string, next time.Duration) {
	for name, since := range away {
		if left := wipeAfter - now.Sub(since); left <= 0 {
			names = append(names, name)
		} else if next == 0 || left < next {
			next = left
		}
	}
	return names, next
}

// wipe deletes the slices of drivers that have been away for too long.
func (s *Slices) wipe(ctx context.Context) (next time.Duration, ok bool) {
	d := s.drivers
	d.mu.Lock()
	names, next := due(d.away, d.clock.Now())
	d.mu.Unlock()
	ok = true
	for _, name := range names {
		if err := s.wipeOf(ctx, name); err != nil {
			ok = false
			if ctx.Err() == nil {
				slog.Warn("delete the ResourceSlices of a driver that is gone", "driver", name, "err", err)
			}
			continue
		}
		d.mu.Lock()
		delete(d.away, name)
		d.mu.Unlock()
	}
	return next, ok
}

func (s *Slices) wipeOf(ctx context.Context, driver string) error {
	all, err := s.list(ctx, driver)
	if err != nil {
		return err
	}
	for _, slice := range all {
		s.drivers.mu.Lock()
		back := s.drivers.usable(driver)
		s.drivers.mu.Unlock()
		if back {
			return nil
		}
		err := object.For(s.client, object.ResourceSlice).Delete(obs.Untraced(ctx), "", slice.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &slice.UID}})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return err
		}
		slog.Info("deleted a ResourceSlice of a driver that is gone", "driver", driver, "name", slice.Name)
	}
	return nil
}

func (s *Slices) list(ctx context.Context, driver string) ([]*resourcev1.ResourceSlice, error) {
	which := fields.Set{resourcev1.ResourceSliceSelectorNodeName: s.node}
	if driver != "" {
		which[resourcev1.ResourceSliceSelectorDriver] = driver
	}
	all, _, err := object.For(s.client, object.ResourceSlice).List(obs.Untraced(ctx), "", metav1.ListOptions{FieldSelector: which.String()})
	return all, err
}
