package storage

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/storage/volume"
	"k8s.io/utils/ptr"
)

const provisioner = "disks.example.com"

func claim(name, class, size string, change ...func(*corev1.PersistentVolumeClaim)) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name), ResourceVersion: "10"},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: ptr.To(class), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}},
		},
	}
	for _, do := range change {
		do(c)
	}
	return c
}

// boundTo binds a claim to a volume.
func boundTo(pv string) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) {
		c.Spec.VolumeName = pv
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, volume.AnnBindCompleted, "yes")
	}
}

// chosenFor has a claim provisioned for a node.
func chosenFor(node string) func(*corev1.PersistentVolumeClaim) {
	return func(c *corev1.PersistentVolumeClaim) {
		metav1.SetMetaDataAnnotation(&c.ObjectMeta, volume.AnnSelectedNode, node)
	}
}

func persistent(name, class, size string, change ...func(*corev1.PersistentVolume)) *corev1.PersistentVolume {
	pv := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), ResourceVersion: "10"},
		Spec: corev1.PersistentVolumeSpec{
			StorageClassName: class, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)},
		},
		Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeAvailable},
	}
	for _, do := range change {
		do(pv)
	}
	return pv
}

// reachableFrom has only nodes in a zone reach a volume.
func reachableFrom(zone string) func(*corev1.PersistentVolume) {
	return func(pv *corev1.PersistentVolume) {
		pv.Spec.NodeAffinity = &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{zone}}},
		}}}}
	}
}

// keptFor has a volume be a claim's.
func keptFor(name string, uid types.UID) func(*corev1.PersistentVolume) {
	return func(pv *corev1.PersistentVolume) {
		pv.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "shop", Name: name, UID: uid}
	}
}

func class(name, provisioner string, mode storagev1.VolumeBindingMode, change ...func(*storagev1.StorageClass)) *storagev1.StorageClass {
	c := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: provisioner, VolumeBindingMode: &mode}
	for _, do := range change {
		do(c)
	}
	return c
}

func node(name, zone string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"zone": zone}}}
}

// podWith is a pod that uses claims; one that begins with "own/" belongs to a generic ephemeral volume.
func podWith(claims ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "p", UID: "p"}}
	for i, name := range claims {
		v := corev1.Volume{Name: fmt.Sprint("v", i), VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}}
		if own, ok := cutOwn(name); ok {
			v = corev1.Volume{Name: own, VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}}
		}
		p.Spec.Volumes = append(p.Spec.Volumes, v)
	}
	return p
}

func cutOwn(name string) (string, bool) {
	if len(name) > 4 && name[:4] == "own/" {
		return name[4:], true
	}
	return "", false
}

// filled is a cache of the objects.
func filled(objects ...any) *Cache {
	c := NewCache()
	c.SetClass(class("late", provisioner, storagev1.VolumeBindingWaitForFirstConsumer))
	c.SetClass(class("local", volume.NotSupportedProvisioner, storagev1.VolumeBindingWaitForFirstConsumer))
	c.SetClass(class("now", provisioner, storagev1.VolumeBindingImmediate))
	for _, o := range objects {
		switch o := o.(type) {
		case *corev1.PersistentVolumeClaim:
			c.SetClaim(o)
		case *corev1.PersistentVolume:
			c.SetVolume(o)
		case *storagev1.StorageClass:
			c.SetClass(o)
		case *storagev1.CSIDriver:
			c.SetDriver(o)
		case *storagev1.CSIStorageCapacity:
			c.SetCapacity(o)
		default:
			panic(fmt.Sprintf("no storage: %T", o))
		}
	}
	return c
}
