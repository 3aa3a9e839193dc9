package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"howdah.dev/kit/obs"
	"howdah.dev/nodeagent/internal/container"
	"howdah.dev/nodeagent/internal/cri"
	"howdah.dev/nodeagent/internal/image"
	"howdah.dev/nodeagent/internal/logs"
	"howdah.dev/nodeagent/internal/pod"
)

// Deadlines of runtime calls.
const (
	callTimeout    = 2 * time.Minute
	isolateTimeout = 15 * time.Second
	startGrace     = 5 * time.Second
)

// Retry pauses.
const (
	retryBase   = 500 * time.Millisecond
	retryMax    = 30 * time.Second
	configRetry = 5 * time.Second
)

// act carries a plan out and reports whether it changed anything, so that
// another look is due at once.
func (w *worker) act(ctx context.Context, p *corev1.Pod, observed *cri.Pod, s *corev1.PodStatus, plan pod.Plan) bool {
	began := w.cfg.Clock.Now()
	if plan.Regroup && !w.regroup(ctx, p, observed, true) {
		w.cfg.Metrics.resizing(w.cfg.Clock.Since(began), false)
		return false
	}
	grouped := w.cfg.Clock.Since(began)
	if plan.Restarting && w.memory.Life < plan.Life {
		w.cfg.Metrics.restarted()
	}
	if len(plan.Stop) > 0 {
		w.remember(observed, plan.Stop)
		w.stopAll(ctx, p, s, plan.Stop, nil, nil)
	}
	for _, id := range plan.Remove {
		if run := observed.ByID(id); run != nil && w.removeContainer(ctx, id) {
			w.removeTraces(ctx, run)
		}
	}
	for _, id := range plan.RemoveSandboxes {
		if _, err := w.removeSandbox(ctx, id); err != nil {
			slog.WarnContext(ctx, "remove an old sandbox", "sandbox", id, "err", err)
		}
	}
	if plan.NewSandbox {
		return w.newSandbox(ctx, p, observed, s, plan.Attempt)
	}
	for name := range plan.Waiting {
		w.cfg.Events.Event(p, name, corev1.EventTypeWarning, "BackOff",
			fmt.Sprintf("Back-off restarting failed container %s in pod %s_%s(%s)", name, p.Name, p.Namespace, p.UID))
	}
	changed := len(plan.Stop) > 0 || plan.Restarting
	if plan.Restarting {
		w.memory.Life = plan.Life
	}
	if plan.Regroup {
		began = w.cfg.Clock.Now()
		resized := w.resize(ctx, p, observed, s, plan.Resize)
		if ctx.Err() == nil { // otherwise another round goes on with it
			w.cfg.Metrics.resizing(grouped+w.cfg.Clock.Since(began), resized)
		}
		changed = resized || changed
	}
	if len(plan.Start) == 0 {
		return changed
	}
	paths, ok := w.setupVolumes(ctx, p, s)
	if !ok {
		return changed
	}
	volumes := mountable{paths: paths}
	if !w.pullVolumes(ctx, p, &volumes) {
		return true
	}
	for _, start := range plan.Start {
		if ctx.Err() != nil {
			return true
		}
		if w.start(ctx, p, observed, s, start, volumes) {
			changed = true
		}
	}
	return changed
}

// later says when to try again what failed: after twice the last pause.
func (w *worker) later(last pod.Trouble, reason string, err error) pod.Trouble {
	pause := min(max(2*last.Pause, retryBase), retryMax)
	return pod.Trouble{Reason: reason, Message: err.Error(), Until: w.cfg.Clock.Now().Add(pause), Pause: pause}
}

