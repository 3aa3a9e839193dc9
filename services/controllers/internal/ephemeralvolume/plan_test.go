package ephemeralvolume

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/controller/controllertest"
)

func newPod(volumes ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p", UID: "u"}}
	for _, name := range volumes {
		class := "fast"
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{
			VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"of": name}}, Spec: corev1.PersistentVolumeClaimSpec{StorageClassName: &class},
			},
		}}})
	}
	return p
}

func TestMissing(t *testing.T) {
	t.Parallel()
	none := func(string) *corev1.PersistentVolumeClaim { return nil }
	claims, blocked := Missing(newPod("a", "b"), none)
	if len(claims) != 2 || blocked != nil {
		t.Fatalf("%v, %v", claims, blocked)
	}
	c := claims[0]
	if c.Namespace != "n" || c.Name != "p-a" || c.Labels["of"] != "a" || *c.Spec.StorageClassName != "fast" || !metav1.IsControlledBy(c, newPod()) {
		t.Errorf("claim %v", c)
	}
	if claims, _ := Missing(newPod("a"), func(string) *corev1.PersistentVolumeClaim { return c }); len(claims) != 0 {
		t.Errorf("made again: %v", claims)
	}
	_, blocked = Missing(newPod("a"), func(string) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "p-a"}}
	})
	if want := "ephemeral volume a: PVC n/p-a was not created for pod n/p (pod is not owner)"; blocked == nil || blocked.Error() != want {
		t.Errorf("%v, want %s", blocked, want)
	}
	going := newPod("a")
	going.DeletionTimestamp = &metav1.Time{}
	if claims, _ := Missing(going, none); len(claims) != 0 {
		t.Errorf("made for a pod that goes: %v", claims)
	}
}

// TestClaimIsMadeAgain takes the claim of a pod that waits, and then gives its name to somebody else.
func TestClaimIsMadeAgain(t *testing.T) {
	t.Parallel()
	c := controllertest.Start(t, clock.RealClock{}, nil, func(env *controller.Env) (controller.Unit, error) { return New(env, nil), nil })
	p := newPod("a")
	p.UID = ""
	p = controllertest.Create(c, object.Pod, p)
	ours := func(list []*corev1.PersistentVolumeClaim) bool {
		return len(list) == 1 && metav1.IsControlledBy(list[0], p)
	}
	for range 2 {
		controllertest.Await(c, object.PersistentVolumeClaim, "the pod's claim", ours)
		controllertest.Delete(c, object.PersistentVolumeClaim, "n", "p-a", metav1.DeleteOptions{})
	}
	controllertest.Await(c, object.PersistentVolumeClaim, "the pod's claim", ours)

	controllertest.Create(c, object.PersistentVolumeClaim, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "q-a"}})
	q := newPod("a")
	q.Name, q.UID = "q", ""
	q = controllertest.Create(c, object.Pod, q)
	if e := <-c.Events.Events; e != "Warning FailedBinding ephemeral volume a: PVC n/q-a was not created for pod n/q (pod is not owner)" {
		t.Errorf("event %s", e)
	}
	controllertest.Delete(c, object.PersistentVolumeClaim, "n", "q-a", metav1.DeleteOptions{})
	controllertest.Await(c, object.PersistentVolumeClaim, "the second pod's claim", func(list []*corev1.PersistentVolumeClaim) bool {
		for _, claim := range list {
			if metav1.IsControlledBy(claim, q) {
				return true
			}
		}
		return false
	})
}
