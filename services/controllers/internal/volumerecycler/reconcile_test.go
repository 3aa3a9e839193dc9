package volumerecycler

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"

	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/controller/controllertest"
)

// TestNothingIsWipedInUse has a cache that shows a released volume. It is wiped only if that is so now, and no pod that runs has it still.
func TestNothingIsWipedInUse(t *testing.T) {
	t.Parallel()
	user := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "user"}, Spec: corev1.PodSpec{NodeName: "n", Volumes: []corev1.Volume{{
		Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}},
	}}}}
	for name, test := range map[string]struct {
		before, after func(c *controllertest.Cluster, v *corev1.PersistentVolume)
		wiped         bool
	}{
		"released": {wiped: true},
		"bound to another claim since": {after: func(c *controllertest.Cluster, v *corev1.PersistentVolume) {
			v.Spec.ClaimRef.Name, v.Spec.ClaimRef.UID = "d", "another"
			v, err := object.For(c.Client, object.PersistentVolume).Update(t.Context(), v)
			if err != nil {
				c.Fatal(err)
			}
			v.Status.Phase = corev1.VolumeBound
			controllertest.UpdateStatus(c, object.PersistentVolume, v)
		}},
		"gone": {after: func(c *controllertest.Cluster, _ *corev1.PersistentVolume) {
			controllertest.Delete(c, object.PersistentVolume, "", "v", metav1.DeleteOptions{})
		}},
		"used by a pod that runs": {before: func(c *controllertest.Cluster, _ *corev1.PersistentVolume) {
			controllertest.Create(c, object.Pod, user.DeepCopy())
		}},
		"used by a pod that has ended": {wiped: true, before: func(c *controllertest.Cluster, _ *corev1.PersistentVolume) {
			ended := controllertest.Create(c, object.Pod, user.DeepCopy())
			ended.Status.Phase = corev1.PodSucceeded
			controllertest.UpdateStatus(c, object.Pod, ended)
		}},
		"whose claim has a namesake, which a pod uses": {wiped: true, before: func(c *controllertest.Cluster, _ *corev1.PersistentVolume) {
			controllertest.Create(c, object.PersistentVolumeClaim, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c"}})
			controllertest.Create(c, object.Pod, user.DeepCopy())
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := &controllertest.Cluster{T: t, Client: objecttest.New().Serve(t)}
			v := controllertest.Create(cluster, object.PersistentVolume, &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}, Spec: corev1.PersistentVolumeSpec{
				PersistentVolumeSource:        corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/srv/v"}},
				PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRecycle, ClaimRef: &corev1.ObjectReference{Namespace: "ns", Name: "c", UID: "former"},
			}})
			v.Status.Phase = corev1.VolumeReleased
			v = controllertest.UpdateStatus(cluster, object.PersistentVolume, v)
			if test.before != nil {
				test.before(cluster, v)
			}
			informers := object.NewInformers(cluster.Client)
			c := build(&controller.Env{
				Client: cluster.Client, Informers: informers, Recorder: func(string) record.EventRecorder { return &record.FakeRecorder{} },
			}, "image")
			controllertest.Freeze(t, informers)
			if test.after != nil {
				test.after(cluster, v.DeepCopy())
			}
			if _, err := c.reconcile(t.Context(), "v"); err != nil {
				t.Fatal(err)
			}
			_, err := object.For(cluster.Client, object.Pod).Get(t.Context(), namespace, podName("v"))
			if wiped := err == nil; wiped != test.wiped {
				t.Errorf("wiped: %v", wiped)
			}
		})
	}
}
