package attachdetach

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
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
