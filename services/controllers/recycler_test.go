package controllers

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/kit/object"
)

// TestVolumeIsWiped lets a claim go whose volume is to be recycled: a pod is made, what it runs removes all there is, and the volume is had by the next claim.
func TestVolumeIsWiped(t *testing.T) {
	t.Parallel()
	client := setupReal(t, "persistentvolume,volumeprotection,volumerecycler,serviceaccount", func(cfg *Config) { cfg.RecyclerImage = "busybox:1" })
	create(t, client, object.PersistentVolume, &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "v"}, Spec: corev1.PersistentVolumeSpec{
		Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		StorageClassName: "by-hand", PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/srv/v"}},
		PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRecycle,
	}})
	claim := func(name string) {
		create(t, client, object.PersistentVolumeClaim, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: ptr.To("by-hand"),
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		}})
	}
	phase := func(want corev1.PersistentVolumePhase) {
		t.Helper()
		await(t, client, object.PersistentVolume, string(want), func(list []*corev1.PersistentVolume) bool { return list[0].Status.Phase == want })
	}
	claim("first")
	phase(corev1.VolumeBound)
	if err := object.For(client, object.PersistentVolumeClaim).Delete(t.Context(), "default", "first", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	var pod *corev1.Pod
	await(t, client, object.Pod, "made", func(list []*corev1.Pod) bool {
		if len(list) == 1 {
			pod = list[0]
		}
		return pod != nil
	})
	if pod.Namespace != "default" || pod.Name != "recycler-for-v" || pod.Spec.Volumes[0].HostPath.Path != "/srv/v" || pod.Spec.Containers[0].Image != "busybox:1" {
		t.Fatalf("pod %s/%s: %s", pod.Namespace, pod.Name, pod.Spec.String())
	}
	runWipe(t, pod.Spec.Containers[0].Args[1])
	phase(corev1.VolumeReleased)
	pod.Status.Phase = corev1.PodSucceeded // a node agent's part
	if _, err := object.For(client, object.Pod).UpdateStatus(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	phase(corev1.VolumeAvailable)
	await(t, client, object.Pod, "gone", func(list []*corev1.Pod) bool { return len(list) == 0 })
	claim("second")
	phase(corev1.VolumeBound)
}

// runWipe runs what the pod runs, on a folder of the test's.
func runWipe(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"file", ".hidden", "..odd", "folder/deep/.file"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("/bin/sh", "-c", strings.ReplaceAll(script, "/scrub", dir)).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}
