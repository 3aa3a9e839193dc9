package localpath

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"howdah.dev/kit/object"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/controller/controllertest"
)

func newClaim(change ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "c", UID: "u", Annotations: map[string]string{
			"volume.kubernetes.io/storage-provisioner": object.LocalPathProvisioner, "volume.kubernetes.io/selected-node": "node-1",
		}},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: ptr.To("local-path"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
	for _, f := range change {
		f(c)
	}
	return c
}

func newClass(change ...func(*storagev1.StorageClass)) *storagev1.StorageClass {
	c := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "local-path"}, Provisioner: object.LocalPathProvisioner,
		VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer), ReclaimPolicy: ptr.To(corev1.PersistentVolumeReclaimDelete),
	}
	for _, f := range change {
		f(c)
	}
	return c
}

func newNode() *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1", Labels: map[string]string{corev1.LabelHostname: "host-1"}}}
}

func TestVolume(t *testing.T) {
	t.Parallel()
	v, err := Volume(newClaim(), newClass(), newNode())
	if err != nil {
		t.Fatal(err)
	}
	if v.Name != "pvc-u" || v.Spec.Local.Path != "/var/lib/howdah/local-path/pvc-u" || v.Spec.ClaimRef.UID != "u" || v.Labels[object.LocalPathNodeLabel] != "node-1" ||
		v.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values[0] != "host-1" || !Made(v) {
		t.Errorf("volume %v", v)
	}
	kept, err := Volume(newClaim(), newClass(func(c *storagev1.StorageClass) {
		c.Parameters, c.ReclaimPolicy = map[string]string{"path": "/srv/data/"}, ptr.To(corev1.PersistentVolumeReclaimRetain)
	}), newNode())
	if err != nil || kept.Spec.Local.Path != "/srv/data/pvc-u" || kept.Spec.PersistentVolumeReclaimPolicy != corev1.PersistentVolumeReclaimRetain {
		t.Errorf("%v, %v", kept, err)
	}
	for want, test := range map[string]struct {
		claim *corev1.PersistentVolumeClaim
		class *storagev1.StorageClass
	}{
		"unknown parameter": {newClaim(), newClass(func(c *storagev1.StorageClass) { c.Parameters = map[string]string{"type": "ssd"} })},
		"absolute path":     {newClaim(), newClass(func(c *storagev1.StorageClass) { c.Parameters = map[string]string{"path": "../x"} })},
		`"//" is no folder`: {newClaim(), newClass(func(c *storagev1.StorageClass) { c.Parameters = map[string]string{"path": "//"} })},
		"mount options":     {newClaim(), newClass(func(c *storagev1.StorageClass) { c.MountOptions = []string{"noatime"} })},
		"WaitForFirst":      {newClaim(), newClass(func(c *storagev1.StorageClass) { c.VolumeBindingMode = ptr.To(storagev1.VolumeBindingImmediate) })},
		"selector":          {newClaim(func(c *corev1.PersistentVolumeClaim) { c.Spec.Selector = &metav1.LabelSelector{} }), newClass()},
		"dataSource":        {newClaim(func(c *corev1.PersistentVolumeClaim) { c.Spec.DataSource = &corev1.TypedLocalObjectReference{} }), newClass()},
		"Block":             {newClaim(func(c *corev1.PersistentVolumeClaim) { c.Spec.VolumeMode = ptr.To(corev1.PersistentVolumeBlock) }), newClass()},
		"ReadWriteMany": {newClaim(func(c *corev1.PersistentVolumeClaim) {
			c.Spec.AccessModes = append(c.Spec.AccessModes, corev1.ReadWriteMany)
		}), newClass()},
	} {
		if v, err := Volume(test.claim, test.class, newNode()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v", want, v, err)
		}
	}
}

// TestVolumeComesAndGoes lets a claim have its volume, on a node that is there; the volume is deleted when it is released, and let go when its
// node, which has its folder, is gone.
func TestVolumeComesAndGoes(t *testing.T) {
	t.Parallel()
	c := controllertest.Start(t, clock.RealClock{}, nil, func(env *controller.Env) (controller.Unit, error) { return New(env), nil })
	controllertest.Create(c, object.StorageClass, newClass())
	controllertest.Create(c, object.PersistentVolumeClaim, newClaim())
	claim := controllertest.Await(c, object.PersistentVolumeClaim, "another node is asked for", func(list []*corev1.PersistentVolumeClaim) bool {
		return list[0].Annotations["volume.kubernetes.io/selected-node"] == ""
	})[0]
	controllertest.Create(c, object.Node, newNode())
	claim.Annotations["volume.kubernetes.io/selected-node"] = "node-1"
	if _, err := object.For(c.Client, object.PersistentVolumeClaim).Update(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	v := controllertest.Await(c, object.PersistentVolume, "a volume", func(list []*corev1.PersistentVolume) bool { return len(list) == 1 })[0]
	v.Status.Phase = corev1.VolumeReleased
	controllertest.UpdateStatus(c, object.PersistentVolume, v)
	controllertest.Await(c, object.PersistentVolume, "deleted, and held by the node's finalizer", func(list []*corev1.PersistentVolume) bool {
		return len(list) == 1 && list[0].DeletionTimestamp != nil
	})
	controllertest.Delete(c, object.Node, "", "node-1", metav1.DeleteOptions{})
	controllertest.Await(c, object.PersistentVolume, "no volume", func(list []*corev1.PersistentVolume) bool { return len(list) == 0 })
}

func TestClaimGrows(t *testing.T) {
	t.Parallel()
	wants := func(c *corev1.PersistentVolumeClaim) {
		c.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("3Gi")
	}
	for name, before := range map[string]bool{"before its volume is heard of": true, "after its volume was made": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := controllertest.Start(t, clock.RealClock{}, nil, func(env *controller.Env) (controller.Unit, error) { return New(env), nil })
			claim := newClaim(func(c *corev1.PersistentVolumeClaim) {
				c.Spec.VolumeName = "pvc-u"
				c.Status.Phase, c.Status.Capacity = corev1.ClaimBound, c.Spec.Resources.Requests.DeepCopy()
			})
			v, err := Volume(claim, newClass(), newNode())
			if err != nil {
				t.Fatal(err)
			}
			if before {
				wants(claim)
			}
			claim = controllertest.Create(c, object.PersistentVolumeClaim, claim)
			v.Spec.ClaimRef.UID, v.Status.Phase = claim.UID, corev1.VolumeBound
			controllertest.Create(c, object.PersistentVolume, v)
			if !before {
				wants(claim)
				if _, err := object.For(c.Client, object.PersistentVolumeClaim).Update(t.Context(), claim); err != nil {
					t.Fatal(err)
				}
			}
			controllertest.Await(c, object.PersistentVolumeClaim, "grown", func(list []*corev1.PersistentVolumeClaim) bool {
				size := list[0].Status.Capacity[corev1.ResourceStorage]
				return size.String() == "3Gi"
			})
			if size := controllertest.List(c, object.PersistentVolume)[0].Spec.Capacity[corev1.ResourceStorage]; size.String() != "3Gi" {
				t.Errorf("the volume has %s", size.String())
			}
		})
	}
}
