package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"howdah.dev/kit/object"
	"howdah.dev/kit/pki"
)

// TestVolumeOfANode lets a pod have a folder of the node that the scheduler selects for it, and go again, with the rights that a node agent has and no more.
func TestVolumeOfANode(t *testing.T) {
	admin, address, dir := runStandalone(t)
	node, ctx := certified(t, dir, address, "n1", pki.Options{Nodes: []string{"n1"}}), t.Context()
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	await := func(what string, ok func() bool) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(20 * time.Millisecond) { // over REST nothing else tells
			if time.Now().After(deadline) {
				t.Fatalf("waited for %s", what)
			}
		}
	}
	_, err := node.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{corev1.LabelHostname: "n1"}}}, metav1.CreateOptions{})
	must("register", err)
	await("the node's report", func() bool {
		n, err := node.CoreV1().Nodes().Get(ctx, "n1", metav1.GetOptions{})
		must("read the node", err)
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now()}}
		n.Status.Capacity = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi"), corev1.ResourcePods: resource.MustParse("9")}
		n.Status.Allocatable = n.Status.Capacity
		_, err = node.CoreV1().Nodes().UpdateStatus(ctx, n, metav1.UpdateOptions{})
		return err == nil
	})
	_, err = admin.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "local-path", Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}}, Provisioner: object.LocalPathProvisioner,
		VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
	}, metav1.CreateOptions{})
	must("make the class", err)
	claims, volumes := admin.CoreV1().PersistentVolumeClaims("default"), admin.CoreV1().PersistentVolumes()
	claim, err := claims.Create(ctx, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}}, metav1.CreateOptions{})
	must("make the claim", err)
	_, err = admin.CoreV1().Pods("default").Create(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "c", Image: "i"}},
		Volumes:    []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}},
	}}, metav1.CreateOptions{})
	must("make the pod", err)
	await("the pod to have its node", func() bool {
		p, err := admin.CoreV1().Pods("default").Get(ctx, "p", metav1.GetOptions{})
		must("read the pod", err)
		return p.Spec.NodeName == "n1"
	})
	await("the claim to be bound", func() bool {
		claim, err = claims.Get(ctx, "c", metav1.GetOptions{})
		must("read the claim", err)
		return claim.Status.Phase == corev1.ClaimBound
	})

	own := metav1.ListOptions{LabelSelector: object.LocalPathNodeLabel + "=n1"}
	list, err := node.CoreV1().PersistentVolumes().List(ctx, own)
	must("list the node's volumes", err)
	if len(list.Items) != 1 || list.Items[0].Name != claim.Spec.VolumeName || list.Items[0].Spec.Local.Path != object.LocalPathDir+"/pvc-"+string(claim.UID) {
		t.Fatalf("volumes of the node: %v", list.Items)
	}
	w, err := node.CoreV1().PersistentVolumes().Watch(ctx, own)
	must("watch the node's volumes", err)
	defer w.Stop()
	letGo := func(v *corev1.PersistentVolume) error {
		v = v.DeepCopy()
		v.Finalizers = slices.DeleteFunc(v.Finalizers, func(f string) bool { return f == object.LocalPathFinalizer })
		return second(node.CoreV1().PersistentVolumes().Update(ctx, v, metav1.UpdateOptions{}))
	}
	grown := list.Items[0].DeepCopy()
	grown.Spec.Capacity[corev1.ResourceStorage] = resource.MustParse("2Gi")
	for what, test := range map[string]struct {
		err  error
		want string
	}{
		"all volumes":             {second(node.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{})), "can only get individual resources of this type"},
		"another's volumes":       {second(node.CoreV1().PersistentVolumes().List(ctx, metav1.ListOptions{LabelSelector: object.LocalPathNodeLabel + "=n2"})), "can only get individual resources of this type"},
		"a volume that is needed": {letGo(&list.Items[0]), "may only let volumes go that are folders of its own"},
		"a bigger volume":         {second(node.CoreV1().PersistentVolumes().Update(ctx, grown, metav1.UpdateOptions{})), "may only let volumes go that are folders of its own"},
		"the volume's end":        {node.CoreV1().PersistentVolumes().Delete(ctx, grown.Name, metav1.DeleteOptions{}), "can only get individual resources of this type"},
	} {
		if !apierrors.IsForbidden(test.err) || !strings.Contains(test.err.Error(), test.want) {
			t.Errorf("%s: %v, want 403 with %q", what, test.err, test.want)
		}
	}

	must("delete the pod", admin.CoreV1().Pods("default").Delete(ctx, "p", *metav1.NewDeleteOptions(0)))
	must("delete the claim", claims.Delete(ctx, "c", metav1.DeleteOptions{}))
	var v *corev1.PersistentVolume
	await("the volume to wait for its node alone", func() bool {
		v, err = volumes.Get(ctx, claim.Spec.VolumeName, metav1.GetOptions{})
		must("read the volume", err)
		return v.DeletionTimestamp != nil && slices.Equal(v.Finalizers, []string{object.LocalPathFinalizer})
	})
	must("let the volume go", letGo(v))
	if _, err := volumes.Get(ctx, v.Name, metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the volume is still there: %v", err)
	}
}
