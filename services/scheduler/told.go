package scheduler

import (
	"cmp"
	"context"
	"time"

	"howdah.dev/services/scheduler/internal/cycle"
	"howdah.dev/services/scheduler/internal/plugin"
)

// attempted counts what became of a pod in this attempt, once: that it is bound, that no node took it, or that something else went wrong. Each pod of
// a group has the time since its cycle began, for so long it was at it: the groups' own time is that of their cycles.
func (s *Server) attempted(d *decision, err error) {
	if d.told {
		return
	}
	d.told = true
	became := failed
	switch {
	case d.node == "" && !d.failure:
		became = unschedulable
	case d.node != "" && err == nil:
		became = scheduled
	}
	s.profiles.of(d.item.Pod).metrics.attempt(became, s.cfg.Clock.Since(d.began))
}

// blamed are the plugins that refused the pod; "" where it failed otherwise.
func (d *decision) blamed() string {
	if d.failure {
		return ""
	}
	return cmp.Or(d.ahead, d.cause)
}

func codeOf(err error) cycle.Code {
	if err != nil {
		return cycle.Failure
	}
	return cycle.Success
}

// reserved notes that volumes or devices of a pod were assumed, or could not be.
func (s *Server) reserved(d *decision, began time.Time) {
	code := cycle.Success
	if d.failure {
		code = cycle.Failure
	}
	s.profiles.of(d.item.Pod).metrics.point(plugin.Reserve, code, s.cfg.Clock.Since(began))
}

// lookedForRoom notes a search for pods that could go for the sake of another.
func (s *Server) lookedForRoom(profile *profile, v verdict, took time.Duration) {
	code := cycle.Unschedulable
	if v.room != nil && v.room.node != "" {
		code = cycle.Success
	}
	profile.metrics.point(plugin.PostFilter, code, took)
	if s.metrics.timed() {
		profile.metrics.run(plugin.Preemption, plugin.PostFilter, code, took)
	}
}

// preBind writes what is to be written before pods are bound, and returns the decisions that wait for nothing. What they have waited for meanwhile is
// part of the time.
func (b *binder) preBind(ctx context.Context, decisions []decision) []decision {
	for i := range decisions {
		if d := &decisions[i]; d.preBinding.IsZero() && (d.mustBind() || d.mustReserve()) {
			d.preBinding = b.s.cfg.Clock.Now()
		}
	}
	decisions = b.bindDevices(ctx, b.bindVolumes(ctx, decisions))
	for _, d := range decisions {
		if d.preBinding.IsZero() {
			continue
		}
		code := cycle.Success
		if d.failure {
			code = cycle.Failure
		}
		b.s.profiles.of(d.item.Pod).metrics.point(plugin.PreBind, code, b.s.cfg.Clock.Since(d.preBinding))
	}
	return decisions
}
