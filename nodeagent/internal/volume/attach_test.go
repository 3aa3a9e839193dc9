package volume

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	podof "howdah.dev/nodeagent/internal/pod"
)

// attachments is the controller, as the node sees it.
type attachments struct {
	m       *Manager
	answer  error
	nobody  bool
	waited  []string // for what, and what was in use then
	changed int
}

func (a *attachments) WaitNoted(_ context.Context, plugin string, name corev1.UniqueVolumeName) (bool, error) {
	said := plugin + " " + string(name)
	if !slices.Contains(a.m.InUse(), name) {
		said += " not in use"
	}
	a.waited = append(a.waited, said)
	// Nobody waits for the target meanwhile.
	if end, err := a.m.targets.Take(context.Background(), target); err == nil {
		end()
	}
	return !a.nobody && a.answer == nil, a.answer
}

func (a *attachments) Changed() { a.changed++ }

func setupAttachments(t *testing.T, volumes ...*corev1.PersistentVolume) (*initiator, *attachments) {
	t.Helper()
	n := setupISCSI(t, volumes...)
	a := &attachments{m: n.m}
	n.m.cfg.Attachments = a
	return n, a
}

// TestISCSIIsAttachedFirst says that the disk is in use, waits until the controller calls it attached, and only then goes to the target. What a pod has
// is not asked for again, and when the node has given the disk back it says so.
func TestISCSIIsAttachedFirst(t *testing.T) {
	t.Parallel()
	n, a := setupAttachments(t, iscsiVolume(nil))
	inUse := func(what string, names ...corev1.UniqueVolumeName) {
		t.Helper()
		if got := n.m.InUse(); !slices.Equal(got, names) {
			t.Errorf("%s: in use %v, want %v", what, got, names)
		}
	}
	const name = "kubernetes.io/iscsi/192.0.2.7:" + target + ":0"
	p := podWith(claimed(false))
	a.answer = errors.New("volume is not attached to the node yet")
	_, err := n.m.Setup(t.Context(), p, &corev1.PodStatus{})
	if err == nil || err.Error() != `MountVolume.WaitForAttach failed for volume "pv" : volume is not attached to the node yet` || Reason(err) != "FailedMount" {
		t.Errorf("%v", err)
	}
	n.runs(t, "while another node has it")
	inUse("while it waits", name)
	a.answer = nil
	n.setup(t, p)
	n.runs(t, "attached", append(slices.Clone(logsIn), formats...)...)
	n.setup(t, p)
	if want := "kubernetes.io/iscsi " + name; !slices.Equal(a.waited, []string{want, want}) {
		t.Errorf("waited for %v", a.waited)
	}
	n.setup(t, iscsiPod("b", func(s *corev1.ISCSIVolumeSource) { s.TargetPortal = portal }))
	inUse("by two spellings", "kubernetes.io/iscsi/"+portal+":"+target+":0", name)
	n.cleanup(t, "u")
	n.cleanup(t, "b")
	n.restart()
	inUse("before it is given back", "kubernetes.io/iscsi/"+portal+":"+target+":0", name)
	if a.changed != 0 {
		t.Error("it says that it has given back what it has")
	}
	n.m.sweep(t.Context())
	inUse("given back")
	if a.changed != 1 {
		t.Errorf("it says %d times that it has given it back", a.changed)
	}
	n.bare(t)
}

// TestISCSIThatWasNeverAttached leaves nothing of a disk that a pod waited for in vain.
func TestISCSIThatWasNeverAttached(t *testing.T) {
	t.Parallel()
	n, a := setupAttachments(t)
	a.answer = context.Canceled
	if _, err := n.m.Setup(t.Context(), iscsiPod("a", nil), &corev1.PodStatus{}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	n.cleanup(t, "a")
	n.m.sweep(t.Context())
	if got := n.m.InUse(); len(got) > 0 {
		t.Errorf("in use %v", got)
	}
	for _, line := range n.ran() {
		if strings.Contains(line, "--login") || strings.Contains(line, "mount") {
			t.Errorf("ran %s", line)
		}
	}
	n.bare(t)
}

// TestISCSIThatNobodyAttaches is used as it is where no controller looks after it, and by the node's own pods, without which there may be no API.
func TestISCSIThatNobodyAttaches(t *testing.T) {
	t.Parallel()
	n, a := setupAttachments(t)
	a.nobody = true
	n.setup(t, iscsiPod("a", nil))
	if len(n.ran()) != len(logsIn)+len(formats) || len(a.waited) != 1 {
		t.Errorf("waited for %v", a.waited)
	}
	own := iscsiPod("own", nil)
	own.Annotations = map[string]string{podof.SourceAnnotation: "file"}
	a.answer = errors.New("no API")
	n.setup(t, own)
	if len(a.waited) != 1 {
		t.Errorf("waited for %v", a.waited)
	}
}

// TestISCSIDeviceIsAttachedFirst names the step of a block device.
func TestISCSIDeviceIsAttachedFirst(t *testing.T) {
	t.Parallel()
	n, a := setupAttachments(t, iscsiVolume(asBlock))
	a.answer = os.ErrDeadlineExceeded
	_, err := n.m.Setup(t.Context(), withDevice(podWith(claimed(false))), &corev1.PodStatus{})
	if err == nil || !strings.HasPrefix(err.Error(), `MapVolume.WaitForAttach failed for volume "pv" : `) || Reason(err) != "FailedMapVolume" {
		t.Errorf("%v", err)
	}
}
