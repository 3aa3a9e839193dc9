package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
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
	w.cfg.Events.Event(p, c.Name, corev1.EventTypeWarning, "FailedPostStartHook", "PostStartHook failed") // what it said may be a secret
	w.memory.Trouble[c.Name] = pod.Trouble{Reason: "PostStartHookError", Message: err.Error()}
	w.stopAll(ctx, p, s, []pod.Stop{{Run: &cri.Container{ID: id, Name: c.Name}, Message: "FailedPostStartHook"}}, nil, nil)
}

// preStop runs the hook of a container that is about to end. Its failure
// keeps nothing from ending.
func (w *worker) preStop(ctx context.Context, p *corev1.Pod, s *corev1.PodStatus, run *cri.Container, hook *corev1.LifecycleHandler) {
	c := specOf(p, run.Name)
	if err := w.hook(ctx, p, s, c, run.ID, hook); err != nil {
		w.cfg.Events.Event(p, run.Name, corev1.EventTypeWarning, "FailedPreStopHook", "PreStopHook failed")
		slog.InfoContext(ctx, "preStop hook failed", "namespace", p.Namespace, "name", p.Name, "container", run.Name, "err", err)
	}
}

func specOf(p *corev1.Pod, name string) *corev1.Container {
	if c := pod.Find(p, name); c != nil {
		return c
	}
	return &corev1.Container{Name: name}
}

// hook runs a hook. Its error says of which container of which pod.
func (w *worker) hook(ctx context.Context, p *corev1.Pod, s *corev1.PodStatus, c *corev1.Container, id string, hook *corev1.LifecycleHandler) error {
	of := fmt.Sprintf("for Container %q in Pod \"%s_%s(%s)\" failed - error", c.Name, p.Name, p.Namespace, p.UID)
	switch {
	case hook.Exec != nil:
		if output, err := w.command(ctx, id, hook.Exec.Command); err != nil {
			return fmt.Errorf("Exec lifecycle hook (%v) %s: %w, message: %q", hook.Exec.Command, of, err, output)
		}
		return nil
	case hook.HTTPGet != nil:
		if err := w.get(ctx, hook.HTTPGet, probe.Target{Pod: p, Container: c, PodIP: s.PodIP}); err != nil {
			return fmt.Errorf("HTTP lifecycle hook (%s) %s: %w", hook.HTTPGet.Path, of, err)
		}
		return nil
	case hook.Sleep != nil:
		timer := w.cfg.Clock.NewTimer(time.Duration(hook.Sleep.Seconds) * time.Second)
		defer timer.Stop()
		select {
		case <-timer.C():
		case <-ctx.Done():
			w.cfg.Metrics.awoken.Inc()
		}
		return nil
	}
	return errors.New("the hook says nothing to do")
}

// command runs a hook's command. One that ends with a code other than 0 is an error, which tells of what it wrote about it.
func (w *worker) command(ctx context.Context, id string, command []string) (output []byte, _ error) {
	resp, err := w.cfg.Runtime.ExecSync(ctx, &runtimeapi.ExecSyncRequest{ContainerId: id, Cmd: command})
	if err != nil {
		return nil, err
	}
	if code := resp.GetExitCode(); code != 0 {
		err = fmt.Errorf("command '%s' exited with %d: %s", strings.Join(command, " "), code, resp.GetStderr())
	}
	return append(resp.GetStdout(), resp.GetStderr()...), err
}

// get asks what a hook names; any answer will do. A server that answers a TLS client in plain text is asked once more without, and without what is not for everybody's eyes:
// for HTTPS was once taken as HTTP.
func (w *worker) get(ctx context.Context, action *corev1.HTTPGetAction, target probe.Target) error {
	request, err := probe.Request(ctx, action, target)
	if err != nil {
		return err
	}
	err = send(request)
	if !errors.Is(err, http.ErrSchemeMismatch) {
		return err
	}
	plain := request.Clone(ctx)
	plain.URL.Scheme = "http"
	plain.Header.Del("Authorization")
	if send(plain) != nil {
		return err
	}
	w.cfg.Metrics.fellBack.Inc()
	w.cfg.Events.Event(target.Pod, "", corev1.EventTypeWarning, "LifecycleHTTPFallback",
		fmt.Sprintf("request to HTTPS lifecycle hook %s got HTTP response, retry with HTTP succeeded", request.URL.Host))
	return nil
}

func send(request *http.Request) error {
	response, err := probe.Client(hookTimeout).Do(request)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, io.LimitReader(response.Body, 1<<20))
	return errors.Join(err, response.Body.Close())
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
