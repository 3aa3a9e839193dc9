package attachdetach

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/controller/controllertest"
)

func pod(name, node string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}, Spec: corev1.PodSpec{NodeName: node, Volumes: []corev1.Volume{{
		Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}},
	}}}}
}

// TestVolumeMoves follows a volume that one node has at a time from the first to the second: both ask for it at the same time, and the second gets it
// only when the first has said that it does not use it any more.
func TestVolumeMoves(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	metrics := NewMetrics(registry)
	c := controllertest.Start(t, clock.RealClock{}, nil, func(env *controller.Env) (controller.Unit, error) { return New(env, metrics), nil })
	for _, name := range []string{"n1", "n2"} {
		controllertest.Create(c, object.Node, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{managed: "true"}}})
	}
	claim := controllertest.Create(c, object.PersistentVolumeClaim, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "pv"},
	})
	controllertest.Create(c, object.PersistentVolume, &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: corev1.PersistentVolumeSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, ClaimRef: &corev1.ObjectReference{Namespace: "ns", Name: "c", UID: claim.UID},
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: "h"}},
	}})
	controllertest.Create(c, object.Pod, pod("p1", "n1"))
	controllertest.Create(c, object.Pod, pod("p2", "n2"))
	var first *storagev1.VolumeAttachment
	controllertest.Await(c, object.VolumeAttachment, "an attachment", func(all []*storagev1.VolumeAttachment) bool {
		if len(all) > 1 {
			t.Fatalf("attached to two nodes: %v", all)
		}
		if len(all) == 1 {
			first = all[0]
		}
		return len(all) == 1
	})
	has, wants := first.Spec.NodeName, map[string]string{"n1": "n2", "n2": "n1"}[first.Spec.NodeName]
	if first.Name != object.AttachmentName("h", "d", has) || first.Spec.Attacher != "d" || *first.Spec.Source.PersistentVolumeName != "pv" {
		t.Errorf("attachment %v", first)
	}
	inUse := func(names ...corev1.UniqueVolumeName) {
		t.Helper()
		for { // the controller writes, too
			n, err := object.For(c.Client, object.Node).Get(t.Context(), "", has)
			if err != nil {
				t.Fatal(err)
			}
			n.Status.VolumesInUse = names
			if _, err = object.For(c.Client, object.Node).UpdateStatus(t.Context(), n); err == nil {
				return
			}
		}
	}
	inUse(unique)
	first.Status.Attached = true
	controllertest.UpdateStatus(c, object.VolumeAttachment, first)
	told := func(want bool) {
		t.Helper()
		controllertest.Await(c, object.Node, "the node is told", func(all []*corev1.Node) bool {
			for _, n := range all {
				if n.Name == has {
					return (len(n.Status.VolumesAttached) == 1) == want
				}
			}
			return false
		})
	}
	told(true)
	controllertest.Delete(c, object.Pod, "ns", map[string]string{"n1": "p1", "n2": "p2"}[has], metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
	told(true)
	inUse()
	controllertest.Await(c, object.VolumeAttachment, "the other node has it", func(all []*storagev1.VolumeAttachment) bool {
		return len(all) == 1 && all[0].Spec.NodeName == wants
	})
	told(false)
	want := `# HELP attachdetach_controller_total_volumes Volumes that are wanted on nodes (desired_state_of_world), and those that are attached (actual_state_of_world).
# TYPE attachdetach_controller_total_volumes gauge
attachdetach_controller_total_volumes{plugin_name="kubernetes.io/csi:d",state="desired_state_of_world"} 1
# HELP storage_count_attachable_volumes_in_use Volumes that the pods of a node have, of the kinds that are attached.
# TYPE storage_count_attachable_volumes_in_use gauge
storage_count_attachable_volumes_in_use{node="` + wants + `",volume_plugin="kubernetes.io/csi:d"} 1
`
	controllertest.Soon(t, "volumes are counted", func() bool { // from a cache
		return testutil.GatherAndCompare(registry, strings.NewReader(want), "attachdetach_controller_total_volumes", "storage_count_attachable_volumes_in_use") == nil
	})
	for _, operation := range []string{attaching, detaching} {
		controllertest.Soon(t, operation+" is measured", func() bool {
			n, _ := measured(t, registry, operation, "success")
			return n == 1
		})
	}
}

// TestUnansweredAttachment has the attachment of a volume to a first node fail without it being known whether it was made. While it may have been, a second
// node must not get the volume, which it gets once the first one cannot have it.
func TestUnansweredAttachment(t *testing.T) {
	t.Parallel()
	const unanswered = "unanswered"
	for name, made := range map[string]bool{"made": true, "not made": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first, second := make(chan struct{}), make(chan struct{})
			firstOnce, secondOnce := sync.OnceFunc(func() { close(first) }), sync.OnceFunc(func() { close(second) })
			var late *objecttest.Late
			c := controllertest.Start(t, clock.RealClock{}, func(c *controllertest.Cluster) {
				late, c.Client = c.API.ServeLate(t)
				c.API.Intercept = func(w objecttest.Write) error {
					a, ok := w.Object.(*storagev1.VolumeAttachment)
					switch {
					case !ok || a.Labels[unanswered] != "":
						return nil
					case a.Spec.NodeName == "n2":
						secondOnce()
						return nil
					}
					firstOnce()
					return apierrors.NewInternalError(errors.New("no answer"))
				}
			}, func(env *controller.Env) (controller.Unit, error) { return New(env, nil), nil })
			for _, name := range []string{"n1", "n2"} {
				controllertest.Create(c, object.Node, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{managed: "true"}}})
			}
			claim := controllertest.Create(c, object.PersistentVolumeClaim, &corev1.PersistentVolumeClaim{
				ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}, Spec: corev1.PersistentVolumeClaimSpec{VolumeName: "pv"},
			})
			controllertest.Create(c, object.PersistentVolume, &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: corev1.PersistentVolumeSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, ClaimRef: &corev1.ObjectReference{Namespace: "ns", Name: "c", UID: claim.UID},
				PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: "h"}},
			}})
			release := late.Hold("volumeattachments")
			defer release()
			controllertest.Create(c, object.Pod, pod("p1", "n1"))
			<-first
			if made {
				controllertest.Create(c, object.VolumeAttachment, &storagev1.VolumeAttachment{
					ObjectMeta: metav1.ObjectMeta{Name: object.AttachmentName("h", "d", "n1"), Labels: map[string]string{unanswered: "true"}},
					Spec:       storagev1.VolumeAttachmentSpec{Attacher: "d", NodeName: "n1", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: ptr.To("pv")}},
				})
			}
			controllertest.Create(c, object.Pod, pod("p2", "n2"))
			select {
			case <-second:
				t.Fatal("the second node gets what the first may have")
			case <-time.After(200 * time.Millisecond): // nothing tells that it has looked
			}
			if made {
				release()
				for event := range c.Events.Events {
					if strings.Contains(event, "Multi-Attach") {
						break
					}
				}
			}
			controllertest.Delete(c, object.Pod, "ns", "p1", metav1.DeleteOptions{GracePeriodSeconds: new(int64)})
			<-second
		})
	}
}
