package probe

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
)

// Kind of a probe, as events name it.
type Kind string

// The kinds.
const (
	Startup   Kind = "Startup"
	Liveness  Kind = "Liveness"
	Readiness Kind = "Readiness"
)

// Events tells people of failures.
type Events interface {
	Event(pod *corev1.Pod, container, kind, reason, message string)
}

// Runner repeats probes.
type Runner struct {
	Checker *Checker
	Clock   clock.Clock
	Events  Events
	// Count, where set, counts outcomes, and hears how long they took.
	Count func(t Target, kind Kind, outcome string, took time.Duration)
}

// Run carries a probe out every period until ctx ends, or until a startup
// probe has settled. report hears each time that the answer has settled to
// another one: after as many equal answers as the probe's threshold says.
func (r *Runner) Run(ctx context.Context, kind Kind, p *corev1.Probe, t Target, settled bool, known bool, report func(ok bool)) {
	first := t.Started.Add(time.Duration(p.InitialDelaySeconds) * time.Second)
	period := time.Duration(max(p.PeriodSeconds, 1)) * time.Second
	if !r.wait(ctx, first.Sub(r.Clock.Now())) {
		return
	}
	c := counter{success: int(max(p.SuccessThreshold, 1)), failure: int(max(p.FailureThreshold, 1)), settled: settled, known: known}
	for {
		began := r.Clock.Now()
		ok, valid := r.once(ctx, kind, p, t)
		if ctx.Err() != nil {
			return
		}
		if valid && c.add(ok) {
			report(c.settled)
			if kind == Startup && c.settled {
				return
			}
		}
		if !r.wait(ctx, period-r.Clock.Since(began)) {
			return
		}
	}
}

// once carries the probe out, up to three times where it cannot be.
func (r *Runner) once(ctx context.Context, kind Kind, p *corev1.Probe, t Target) (ok, valid bool) {
	for range 3 {
		began := r.Clock.Now()
		found, output, err := r.Checker.Check(ctx, p, t)
		switch {
		case ctx.Err() != nil:
			return false, false
		case err != nil:
			r.Events.Event(t.Pod, t.Container.Name, corev1.EventTypeWarning, "Unhealthy", fmt.Sprintf("%s probe errored and resulted in unknown state: %v", kind, err))
			r.count(t, kind, "unknown", began)
			continue
		case found == Failed:
			r.Events.Event(t.Pod, t.Container.Name, corev1.EventTypeWarning, "Unhealthy", fmt.Sprintf("%s probe failed: %s", kind, output))
			r.count(t, kind, "failed", began)
			return false, true
		case found == Warned:
			r.Events.Event(t.Pod, t.Container.Name, corev1.EventTypeWarning, "ProbeWarning", fmt.Sprintf("%s probe warning: %s", kind, output))
		}
		r.count(t, kind, "successful", began)
		return true, true
	}
	return false, false
}

func (r *Runner) count(t Target, kind Kind, outcome string, began time.Time) {
	if r.Count != nil {
		r.Count(t, kind, outcome, r.Clock.Since(began))
	}
}

func (r *Runner) wait(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	timer := r.Clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C():
		return true
	}
}

// counter turns single answers into settled ones.
type counter struct {
	success, failure int // thresholds
	settled, known   bool
	last             bool
	run              int
}

// add counts an answer and reports whether another answer has settled.
func (c *counter) add(ok bool) bool {
	if c.run == 0 || ok != c.last {
		c.last, c.run = ok, 0
	}
	c.run++
	threshold := c.failure
	if ok {
		threshold = c.success
	}
	if c.run < threshold || c.known && c.settled == ok {
		return false
	}
	c.settled, c.known = ok, true
	return true
}
