package volumeexpand

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/controller/controllertest"
)

func size(text string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(text)}
}

// grown is a cluster with a claim of a gigabyte that asks for two.
func grown(t *testing.T) (c *controllertest.Cluster, claim *corev1.PersistentVolumeClaim) {
	t.Helper()
	c = controllertest.Start(t, clock.RealClock{}, nil, func(env *controller.Env) (controller.Unit, error) { return New(env), nil })
	claim = controllertest.Create(c, object.PersistentVolumeClaim, &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "grows"},
		Spec:       corev1.PersistentVolumeClaimSpec{VolumeName: "v", Resources: corev1.VolumeResourceRequirements{Requests: size("1Gi")}},
	})
	claim.Status.Phase, claim.Status.Capacity = corev1.ClaimBound, size("1Gi")
	claim = controllertest.UpdateStatus(c, object.PersistentVolumeClaim, claim)
	claim.Spec.Resources.Requests = size("2Gi")
	claim, err := object.For(c.Client, object.PersistentVolumeClaim).Update(t.Context(), claim)
	if err != nil {
		t.Fatal(err)
	}
	return c, claim
}

// TestWhoWaitsIsTold grows a claim: its owner hears for whom it waits as soon as the claim's volume is known, too.
func TestWhoWaitsIsTold(t *testing.T) {
	t.Parallel()
	c, claim := grown(t)
	controllertest.Create(c, object.PersistentVolume, &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "v"},
		Spec:       corev1.PersistentVolumeSpec{ClaimRef: &corev1.ObjectReference{Namespace: "n", Name: "grows", UID: claim.UID}},
	})
	select {
	case e := <-c.Events.Events:
		if e != "Normal ExternalExpanding waiting for an external controller to expand this PVC" {
			t.Errorf("event %q", e)
		}
	case <-time.After(time.Minute):
		t.Fatal("nobody is told")
	}
}

// TestWho has who waits, and who does not.
func TestWho(t *testing.T) {
	t.Parallel()
	claim := func(phase corev1.PersistentVolumeClaimPhase, volume, wanted, has string) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{
			Spec:   corev1.PersistentVolumeClaimSpec{VolumeName: volume, Resources: corev1.VolumeResourceRequirements{Requests: size(wanted)}},
			Status: corev1.PersistentVolumeClaimStatus{Phase: phase, Capacity: size(has)},
		}
	}
	for _, c := range []struct {
		claim *corev1.PersistentVolumeClaim
		want  bool
	}{
		{claim(corev1.ClaimBound, "v", "2Gi", "1Gi"), true},
		{claim(corev1.ClaimBound, "v", "1Gi", "1Gi"), false},
		{claim(corev1.ClaimBound, "v", "1Gi", "2Gi"), false},
		{claim(corev1.ClaimBound, "", "2Gi", "1Gi"), false},
		{claim(corev1.ClaimPending, "v", "2Gi", "1Gi"), false},
	} {
		if got := Waits(c.claim); got != c.want {
			t.Errorf("%v of %v: %v", c.claim.Spec, c.claim.Status, got)
		}
	}
}
