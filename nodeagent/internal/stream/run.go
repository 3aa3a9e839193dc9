package stream

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"howdah.dev/nodeagent/internal/cri"
)

// checkpointTimeout bounds a checkpoint for which nobody names a time, as a kubelet's timeout of its runtime does.
const checkpointTimeout = 2 * time.Minute

// Run runs a command in a container until it ends, and returns what it has written: to its output, then to its errors. That it ends with another
// code than 0 is an error.
func (s *Server) Run(ctx context.Context, pod *corev1.Pod, container string, command []string) ([]byte, error) {
	run, err := s.latest(ctx, pod, container)
	if err != nil {
		return nil, err
	}
	if run == nil {
		return nil, fmt.Errorf("container not found (%q)", container)
	}
	resp, err := s.cfg.Runtime.ExecSync(ctx, &runtimeapi.ExecSyncRequest{ContainerId: run.ID, Cmd: command})
	if err != nil {
		return nil, err
	}
	if code := resp.GetExitCode(); code != 0 {
		return nil, fmt.Errorf("command '%s' exited with %d: %s", strings.Join(command, " "), code, resp.GetStderr())
	}
	return append(resp.GetStdout(), resp.GetStderr()...), nil
}

// Checkpoint has the runtime write what a container holds, its memory with all that is secret in it, into an archive that root alone may read, and
// returns the archive's path. A timeout of 0 is the default.
func (s *Server) Checkpoint(ctx context.Context, pod *corev1.Pod, container string, timeout time.Duration) (string, error) {
	run, err := s.latest(ctx, pod, container)
	switch {
	case err != nil:
		return "", err
	case run == nil:
		return "", fmt.Errorf("container %s not found", container)
	case timeout < 0:
		return "", fmt.Errorf("the timeout has to be greater than 0")
	case timeout == 0:
		timeout = checkpointTimeout
	}
	if err := os.MkdirAll(s.cfg.CheckpointDir, 0o700); err != nil {
		return "", err
	}
	file := fmt.Sprintf("checkpoint-%s_%s-%s-%s.tar", pod.Name, pod.Namespace, container, s.cfg.Clock.Now().Format(time.RFC3339))
	at := filepath.Join(s.cfg.CheckpointDir, file)
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	_, err = s.cfg.Runtime.CheckpointContainer(ctx, &runtimeapi.CheckpointContainerRequest{
		ContainerId: run.ID, Location: at, Timeout: int64(timeout / time.Second),
	})
	return at, err
}

// latest is the container's run if it runs, nil where it does not.
func (s *Server) latest(ctx context.Context, pod *corev1.Pod, container string) (*cri.Container, error) {
	observed, err := s.observer.Observe(ctx, pod.UID)
	if err != nil {
		return nil, err
	}
	if run := observed.Latest(container); run != nil && run.State == cri.Running {
		return run, nil
	}
	return nil, nil
}
