package controllers

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"k8s.io/client-go/tools/record"

	"howdah.dev/kit/leading"
	"howdah.dev/kit/object"
	"howdah.dev/kit/reconcile"
	"howdah.dev/kit/task"
	"howdah.dev/services/controllers/internal/controller"
)

// life is one set of caches and controllers, from the start of the process
// or the loss of a leadership to the loss of the next.
type life struct {
	cfg       *Config
	informers *object.Informers
	env       *controller.Env
	ready     []func(ctx context.Context) error
	parts     []task.Func // run always
	loops     []task.Func // run while leading
	queues    []*reconcile.Controller
	names     []string // of the controllers that there is something to do for
	leading   atomic.Bool
}

// newLife builds the enabled controllers.
func (s *Server) newLife() (*life, error) {
	l := &life{cfg: &s.cfg, informers: object.NewInformers(s.cfg.Objects)}
	l.parts = append(l.parts, l.informers.Run)
	recorders := map[string]record.EventRecorder{}
	l.env = &controller.Env{
		Client: s.cfg.Objects, Informers: l.informers, Clock: s.cfg.Clock, Metrics: s.metrics,
		Recorder: func(component string) record.EventRecorder {
			if recorders[component] == nil {
				recorder, send := object.Recorder(s.cfg.Objects, component, "")
				recorders[component] = recorder
				l.parts = append(l.parts, send)
			}
			return recorders[component]
		},
	}
	for _, r := range s.rows {
		unit, err := r.build(l.env, s)
		if err != nil {
			return nil, fmt.Errorf("controller %s: %w", r.name, err)
		}
		if len(unit.Queues)+len(unit.Loops) > 0 {
			l.names = append(l.names, r.name)
		}
		for _, q := range unit.Queues {
			l.queues = append(l.queues, q)
			l.loops = append(l.loops, q.Run)
		}
		for _, loop := range unit.Loops {
			l.loops = append(l.loops, loop)
		}
		for _, part := range unit.Always {
			l.parts = append(l.parts, part)
		}
		if unit.Ready != nil {
			l.ready = append(l.ready, unit.Ready)
		}
	}
	return l, nil
}

// wait returns when all caches are filled, or false when ctx ends before.
func (l *life) wait(ctx context.Context) bool {
	if !l.informers.Wait(ctx) {
		return false
	}
	for _, ready := range l.ready {
		if ready(ctx) != nil {
			return false
		}
	}
	return true
}

// catchUpTimeout bounds how long a new leader waits for what the one before has written. A process that does not get there leads no longer, and
// begins a new life with fresh caches.
const catchUpTimeout = 15 * time.Second

// run follows the cluster until ctx ends or a leadership has been lost.
func (l *life) run(ctx context.Context) error {
	role := leading.Role{
		Name: l.cfg.Role, Leadership: l.cfg.Leadership, Objects: l.cfg.Objects, Informers: l.informers, Clock: l.cfg.Clock,
		Ready: l.wait, Patience: catchUpTimeout,
	}
	return role.Once(ctx, l.lead, l.parts...)
}

// lead runs the queues until the leadership ends. They run once: a second term needs a new life.
func (l *life) lead(ctx context.Context) error {
	l.env.Lead()
	l.leading.Store(true)
	defer l.leading.Store(false)
	if len(l.loops) == 0 {
		<-ctx.Done()
		return ctx.Err()
	}
	return task.Run(ctx, l.loops...)
}
