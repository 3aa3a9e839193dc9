package volumeprotection

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestClaimFree(t *testing.T) {
	t.Parallel()
	going := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Namespace: "n", Name: "c", DeletionTimestamp: &metav1.Time{Time: time.Unix(1, 0)}, Finalizers: []string{"a/b", ClaimFinalizer},
	}}
	stays := going.DeepCopy()
	stays.DeletionTimestamp = nil
	pod := func(namespace, claim, node string, phase corev1.PodPhase) []*corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "p"}}
		p.Spec.NodeName, p.Status.Phase = node, phase
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}}
		return []*corev1.Pod{p}
	}
	ephemeral := pod("n", "", "node", corev1.PodRunning)
	ephemeral[0].Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}}}
	of := going.DeepCopy()
	of.Name = "p-v"
	for name, test := range map[string]struct {
		claim *corev1.PersistentVolumeClaim
		pods  []*corev1.Pod
		want  bool
	}{
		"unused": {going, nil, true}, "not deleted": {stays, nil, false}, "in use": {going, pod("n", "c", "node", corev1.PodRunning), false},
		"another claim": {going, pod("n", "d", "node", corev1.PodRunning), true}, "another namespace": {going, pod("m", "c", "node", corev1.PodRunning), true},
		"ended": {going, pod("n", "c", "node", corev1.PodSucceeded), true}, "no node yet": {going, pod("n", "c", "", corev1.PodPending), true},
		"ephemeral": {of, ephemeral, false},
	} {
		if got := ClaimFree(test.claim, test.pods); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if got := without(going.Finalizers, ClaimFinalizer); len(got) != 1 || got[0] != "a/b" {
		t.Errorf("left %v", got)
	}
}

func TestVolumeFree(t *testing.T) {
	t.Parallel()
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{Time: time.Unix(1, 0)}, Finalizers: []string{VolumeFinalizer}}}
	for phase, want := range map[corev1.PersistentVolumePhase]bool{corev1.VolumeBound: false, corev1.VolumeReleased: true, corev1.VolumeAvailable: true, "": true} {
		volume.Status.Phase = phase
		if got := VolumeFree(volume); got != want {
			t.Errorf("%s: %v", phase, got)
		}
	}
}

func TestClassFree(t *testing.T) {
	t.Parallel()
	going := &storagev1.VolumeAttributesClass{ObjectMeta: metav1.ObjectMeta{
		Name: "gold", DeletionTimestamp: &metav1.Time{Time: time.Unix(1, 0)}, Finalizers: []string{"a/b", ClassFinalizer},
	}}
	stays, bare := going.DeepCopy(), going.DeepCopy()
	stays.DeletionTimestamp, bare.Finalizers = nil, nil
	name := func(s string) *string { return &s }
	claim := func(wants, has *string, target string) []*corev1.PersistentVolumeClaim {
		c := &corev1.PersistentVolumeClaim{}
		c.Spec.VolumeAttributesClassName, c.Status.CurrentVolumeAttributesClassName = wants, has
		c.Status.ModifyVolumeStatus = &corev1.ModifyVolumeStatus{TargetVolumeAttributesClassName: target}
		return []*corev1.PersistentVolumeClaim{{}, c}
	}
	volume := []*corev1.PersistentVolume{{Spec: corev1.PersistentVolumeSpec{VolumeAttributesClassName: name("gold")}}}
	for text, test := range map[string]struct {
		class   *storagev1.VolumeAttributesClass
		claims  []*corev1.PersistentVolumeClaim
		volumes []*corev1.PersistentVolume
		want    bool
	}{
		"unused": {going, claim(name("silver"), nil, ""), nil, true}, "not deleted": {stays, nil, nil, false}, "not held": {bare, nil, nil, false},
		"wanted": {going, claim(name("gold"), nil, ""), nil, false}, "had": {going, claim(nil, name("gold"), ""), nil, false},
		"on its way": {going, claim(nil, nil, "gold"), nil, false}, "of a volume": {going, nil, volume, false},
	} {
		if got := ClassFree(test.class, test.claims, test.volumes); got != test.want {
			t.Errorf("%s: %v", text, got)
		}
	}
}