// start makes one run of a container and reports whether it got anywhere.
func (w *worker) start(ctx context.Context, p *corev1.Pod, observed *cri.Pod, s *corev1.PodStatus, start pod.Start, volumes mountable) bool {
	c := start.Container
	kind := kindOf(p, c.Name)
	w.cfg.Metrics.containersStarted.WithLabelValues(kind).Inc()
	trouble := func(reason, message string, pause time.Duration) bool {
		w.cfg.Metrics.unstarted(p)
		w.cfg.Metrics.containersFailed.WithLabelValues(kind, reason).Inc()
		w.memory.Trouble[c.Name] = pod.Trouble{Reason: reason, Message: message, Until: w.cfg.Clock.Now().Add(pause)}
		return true // its status is to be said at once
	}
	if w.missingImage(p, c, volumes) {
		return true
	}
	spanCtx, span := w.tracer.startContainer("image pull", c.Name)
	picture, err := w.ensure(join(ctx, spanCtx), p, image.ForContainer(c))
	obs.End(span, err)
	if problem, ok := errors.AsType[*image.Problem](err); ok {
		w.imageFailed(p, c, problem)
		w.cfg.Metrics.containersFailed.WithLabelValues(kind, problem.Reason).Inc()
		return true
	}
	if err != nil {
		return false // interrupted
	}

	if err := w.isolate(ctx, p, observed.Sandbox().ID); err != nil {
		if ctx.Err() != nil {
			return false
		}
		w.cfg.Events.Event(p, c.Name, corev1.EventTypeWarning, "NetworkPolicyNotReady", "Error: "+plain(err))
		return trouble("NetworkPolicyNotReady", plain(err), configRetry)
	}
	spanCtx, span = w.tracer.startContainer("container create", c.Name)
	id, reason, err := w.create(join(ctx, spanCtx), p, observed, s, start, picture, volumes)
	w.cfg.Metrics.mounted(c, volumes.images, err)
	obs.End(span, err)
	if err != nil {
		if ctx.Err() != nil {
			return false
		}
		w.cfg.Events.Event(p, c.Name, corev1.EventTypeWarning, "Failed", "Error: "+said(err))
		return trouble(reason, said(err), configRetry)
	}
	w.memory.Apply(id, pod.Whole(p), c.Resources)
	delete(w.memory.Resize, c.Name)
	w.cfg.Events.Event(p, c.Name, corev1.EventTypeNormal, "Created", "Container created")

	_, span = w.tracer.startContainer("container start", c.Name)
	err = w.launch(ctx, id)
	obs.End(span, err)
	w.memory.Backoff[c.Name] = start.Backoff
	if err != nil {
		w.cfg.Events.Event(p, c.Name, corev1.EventTypeWarning, "Failed", "Error: "+said(err))
		return trouble("RunContainerError", said(err), 0)
	}
	delete(w.memory.Trouble, c.Name)
	w.cfg.Events.Event(p, c.Name, corev1.EventTypeNormal, "Started", "Container started")
	w.linkLog(ctx, p, c.Name, id, start.Attempt)
	w.tracer.started(c, id)
	w.postStart(ctx, p, s, c, id)
	return true
}

// linkLog makes the link by which programs of the node find a run's log.
func (w *worker) linkLog(ctx context.Context, p *corev1.Pod, name, id string, attempt int32) {
	log := filepath.Join(container.LogDirectory(w.cfg.Node().LogDir, p.Namespace, p.Name, string(p.UID)), name, container.LogFile(attempt))
	if err := w.cfg.LogLinks.Add(w.cfg.LogLinks.Name(p.Name, p.Namespace, name, id), log); err != nil {
		slog.WarnContext(ctx, "link a container's log", "namespace", p.Namespace, "name", p.Name, "container", name, "err", err)
	}
}

// isolate waits for the pod's network policies.
func (w *worker) isolate(ctx context.Context, p *corev1.Pod, sandbox string) error {
	spanCtx, span := w.tracer.start("network policies")
	ctx, cancel := context.WithTimeout(join(ctx, spanCtx), isolateTimeout)
	defer cancel()
	err := w.cfg.Isolate(ctx, p, sandbox)
	obs.End(span, err)
	return err
}

