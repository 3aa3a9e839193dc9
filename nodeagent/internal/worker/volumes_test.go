package worker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"

	"howdah.dev/nodeagent/internal/csi"
)

// imagePod has one container without a volume, and those that are named, which mount an image.
func imagePod(reference string, policy corev1.PullPolicy, mounting ...string) *corev1.Pod {
	p := newPod("p", append([]string{"plain"}, mounting...)...)
	p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Image: &corev1.ImageVolumeSource{Reference: reference, PullPolicy: policy}}}}
	for i := range mounting {
		p.Spec.Containers[i+1].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v", SubPath: "etc"}}
	}
	return p
}

func (w *world) pulls(name string) int {
	count := 0
	for _, call := range w.runtime.Calls() {
		if call == "PullImage "+name {
			count++
		}
	}
	return count
}

func (w *world) told(event string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.ContainsFunc(w.events, func(e string) bool { return strings.HasPrefix(e, event) })
}

func TestImageVolumeIsPulledOnceForAllThatMountIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m, _ := w.start()
	p := imagePod("v:1", corev1.PullAlways, "a", "b")
	m.Update(p)
	w.eventually("ready", w.ready(p.UID))
	if n := w.pulls("docker.io/library/v:1"); n != 1 {
		t.Errorf("%d pulls", n)
	}
	if !w.told(` Pulling: Pulling image "v:1"`) || !w.told(` Pulled: Successfully pulled image "v:1" in `) {
		t.Errorf("events of the pod: %v", w.events)
	}
	for _, name := range []string{"a", "b"} {
		mount := w.runtime.Config(name).GetMounts()[0]
		if mount.GetImage().GetImage() != "sha256:docker.io/library/v:1" || mount.GetImageSubPath() != "etc" || !mount.GetReadonly() {
			t.Errorf("%s mounts %v", name, mount)
		}
	}
	if s := w.status(p.UID); len(s.ContainerStatuses[2].VolumeMounts) != 0 || len(s.ContainerStatuses[0].VolumeMounts) != 1 || s.ContainerStatuses[0].VolumeMounts[0].MountPath != "/v" {
		t.Errorf("status: %v", s.ContainerStatuses)
	}
}

func TestImageVolumeThatIsNotThereBlocksWhoMountsIt(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.runtime.OnPull(func(_ context.Context, name string) error { return errors.New("no registry has " + name) })
	m, _ := w.start()
	p := imagePod("localhost/invalid", "", "a")
	m.Update(p)
	w.eventually("backing off", func() bool {
		s := w.status(p.UID)
		return len(s.ContainerStatuses) == 2 && s.ContainerStatuses[0].State.Waiting != nil && s.ContainerStatuses[0].State.Waiting.Reason == "ImagePullBackOff"
	})
	s := w.status(p.UID)
	if want := `Back-off pulling image "localhost/invalid": ErrImagePull: no registry has localhost/invalid:latest`; s.ContainerStatuses[0].State.Waiting.Message != want {
		t.Errorf("message %q, want %q", s.ContainerStatuses[0].State.Waiting.Message, want)
	}
	if s.ContainerStatuses[1].State.Running == nil {
		t.Errorf("the container without the volume does not run: %v", s.ContainerStatuses[1].State)
	}
	for _, event := range []string{
		` Failed: Failed to pull image "localhost/invalid": no registry has localhost/invalid:latest`, "a Failed: Error: ErrImagePull",
		` BackOff: Back-off pulling image "localhost/invalid"`, "a Failed: Error: ImagePullBackOff",
	} {
		if !w.told(event) {
			t.Errorf("no event %q in %v", event, w.events)
		}
	}
}

// An image is the pod's, whoever mounts it; and only who mounts it needs it.
func TestImageVolumeThatNobodyMountsIsPulled(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m, _ := w.start()
	p := imagePod("v:1", corev1.PullAlways)
	m.Update(p)
	w.eventually("ready", w.ready(p.UID))
	if n := w.pulls("docker.io/library/v:1"); n != 1 {
		t.Errorf("%d pulls", n)
	}
	w.runtime.OnPull(func(_ context.Context, name string) error { return errors.New("no registry has " + name) })
	second := imagePod("localhost/invalid", corev1.PullAlways)
	second.Name, second.UID = "second", "uid-second"
	m.Update(second)
	w.eventually("ready without it", w.ready(second.UID))
	if !w.told(` Failed: Failed to pull image "localhost/invalid": no registry has localhost/invalid:latest`) {
		t.Errorf("events %v", w.events)
	}
}

// A pod that cannot have its volumes here because the node has as many as it can is for another node.
func TestPodWhoseNodeHasNoRoomForItsVolumes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.volumes = fmt.Errorf("attach: %w", &csi.Exhausted{Message: "no slot"})
	m, _ := w.start()
	p := newPod("p", "c")
	m.Update(p)
	w.eventually("failed", func() bool { return w.status(p.UID).Phase == corev1.PodFailed })
	s := w.status(p.UID)
	const message = "Node has reached its volume attachment limit, rejecting pod. attach: no slot"
	if s.Reason != "VolumeAttachmentLimitExceeded" || s.Message != "Pod was rejected: "+message || len(s.ContainerStatuses) != 0 {
		t.Errorf("%+v", s)
	}
	if !w.told(" VolumeAttachmentLimitExceeded: " + message) {
		t.Errorf("events %v", w.events)
	}
	if n := testutil.ToFloat64(m.cfg.Metrics.rejections.WithLabelValues("VolumeAttachmentLimitExceeded")); n != 1 {
		t.Errorf("%v rejections", n)
	}
}

// A pod whose volumes cannot be taken away is tried again after longer and longer pauses, and leaves once they can.
func TestTakingVolumesAwayBacksOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.stuck = 6
		m, _ := w.start()
		m.Update(newPod("p", "c"))
		w.eventually("ready", w.ready("uid-p"))
		m.Update(endingPod(newPod("p", "c"), 0))
		w.eventually("gone", func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return len(w.deleted) == 1
		})
		var pauses []time.Duration
		for i := range w.cleanups[1:] {
			pauses = append(pauses, w.cleanups[i+1].Sub(w.cleanups[i]))
		}
		const s = time.Second
		// News of the sandbox's end may come into the first.
		if want := []time.Duration{2 * s, 4 * s, 8 * s, 16 * s, 16 * s}; !slices.Equal(pauses[1:], want) {
			t.Errorf("pauses %v, want %v", pauses, want)
		}
	})
}
