package clients

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
)

// storageUser makes volumes and pods that use them, in a namespace and with classes of its own.
type storageUser struct {
	*testing.T
	*kubernetes.Clientset
	name string // of its namespace, and what the names of its cluster-scoped objects begin with
}

func newStorageUser(t *testing.T) *storageUser {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", theCluster(t).Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	u := &storageUser{T: t, Clientset: kubernetes.NewForConfigOrDie(config), name: strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-"))}
	_, err = u.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: u.name}}, metav1.CreateOptions{})
	u.must(err)
	u.await("the default service account", func(ctx context.Context) (bool, error) {
		_, err := u.CoreV1().ServiceAccounts(u.name).Get(ctx, "default", metav1.GetOptions{})
		return err == nil, nil
	})
	return u
}

func (u *storageUser) must(err error) {
	u.Helper()
	if err != nil {
		u.Fatal(err)
	}
}

// class makes a class that waits for pods, and returns its name.
func (u *storageUser) class(provisioner string) string {
	u.Helper()
	c := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: u.name}, Provisioner: provisioner, VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer)}
	_, err := u.StorageV1().StorageClasses().Create(u.Context(), c, metav1.CreateOptions{})
	u.must(err)
	u.Cleanup(func() {
		_ = u.StorageV1().StorageClasses().Delete(context.Background(), u.name, metav1.DeleteOptions{})
	})
	return u.name
}

func (u *storageUser) claim(name string, access corev1.PersistentVolumeAccessMode) {
	u.Helper()
	_, err := u.CoreV1().PersistentVolumeClaims(u.name).Create(u.Context(), &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: u.claimSpec(access)}, metav1.CreateOptions{})
	u.must(err)
}

func (u *storageUser) claimSpec(access corev1.PersistentVolumeAccessMode) corev1.PersistentVolumeClaimSpec {
	return corev1.PersistentVolumeClaimSpec{StorageClassName: &u.name, AccessModes: []corev1.PersistentVolumeAccessMode{access},
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}}
}

// volume makes a volume on a node, for one claim if there is one.
func (u *storageUser) volume(name, size, node string, access corev1.PersistentVolumeAccessMode, claim *corev1.PersistentVolumeClaim) {
	u.Helper()
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: u.name + "-" + name},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: u.name, Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)},
			AccessModes:                   []corev1.PersistentVolumeAccessMode{access},
			PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource:        corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: "/mnt/" + name}},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node}}},
			}}}},
		},
	}
	if claim != nil {
		pv.Spec.ClaimRef = &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: claim.Namespace, Name: claim.Name, UID: claim.UID}
	}
	_, err := u.CoreV1().PersistentVolumes().Create(u.Context(), pv, metav1.CreateOptions{})
	u.must(err)
	u.Cleanup(func() {
		_ = u.CoreV1().PersistentVolumes().Delete(context.Background(), pv.Name, metav1.DeleteOptions{})
	})
}

func (u *storageUser) pod(name string, sources ...corev1.VolumeSource) {
	u.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "nginx:1.9.1"}}}}
	for i, s := range sources {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: fmt.Sprint("v", i), VolumeSource: s})
	}
	_, err := u.CoreV1().Pods(u.name).Create(u.Context(), p, metav1.CreateOptions{})
	u.must(err)
}

func ofClaim(name string) corev1.VolumeSource {
	return corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}
}

func (u *storageUser) await(what string, is func(ctx context.Context) (bool, error)) {
	u.Helper()
	if err := wait.PollUntilContextTimeout(u.Context(), 50*time.Millisecond, 2*time.Minute, true, is); err != nil {
		pods, _ := u.CoreV1().Pods(u.name).List(context.Background(), metav1.ListOptions{})
		claims, _ := u.CoreV1().PersistentVolumeClaims(u.name).List(context.Background(), metav1.ListOptions{})
		u.Fatalf("%s: %v\n%v\n%v", what, err, pods, claims)
	}
}

// placed waits until a pod has a node, and returns it.
func (u *storageUser) placed(pod string) (node string) {
	u.Helper()
	u.await(pod+" to have a node", func(ctx context.Context) (bool, error) {
		p, err := u.CoreV1().Pods(u.name).Get(ctx, pod, metav1.GetOptions{})
		if err == nil {
			node = p.Spec.NodeName
		}
		return node != "", err
	})
	return node
}

