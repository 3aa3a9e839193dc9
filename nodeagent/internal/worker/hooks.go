package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"howdah.dev/nodeagent/internal/cri"
	"howdah.dev/nodeagent/internal/pod"
	"howdah.dev/nodeagent/internal/probe"
)

// hookTimeout bounds a postStart hook, which has no limit of its own.
const hookTimeout = 10 * time.Minute

// postStart runs the hook of a container that has just started. A container
// whose hook fails is ended.
func (w *worker) postStart(ctx context.Context, p *corev1.Pod, s *corev1.PodStatus, c *corev1.Container, id string) {
	if c.Lifecycle == nil || c.Lifecycle.PostStart == nil {
		return
	}
	hookCtx, cancel := context.WithTimeout(ctx, hookTimeout)
	defer cancel()
	err := w.hook(hookCtx, p, s, c, id, c.Lifecycle.PostStart)
	if err == nil || ctx.Err() != nil {
		return
	}
	w.cfg.Events.Event(p, c.Name, corev1.EventTypeWarning, "FailedPostStartHook", "PostStartHook failed: "+err.Error())
	w.memory.Trouble[c.Name] = pod.Trouble{Reason: "PostStartHookError", Message: err.Error()}
	w.stopAll(ctx, p, s, []pod.Stop{{Run: &cri.Container{ID: id, Name: c.Name}, Message: "FailedPostStartHook"}}, nil)
}

// preStop runs the hook of a container that is about to end. Its failure
// keeps nothing from ending.
func (w *worker) preStop(ctx context.Context, p *corev1.Pod, s *corev1.PodStatus, run *cri.Container, hook *corev1.LifecycleHandler) {
	c := specOf(p, run.Name)
	if err := w.hook(ctx, p, s, c, run.ID, hook); err != nil {
		w.cfg.Events.Event(p, run.Name, corev1.EventTypeWarning, "FailedPreStopHook", "PreStopHook failed: "+err.Error())
	}
}

func specOf(p *corev1.Pod, name string) *corev1.Container {
	if c := pod.Find(p, name); c != nil {
		return c
	}
	return &corev1.Container{Name: name}
}

func (w *worker) hook(ctx context.Context, p *corev1.Pod, s *corev1.PodStatus, c *corev1.Container, id string, hook *corev1.LifecycleHandler) error {
	switch {
	case hook.Exec != nil:
		output, code, err := w.exec(ctx, id, hook.Exec.Command, 0)
		if err != nil {
			return err
		}
		if code != 0 {
			return fmt.Errorf("command '%v' exited with %d: %s", hook.Exec.Command, code, output)
		}
		return nil
	case hook.HTTPGet != nil:
		request, err := probe.Request(ctx, hook.HTTPGet, probe.Target{Pod: p, Container: c, PodIP: s.PodIP})
		if err != nil {
			return err
		}
		response, err := probe.Client(hookTimeout).Do(request)
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, io.LimitReader(response.Body, 1<<20))
		return errors.Join(err, response.Body.Close())
	case hook.Sleep != nil:
		timer := w.cfg.Clock.NewTimer(time.Duration(hook.Sleep.Seconds) * time.Second)
		defer timer.Stop()
		select {
		case <-timer.C():
		case <-ctx.Done():
		}
		return nil
	}
	return errors.New("the hook says nothing to do")
}

func (w *worker) exec(ctx context.Context, id string, command []string, timeout time.Duration) ([]byte, int32, error) {
	return Exec(w.cfg.Runtime)(ctx, id, command, timeout)
}

// Exec returns a probe.Exec over the runtime.
func Exec(runtime runtimeapi.RuntimeServiceClient) probe.Exec {
	return func(ctx context.Context, id string, command []string, timeout time.Duration) ([]byte, int32, error) {
		resp, err := runtime.ExecSync(ctx, &runtimeapi.ExecSyncRequest{ContainerId: id, Cmd: command, Timeout: int64(timeout / time.Second)})
		if err != nil {
			return nil, 0, err
		}
		return append(resp.GetStdout(), resp.GetStderr()...), resp.GetExitCode(), nil
	}
}
