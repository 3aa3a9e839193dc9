package csi

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"howdah.dev/kit/object"
	"howdah.dev/nodeagent/internal/attach"
)

// TestAttachmentIsAwaited uses a volume only after the node has said that it is in use, the controller calls it attached, and the attacher says so.
func TestAttachmentIsAwaited(t *testing.T) {
	t.Parallel()
	w := setup(t)
	w.api.driver = nil // who says nothing has volumes that are attached
	want := wanted()
	unique := object.AttachableName("d", "h")
	w.api.node = &corev1.Node{}
	clk := w.cfg.Clock.(*clocktesting.FakeClock)
	done := make(chan error, 1)
	go func() { _, err := w.Mount(t.Context(), want); done <- err }()
	for range 4 { // it looks and waits
		await(t, clk)
		clk.Step(time.Second)
	}
	await(t, clk)
	if w.heard() != "" || !slices.Equal(w.reported, []corev1.UniqueVolumeName{unique}) {
		t.Errorf("in use %v", w.reported)
	}
	w.api.node = &corev1.Node{Status: corev1.NodeStatus{VolumesAttached: []corev1.AttachedVolume{{Name: unique}}}}
	w.api.attachment = &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: object.AttachmentName("h", "d", "n")},
		Status:     storagev1.VolumeAttachmentStatus{Attached: true, AttachmentMetadata: map[string]string{"device": "sdb"}},
	}
	clk.Step(time.Second)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if w.publish.GetPublishContext()["device"] != "sdb" {
		t.Errorf("published with %v", w.publish.GetPublishContext())
	}
	w.again()
	if got := w.InUse(); !slices.Equal(got, []corev1.UniqueVolumeName{unique}) {
		t.Errorf("after a restart in use: %v", got)
	}
	if err := w.Unmount(t.Context(), "u"); err != nil {
		t.Fatal(err)
	}
	w.sweep(t.Context())
	if len(w.InUse()) != 0 || len(w.reported) != 0 {
		t.Errorf("in use at the end: %v, reported %v", w.InUse(), w.reported)
	}
}

func await(t *testing.T, clk *clocktesting.FakeClock) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !clk.HasWaiters(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("nobody waits")
		}
	}
}

// TestNodeThatIsFull has an attacher find that the node can have no more volumes. Of drivers that do not count as they go nothing is asked.
func TestNodeThatIsFull(t *testing.T) {
	t.Parallel()
	unique := object.AttachableName("d", "h")
	full := &storagev1.VolumeAttachment{
		ObjectMeta: metav1.ObjectMeta{Name: object.AttachmentName("h", "d", "n")},
		Status:     storagev1.VolumeAttachmentStatus{AttachError: &storagev1.VolumeError{Message: "no slot", ErrorCode: ptr.To(int32(codes.ResourceExhausted))}},
	}
	other := full.DeepCopy()
	other.Status.AttachError.ErrorCode = ptr.To(int32(codes.Internal))
	counting := &storagev1.CSIDriver{Spec: storagev1.CSIDriverSpec{NodeAllocatableUpdatePeriodSeconds: ptr.To[int64](10)}}
	for name, c := range map[string]struct {
		about      *storagev1.CSIDriver
		attachment *storagev1.VolumeAttachment
		asks       int
		exhausted  bool
		says       string
	}{
		"no more":                        {counting, full, 1, true, "no slot"},
		"another error":                  {counting, other, 0, false, "volume is not attached to the node yet: context deadline exceeded"},
		"no attachment":                  {counting, nil, 0, false, "volume attachment is not there yet: context deadline exceeded"},
		"a driver that does not count":   {&storagev1.CSIDriver{}, full, 0, false, "volume is not attached to the node yet: context deadline exceeded"},
		"a driver of which nothing said": {nil, full, 0, false, "volume is not attached to the node yet: context deadline exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var asked []string
				a := &api{attachment: c.attachment, node: &corev1.Node{}}
				v := New(Config{
					NodeName: "n", Objects: a, Waiter: reporting(a, unique), Clock: clock.RealClock{}, Exhausted: func(driver string) { asked = append(asked, driver) },
				})
				began := time.Now()
				_, err := v.attached(t.Context(), wanted(), c.about)
				_, exhausted := errors.AsType[*Exhausted](err)
				if time.Since(began) != attach.Timeout || fmt.Sprint(err) != c.says || exhausted != c.exhausted || len(asked) != c.asks {
					t.Errorf("after %v: %v, asked %v", time.Since(began), err, asked)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) { // another volume goes meanwhile
		a := &api{attachment: full, node: &corev1.Node{}}
		v := New(Config{NodeName: "n", Objects: a, Waiter: reporting(a, unique), Clock: clock.RealClock{}, Exhausted: func(string) {
			a.attachment = &storagev1.VolumeAttachment{ObjectMeta: full.ObjectMeta, Status: storagev1.VolumeAttachmentStatus{Attached: true, AttachmentMetadata: map[string]string{"device": "sdb"}}}
			a.node = &corev1.Node{Status: corev1.NodeStatus{VolumesAttached: []corev1.AttachedVolume{{Name: unique}}}}
		}})
		if said, err := v.attached(t.Context(), wanted(), counting); err != nil || said["device"] != "sdb" {
			t.Errorf("%v, %v", said, err)
		}
	})
}

// reporting waits for attachments of a node whose status says that a volume is in use.
func reporting(nodes attach.Nodes, unique corev1.UniqueVolumeName) *attach.Waiter {
	return attach.New(attach.Config{
		NodeName: "n", Nodes: nodes, Reported: func() []corev1.UniqueVolumeName { return []corev1.UniqueVolumeName{unique} }, Clock: clock.RealClock{},
	})
}

func TestWhatAnAttachmentMeans(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		a    storagev1.VolumeAttachment
		says string
	}{
		"attached": {storagev1.VolumeAttachment{Status: storagev1.VolumeAttachmentStatus{Attached: true}}, ""},
		"going":    {storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "a", DeletionTimestamp: &metav1.Time{}}, Status: storagev1.VolumeAttachmentStatus{Attached: true}}, "volume attachment a is being deleted"},
		"failed":   {storagev1.VolumeAttachment{Status: storagev1.VolumeAttachmentStatus{AttachError: &storagev1.VolumeError{Message: "full"}}}, "full"},
		"not yet":  {storagev1.VolumeAttachment{}, "volume attachment is not attached yet"},
	} {
		_, err := judge(&c.a)
		if said := fmt.Sprint(err); (c.says == "") != (err == nil) || err != nil && said != c.says {
			t.Errorf("%s: %v, want %s", name, err, c.says)
		}
	}
}