// refused waits until the condition of a pod says why it has no node.
func (u *storageUser) refused(pod, message string) {
	u.Helper()
	u.await(pod+" to be refused: "+message, func(ctx context.Context) (bool, error) {
		p, err := u.CoreV1().Pods(u.name).Get(ctx, pod, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && strings.Contains(c.Message, message) {
				return true, nil
			}
		}
		return false, nil
	})
}

// chosen waits until a claim is to be provisioned for a node, and returns both.
func (u *storageUser) chosen(claim string) (found *corev1.PersistentVolumeClaim, node string) {
	u.Helper()
	u.await("a node for "+claim, func(ctx context.Context) (bool, error) {
		var err error
		if found, err = u.CoreV1().PersistentVolumeClaims(u.name).Get(ctx, claim, metav1.GetOptions{}); err != nil {
			return false, nil // it may not be made yet
		}
		node = found.Annotations["volume.kubernetes.io/selected-node"]
		return node != "", nil
	})
	return found, node
}

// TestVolumesThatAreFound: pods go where their volumes are.
func TestVolumesThatAreFound(t *testing.T) {
	t.Parallel()
	u := newStorageUser(t)
	u.pod("early", ofClaim("a"))
	u.refused("early", `nodes are available: persistentvolumeclaim "a" not found. not found`)
	u.class("kubernetes.io/no-provisioner")
	u.claim("a", corev1.ReadWriteOnce)
	u.refused("early", "3 node(s) didn't find available persistent volumes to bind.")
	u.volume("other", "1Gi", "hollow-0000", corev1.ReadWriteOncePod, nil)
	u.volume("one", "9Gi", "hollow-0001", corev1.ReadWriteOnce, nil)
	if on := u.placed("early"); on != "hollow-0001" {
		t.Errorf("the pod is on %s", on)
	}
	u.await("the claim to be bound", func(ctx context.Context) (bool, error) { // its phase is told last
		claim, err := u.CoreV1().PersistentVolumeClaims(u.name).Get(ctx, "a", metav1.GetOptions{})
		return err == nil && claim.Spec.VolumeName == u.name+"-one" && claim.Status.Phase == corev1.ClaimBound, err
	})
	u.claim("b", corev1.ReadWriteOncePod)
	u.pod("second", ofClaim("b"))
	if on := u.placed("second"); on != "hollow-0000" {
		t.Errorf("the pod with a claim for one pod is on %s", on)
	}
	u.pod("third", ofClaim("b"))
	u.refused("third", "3 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod.")
}

// TestVolumesThatAreMade: the test is the provisioner, of a claim and of a pod's ephemeral volume. It gives the first up once.
func TestVolumesThatAreMade(t *testing.T) {
	t.Parallel()
	u := newStorageUser(t)
	u.class("disks.example.com")
	u.claim("data", corev1.ReadWriteOnce)
	u.pod("db", ofClaim("data"))
	u.chosen("data")
	// A claim without any annotation would be told of in other words.
	u.await("the provisioner's name at the claim", func(ctx context.Context) (bool, error) {
		claim, err := u.CoreV1().PersistentVolumeClaims(u.name).Get(ctx, "data", metav1.GetOptions{})
		return err == nil && claim.Annotations["volume.kubernetes.io/storage-provisioner"] != "", err
	})
	_, err := u.CoreV1().PersistentVolumeClaims(u.name).Patch(t.Context(), "data", types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"volume.kubernetes.io/selected-node":null}}}`), metav1.PatchOptions{})
	u.must(err)
	u.await("the event", func(ctx context.Context) (bool, error) {
		events, err := u.CoreV1().Events(u.name).List(ctx, metav1.ListOptions{FieldSelector: "reason=FailedScheduling,involvedObject.name=db"})
		if err != nil {
			return false, err
		}
		for _, e := range events.Items {
			if e.Message == `running PreBind plugin "VolumeBinding": binding volumes: provisioning failed for PVC "data"` {
				return true, nil
			}
		}
		return false, nil
	})
	claim, node := u.chosen("data")
	u.volume("made", "1Gi", node, corev1.ReadWriteOnce, claim)
	if on := u.placed("db"); on != node {
		t.Errorf("the volume was made for %s, and the pod is on %s", node, on)
	}

	u.pod("scratch", corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: u.claimSpec(corev1.ReadWriteOnce)}}})
	claim, node = u.chosen("scratch-v0")
	u.volume("scratch", "1Gi", node, corev1.ReadWriteOnce, claim)
	if on := u.placed("scratch"); on != node {
		t.Errorf("the volume was made for %s, and the pod is on %s", node, on)
	}
}
