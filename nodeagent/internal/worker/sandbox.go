package worker

import (
	"context"
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"howdah.dev/kit/obs"
	"howdah.dev/nodeagent/internal/container"
	"howdah.dev/nodeagent/internal/cri"
	"howdah.dev/nodeagent/internal/pod"
)

const (
	sandboxTimeout = 4 * time.Minute
	// classTimeout bounds a look at a pod's class.
	classTimeout = 15 * time.Second
)

// builder translates the pod for the runtime's handler of it.
func (w *worker) builder(p *corev1.Pod, s *corev1.PodStatus, handler string) (*container.Builder, error) {
	users, err := w.cfg.Users.Of(p)
	if err != nil {
		return nil, err
	}
	return &container.Builder{
		Pod: p, Status: s, Node: w.cfg.Node(), Objects: w.cfg.Objects, Handler: handler, Users: users, CgroupParent: w.cfg.Cgroups.Path(p),
	}, nil
}

// handler returns the runtime's way to run the pod, by its class, once it is known that the runtime can.
func (w *worker) handler(ctx context.Context, p *corev1.Pod) (string, error) {
	var handler string
	if class := p.Spec.RuntimeClassName; class != nil && *class != "" {
		ctx, cancel := context.WithTimeout(ctx, classTimeout)
		defer cancel()
		var err error
		if handler, err = w.cfg.Classes.RuntimeHandler(ctx, *class); err != nil {
			return "", err
		}
	}
	return handler, w.cfg.Node().Takes(p, handler)
}

// newSandbox makes the pod's sandbox after all that it needs.
func (w *worker) newSandbox(ctx context.Context, p *corev1.Pod, observed *cri.Pod, s *corev1.PodStatus, attempt uint32) bool {
	if _, ok := w.setupVolumes(ctx, p, s); !ok {
		return false
	}
	if !w.prepareClaims(ctx, p) {
		return false
	}
	w.cfg.Metrics.starting(p)
	spanCtx, span := w.tracer.start("sandbox")
	err := w.makeSandbox(join(ctx, spanCtx), p, observed, s, attempt)
	obs.End(span, err)
	if err == nil {
		w.memory.Sandbox = pod.Trouble{}
		return true
	}
	if ctx.Err() == nil {
		w.cfg.Metrics.unstarted(p)
		w.cfg.Metrics.podsFailed.Inc()
		w.cfg.Events.Event(p, "", corev1.EventTypeWarning, "FailedCreatePodSandBox", "Failed to create pod sandbox: "+plain(err))
		w.memory.Sandbox = w.later(w.memory.Sandbox, "FailedCreatePodSandBox", err)
	}
	return false
}

func (w *worker) makeSandbox(ctx context.Context, p *corev1.Pod, observed *cri.Pod, s *corev1.PodStatus, attempt uint32) error {
	handler, err := w.handler(ctx, p)
	if err != nil {
		return err
	}
	for _, old := range observed.Sandboxes { // of which one may hold the network still
		if err := w.stopSandbox(ctx, old.ID); err != nil {
			return fmt.Errorf("stop the earlier sandbox: %w", err)
		}
	}
	if err := w.cfg.Cgroups.Ensure(p); err != nil {
		return err
	}
	w.memory.Applied[pod.WholePod] = pod.Whole(p)
	b, err := w.builder(p, s, handler)
	if err != nil {
		return err
	}
	config, err := b.Sandbox(attempt)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(config.GetLogDirectory(), 0o755); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, sandboxTimeout)
	defer cancel()
	made, err := w.cfg.Runtime.RunPodSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: config, RuntimeHandler: handler})
	if err == nil {
		w.tracer.networked(ctx, made.GetPodSandboxId(), w.cfg.Networked)
	}
	return err
}

func (w *worker) stopSandbox(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := w.cfg.Runtime.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: id})
	return err
}

func (w *worker) removeSandbox(ctx context.Context, id string) (*runtimeapi.RemovePodSandboxResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return w.cfg.Runtime.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: id})
}
