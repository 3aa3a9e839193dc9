package stream

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"howdah.dev/nodeagent/internal/cri"
	"howdah.dev/nodeagent/internal/fakecri"
)

// inside has a server with a pod whose container "a" runs, and "b" does not.
func inside(t *testing.T) (*Server, *fakecri.Runtime, *corev1.Pod) {
	t.Helper()
	runtime := fakecri.New()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a"}, {Name: "b"}}}}
	labels := map[string]string{cri.LabelPodName: "p", cri.LabelPodNamespace: "ns", cri.LabelPodUID: "u", cri.LabelContainer: "a"}
	sandbox := &runtimeapi.PodSandboxConfig{Metadata: &runtimeapi.PodSandboxMetadata{Name: "p", Namespace: "ns", Uid: "u"}, Labels: labels}
	made, err := runtime.RunPodSandbox(t.Context(), &runtimeapi.RunPodSandboxRequest{Config: sandbox})
	if err != nil {
		t.Fatal(err)
	}
	c, err := runtime.CreateContainer(t.Context(), &runtimeapi.CreateContainerRequest{
		PodSandboxId: made.GetPodSandboxId(), SandboxConfig: sandbox,
		Config: &runtimeapi.ContainerConfig{Metadata: &runtimeapi.ContainerMetadata{Name: "a"}, Labels: labels, Image: &runtimeapi.ImageSpec{}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := runtime.StartContainer(t.Context(), &runtimeapi.StartContainerRequest{ContainerId: c.GetContainerId()}); err != nil {
		t.Fatal(err)
	}
	clock := clocktesting.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	return New(Config{Runtime: runtime, Clock: clock, CheckpointDir: filepath.Join(t.TempDir(), "checkpoints")}), runtime, pod
}

func TestRun(t *testing.T) {
	t.Parallel()
	s, runtime, pod := inside(t)
	runtime.OnExec(func(container string, command []string) (string, int32) {
		return container + " " + strings.Join(command, ","), int32(len(command) - 1)
	})
	if output, err := s.Run(t.Context(), pod, "a", []string{"date"}); err != nil || string(output) != "a date" {
		t.Errorf("%q, %v", output, err)
	}
	if _, err := s.Run(t.Context(), pod, "a", []string{"date", "-x"}); err == nil || err.Error() != "command 'date -x' exited with 1: " {
		t.Errorf("a failed command: %v", err)
	}
	if _, err := s.Run(t.Context(), pod, "b", []string{"date"}); err == nil || err.Error() != `container not found ("b")` {
		t.Errorf("where nothing runs: %v", err)
	}
}

func TestCheckpoint(t *testing.T) {
	t.Parallel()
	s, runtime, pod := inside(t)
	at, err := s.Checkpoint(t.Context(), pod, "a", 0)
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(s.cfg.CheckpointDir, "checkpoint-p_ns-a-2026-01-02T03:04:05Z.tar"); at != want {
		t.Errorf("written to %s, not %s", at, want)
	}
	if info, err := os.Stat(s.cfg.CheckpointDir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder: %v, %v", info, err)
	}
	if !slices.Contains(runtime.Calls(), "CheckpointContainer a for 2m0s") {
		t.Errorf("the runtime was asked %q", runtime.Calls())
	}
	if _, err := s.Checkpoint(t.Context(), pod, "a", 3*time.Second); err != nil || !slices.Contains(runtime.Calls(), "CheckpointContainer a for 3s") {
		t.Errorf("with a timeout: %v, %q", err, runtime.Calls())
	}
	if _, err := s.Checkpoint(t.Context(), pod, "a", -time.Second); err == nil {
		t.Error("no time was enough")
	}
	if _, err := s.Checkpoint(t.Context(), pod, "b", 0); err == nil || err.Error() != "container b not found" {
		t.Errorf("where nothing runs: %v", err)
	}
}
