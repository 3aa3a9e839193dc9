package worker

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// Between the end of a container whose image was changed and the start of its successor nothing is said of the pod, unless the image is
// yet to come.
func TestAPodWhoseImageIsChangedStaysReady(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		policy corev1.PullPolicy
		ready  bool
	}{
		"the image is there":        {corev1.PullIfNotPresent, true},
		"the image is to be pulled": {corev1.PullAlways, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.runtime.AddImage("docker.io/library/i:2")
			m, _ := w.start()
			p := newPod("p", "a")
			p.Spec.Containers[0].ImagePullPolicy = c.policy
			m.Update(p)
			w.eventually("ready", w.ready(p.UID))
			w.mu.Lock()
			before := len(w.reports)
			p.Status = w.statuses[p.UID]
			w.mu.Unlock()

			p = p.DeepCopy()
			p.Spec.Containers[0].Image = "i:2"
			m.Update(p)
			w.eventually("started anew", func() bool {
				s := w.status(p.UID)
				return s.ContainerStatuses[0].RestartCount == 1 && s.ContainerStatuses[0].Ready
			})
			w.mu.Lock()
			defer w.mu.Unlock()
			unready := slices.ContainsFunc(w.reports[before:], func(s corev1.PodStatus) bool { return !s.ContainerStatuses[0].Ready })
			if unready == c.ready {
				t.Errorf("said to be unready: %v", unready)
			}
		})
	}
}