// create makes the container; reason names the failure as a waiting state does.
func (w *worker) create(ctx context.Context, p *corev1.Pod, observed *cri.Pod, s *corev1.PodStatus, start pod.Start, picture image.Image, volumes mountable) (id, reason string, _ error) {
	c := start.Container
	target, err := targetOf(p, c, observed)
	if err != nil {
		return "", "CreateContainerConfigError", err
	}
	b, err := w.builder(p, s, observed.Sandbox().Handler)
	if err != nil {
		return "", "CreateContainerConfigError", err
	}
	own, err := w.cfg.Assigner.Own(ctx, p, c)
	if err != nil {
		return "", "CreateContainerConfigError", err
	}
	config, err := b.Container(ctx, container.Run{
		Target: target, Own: own,
		Container: c, Attempt: start.Attempt, Life: start.Life, ImageRef: picture.ID, ImageUser: picture.User, Volumes: volumes.paths, Images: volumes.images,
		SubPath: func(name, sub string) (string, error) {
			return w.cfg.Volumes.SubPath(p, c.Name, volumes.paths.Mounts[name], sub)
		},
	})
	if err != nil {
		return "", "CreateContainerConfigError", err
	}
	sandboxConfig, err := b.Sandbox(observed.Sandbox().Attempt)
	if err != nil {
		return "", "CreateContainerConfigError", err
	}
	if err := os.MkdirAll(filepath.Join(sandboxConfig.GetLogDirectory(), c.Name), 0o755); err != nil {
		return "", "CreateContainerError", err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	resp, err := w.cfg.Runtime.CreateContainer(ctx, &runtimeapi.CreateContainerRequest{
		PodSandboxId: observed.Sandbox().ID, Config: config, SandboxConfig: sandboxConfig,
	})
	return resp.GetContainerId(), "CreateContainerError", err
}

// targetOf returns the ID of the run whose processes an ephemeral container is to see, "" where it names none. Of one that has ended the runtime says so.
func targetOf(p *corev1.Pod, c *corev1.Container, observed *cri.Pod) (string, error) {
	e := pod.Ephemeral(p, c.Name)
	if e == nil || e.TargetContainerName == "" {
		return "", nil
	}
	run := observed.Latest(e.TargetContainerName)
	if run == nil {
		return "", fmt.Errorf("unable to find target container %s", e.TargetContainerName)
	}
	return run.ID, nil
}

// launch starts the container. The runtime takes back what it has begun when the call is broken off, so that a start that is under way while the
// agent ends, or the pod changes, has startGrace to end.
func (w *worker) launch(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	ctx, cancel = outlasting(ctx, startGrace)
	defer cancel()
	_, err := w.cfg.Runtime.StartContainer(ctx, &runtimeapi.StartContainerRequest{ContainerId: id})
	return err
}

// outlasting returns a context that ends when ctx has been over for the grace.
func outlasting(ctx context.Context, grace time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	unwatch := context.AfterFunc(ctx, func() { time.AfterFunc(grace, cancel) })
	return longer, func() {
		unwatch()
		cancel()
	}
}

// removeContainer reports whether it could.
func (w *worker) removeContainer(ctx context.Context, id string) bool {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if _, err := w.cfg.Runtime.RemoveContainer(ctx, &runtimeapi.RemoveContainerRequest{ContainerId: id}); err != nil {
		slog.WarnContext(ctx, "remove a container", "container", id, "err", err)
		return false
	}
	w.cfg.Observer.Forget(id)
	delete(w.memory.Probes, id)
	return true
}

// removeTraces removes the files of one run of a container that restarts on and on: nobody can ask for them any more.
func (w *worker) removeTraces(ctx context.Context, run *cri.Container) {
	if w.cfg.LogsLeave != nil && run.LogPath != "" {
		w.cfg.LogsLeave(run.LogPath)
	}
	if err := errors.Join(logs.Remove(run.LogPath), w.cfg.LogLinks.Sweep(), removeFile(run.Annotations[cri.AnnotationMessageFile])); err != nil {
		slog.WarnContext(ctx, "remove the files of an old run", "container", run.ID, "err", err)
	}
}

func removeFile(path string) error {
	if path == "" {
		return nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

// said is what the runtime says of a container that it could not make or start, which a kubelet tells without the code.
func said(err error) string {
	if s, ok := status.FromError(err); ok {
		return s.Message()
	}
	return err.Error()
}

// plain is an error's text without the client's wrapping.
func plain(err error) string {
	if s, ok := status.FromError(err); ok {
		return "rpc error: code = " + s.Code().String() + " desc = " + s.Message()
	}
	return err.Error()
}
