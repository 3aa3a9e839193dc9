package worker

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func (w *world) isolate(ctx context.Context, _ *corev1.Pod, _ string) error {
	if w.isolated == nil {
		return nil
	}
	select {
	case err := <-w.isolated:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Nothing of a pod runs before its network policies are in force; why it waits is told.
func TestContainersWaitForNetworkPolicies(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.isolated = make(chan error)
	m, _ := w.start()
	p := newPod("p", "a")
	m.Update(p)
	w.isolated <- errors.New("the maps are full")
	w.eventually("waiting", func() bool {
		s := w.status(p.UID)
		return len(s.ContainerStatuses) == 1 && s.ContainerStatuses[0].State.Waiting != nil && s.ContainerStatuses[0].State.Waiting.Reason == "NetworkPolicyNotReady" &&
			s.ContainerStatuses[0].State.Waiting.Message == "the maps are full"
	})
	if calls := w.runtime.Calls(); !slices.Equal(calls, []string{"RunPodSandbox p"}) {
		t.Errorf("calls before the policies are in force:\n%s", strings.Join(calls, "\n"))
	}
	w.mu.Lock()
	if !slices.Contains(w.events, "a NetworkPolicyNotReady: Error: the maps are full") {
		t.Errorf("events %q", w.events)
	}
	w.mu.Unlock()
	close(w.isolated) // from now on, they are
	w.eventually("ready", w.ready(p.UID))
}
