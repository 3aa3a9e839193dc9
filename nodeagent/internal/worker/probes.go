package worker

import (
	"context"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/nodeagent/internal/cri"
	"howdah.dev/nodeagent/internal/pod"
	"howdah.dev/nodeagent/internal/probe"
)

// finding is what a run's probes have settled since the last round.
type finding struct {
	started, ready *bool
	kill           string
}

// watch starts the probes of what runs and ends those of what does not.
func (w *worker) watch(ctx context.Context, p *corev1.Pod, observed *cri.Pod, s *corev1.PodStatus) {
	wanted := map[string]bool{}
	each := func(c *corev1.Container) {
		run := observed.Latest(c.Name)
		if run == nil || run.State != cri.Running {
			return
		}
		known := w.memory.Probes[run.ID]
		target := probe.Target{Pod: p, Container: c, ID: run.ID, PodIP: s.PodIP, Started: run.Started}
		begin := func(kind probe.Kind, spec *corev1.Probe, settled, isKnown bool) {
			if spec == nil {
				return
			}
			key := run.ID + "/" + string(kind)
			wanted[key] = true
			if _, runs := w.probes[key]; runs {
				return
			}
			probeCtx, cancel := context.WithCancel(ctx)
			w.probes[key] = cancel
			w.m.running.Go(func() {
				w.cfg.Probes.Run(probeCtx, kind, spec, target, settled, isKnown, func(ok bool) { w.settled(run.ID, kind, ok) })
			})
		}
		if c.StartupProbe != nil && !known.Started {
			begin(probe.Startup, c.StartupProbe, false, false)
			return
		}
		begin(probe.Liveness, c.LivenessProbe, true, true)
		begin(probe.Readiness, c.ReadinessProbe, known.Ready, true)
	}
	for i := range p.Spec.InitContainers {
		if pod.Sidecar(&p.Spec.InitContainers[i]) {
			each(&p.Spec.InitContainers[i])
		}
	}
	for i := range p.Spec.Containers {
		each(&p.Spec.Containers[i])
	}
	for key, cancel := range w.probes {
		if !wanted[key] {
			cancel()
			delete(w.probes, key)
		}
	}
}

// settled is called by a probe's goroutine.
func (w *worker) settled(id string, kind probe.Kind, ok bool) {
	w.mu.Lock()
	f := w.found[id]
	switch {
	case kind == probe.Readiness:
		f.ready = &ok
	case kind == probe.Startup && ok:
		f.started = &ok
	case kind == probe.Startup:
		f.kill = "startup probe"
	case !ok:
		f.kill = "liveness probe"
	}
	w.found[id] = f
	w.mu.Unlock()
	w.wake()
}

// recall folds what the probes have settled into the memory, and drops what
// is of runs that are gone.
func (w *worker) recall(observed *cri.Pod) {
	running := map[string]bool{}
	for i := range observed.Containers {
		running[observed.Containers[i].ID] = observed.Containers[i].State == cri.Running
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for id, f := range w.found {
		if running[id] {
			known := w.memory.Probes[id]
			if f.started != nil {
				known.Started = *f.started
			}
			if f.ready != nil {
				known.Ready = *f.ready
			}
			if f.kill != "" {
				known.Kill = f.kill
			}
			w.memory.Probes[id] = known
		}
		delete(w.found, id)
	}
	for id := range w.memory.Applied {
		if id != pod.WholePod && !running[id] {
			delete(w.memory.Applied, id)
			delete(w.memory.Around, id)
		}
	}
	for id := range w.memory.Probes {
		if !running[id] {
			delete(w.memory.Probes, id)
		}
	}
}

func (w *worker) stopProbe(id string, kinds ...probe.Kind) {
	for _, kind := range kinds {
		key := id + "/" + string(kind)
		if cancel, ok := w.probes[key]; ok {
			cancel()
			delete(w.probes, key)
		}
	}
}

// stopProbes ends the probes of these kinds.
func (w *worker) stopProbes(kinds ...probe.Kind) {
	for key, cancel := range w.probes {
		if _, kind, _ := strings.Cut(key, "/"); slices.Contains(kinds, probe.Kind(kind)) {
			cancel()
			delete(w.probes, key)
		}
	}
}
