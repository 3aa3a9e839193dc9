package csi

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	csipb "github.com/container-storage-interface/spec/lib/go/csi"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Want is a volume that a pod wants: a persistent one, or one that is in the pod's specification.
type Want struct {
	Pod    *corev1.Pod
	Name   string                   // of the persistent volume, or the pod's for it
	PV     *corev1.PersistentVolume // nil for one of the pod's own
	Inline *corev1.CSIVolumeSource
	// ReadOnly says that the pod may not write to it.
	ReadOnly bool
	// Claim is the claim's status where the volume may have grown beyond it.
	Claim *corev1.PersistentVolumeClaim
	// Own gives what was published to the pod's group, where that is not the driver's to do.
	Own func(path string, group int64) error
}

func (w *Want) Driver() string {
	if w.PV != nil {
		return w.PV.Spec.CSI.Driver
	}
	return w.Inline.Driver
}

// handle names the volume to the driver. One of the pod's own is named after both.
func (w *Want) handle() string {
	if w.PV != nil {
		return w.PV.Spec.CSI.VolumeHandle
	}
	return fmt.Sprintf("csi-%x", sha256.Sum256([]byte(string(w.Pod.UID)+w.Name)))
}

// Block reports whether the volume is a block device, and no file system.
func (w *Want) Block() bool {
	return w.PV != nil && w.PV.Spec.VolumeMode != nil && *w.PV.Spec.VolumeMode == corev1.PersistentVolumeBlock
}

func (w *Want) fsType() string {
	if w.PV != nil {
		return w.PV.Spec.CSI.FSType
	}
	if w.Inline.FSType != nil {
		return *w.Inline.FSType
	}
	return ""
}

func (w *Want) lifecycle() storagev1.VolumeLifecycleMode {
	if w.PV != nil {
		return storagev1.VolumeLifecyclePersistent
	}
	return storagev1.VolumeLifecycleEphemeral
}

func (w *Want) modes() []corev1.PersistentVolumeAccessMode {
	if w.PV != nil && len(w.PV.Spec.AccessModes) > 0 {
		return w.PV.Spec.AccessModes
	}
	return []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
}

// group is the pod's fsGroup, nil where it has none.
func (w *Want) group() *int64 {
	if c := w.Pod.Spec.SecurityContext; c != nil {
		return c.FSGroup
	}
	return nil
}

// allowed says why the driver has no volumes of this kind.
func allowed(driver *storagev1.CSIDriver, name string, mode storagev1.VolumeLifecycleMode) error {
	switch {
	case driver == nil && mode == storagev1.VolumeLifecyclePersistent:
		return nil
	case driver == nil:
		return fmt.Errorf("volume mode %q not supported by driver %s (no CSIDriver object)", mode, name)
	case slices.Contains(driver.Spec.VolumeLifecycleModes, mode):
		return nil
	case len(driver.Spec.VolumeLifecycleModes) == 0 && mode == storagev1.VolumeLifecyclePersistent:
		return nil
	}
	return fmt.Errorf("volume mode %q not supported by driver %s (only supports %q)", mode, name, driver.Spec.VolumeLifecycleModes)
}

// attachable reports whether a driver's volumes are attached to a node before it uses them.
func attachable(driver *storagev1.CSIDriver) bool {
	return driver == nil || driver.Spec.AttachRequired == nil || *driver.Spec.AttachRequired
}

// accessMode is a volume's in the drivers' terms. multi says that the driver tells one writer from many on one node.
func accessMode(mode corev1.PersistentVolumeAccessMode, multi bool) csipb.VolumeCapability_AccessMode_Mode {
	switch mode {
	case corev1.ReadWriteMany:
		return csipb.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER
	case corev1.ReadOnlyMany:
		return csipb.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY
	case corev1.ReadWriteOncePod:
		if multi {
			return csipb.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER
		}
	case corev1.ReadWriteOnce:
		if multi {
			return csipb.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER
		}
	}
	return csipb.VolumeCapability_AccessMode_SINGLE_NODE_WRITER
}

// capability says how a volume is used. group, where it is set, is the driver's to give the volume to.
func (w *Want) capability(multi bool, group *int64) *csipb.VolumeCapability {
	how := &csipb.VolumeCapability_AccessMode{Mode: accessMode(w.modes()[0], multi)}
	if w.Block() {
		return &csipb.VolumeCapability{AccessType: &csipb.VolumeCapability_Block{Block: &csipb.VolumeCapability_BlockVolume{}}, AccessMode: how}
	}
	mount := &csipb.VolumeCapability_MountVolume{FsType: w.fsType()}
	if w.PV != nil {
		mount.MountFlags = w.PV.Spec.MountOptions
	}
	if group != nil {
		mount.VolumeMountGroup = fmt.Sprint(*group)
	}
	return &csipb.VolumeCapability{
		AccessType: &csipb.VolumeCapability_Mount{Mount: mount},
		AccessMode: how,
	}
}

// owned reports whether the agent gives the volume's files to the pod's group.
func (w *Want) owned(driver *storagev1.CSIDriver) bool {
	if w.group() == nil || w.ReadOnly || w.Block() {
		return false
	}
	policy := storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy
	if driver != nil && driver.Spec.FSGroupPolicy != nil {
		policy = *driver.Spec.FSGroupPolicy
	}
	switch policy {
	case storagev1.NoneFSGroupPolicy:
		return false
	case storagev1.FileFSGroupPolicy:
		return true
	}
	return w.fsType() != "" && w.PV != nil && slices.ContainsFunc(w.PV.Spec.AccessModes, func(m corev1.PersistentVolumeAccessMode) bool {
		return m == corev1.ReadWriteOnce || m == corev1.ReadWriteOncePod
	})
}

// attributes are what the driver is told of the volume, and of the pod where it wants to know.
func (w *Want) attributes(driver *storagev1.CSIDriver) map[string]string {
	said := map[string]string{}
	from := map[string]string(nil)
	if w.PV != nil {
		from = w.PV.Spec.CSI.VolumeAttributes
	} else {
		from = w.Inline.VolumeAttributes
	}
	for k, v := range from {
		said[k] = v
	}
	if driver != nil && driver.Spec.PodInfoOnMount != nil && *driver.Spec.PodInfoOnMount {
		said["csi.storage.k8s.io/pod.name"] = w.Pod.Name
		said["csi.storage.k8s.io/pod.namespace"] = w.Pod.Namespace
		said["csi.storage.k8s.io/pod.uid"] = string(w.Pod.UID)
		said["csi.storage.k8s.io/serviceAccount.name"] = w.Pod.Spec.ServiceAccountName
		said["csi.storage.k8s.io/ephemeral"] = fmt.Sprint(w.PV == nil)
	}
	return said
}

// tokensKey is where the driver finds the tokens of the pod's account.
const tokensKey = "csi.storage.k8s.io/serviceAccount.tokens"

// tokens are those of the pod's account that the driver asks for, as text; "" where it asks for none.
func (v *Volumes) tokens(ctx context.Context, pod *corev1.Pod, driver *storagev1.CSIDriver) (string, error) {
	if driver == nil || len(driver.Spec.TokenRequests) == 0 {
		return "", nil
	}
	byAudience := map[string]authenticationv1.TokenRequestStatus{}
	for _, r := range driver.Spec.TokenRequests {
		seconds := int64(3600)
		if r.ExpirationSeconds != nil {
			seconds = *r.ExpirationSeconds
		}
		value, expires, err := v.cfg.Token(ctx, pod, r.Audience, seconds)
		if err != nil {
			return "", err
		}
		byAudience[r.Audience] = authenticationv1.TokenRequestStatus{Token: value, ExpirationTimestamp: metav1.Time{Time: expires}}
	}
	raw, err := json.Marshal(byAudience)
	return string(raw), err
}

// secret returns what a reference leads to; nil for none.
func (v *Volumes) secret(ctx context.Context, namespace, name string) (map[string]string, error) {
	if name == "" {
		return nil, nil
	}
	secret, err := v.cfg.Objects.Secret(ctx, namespace, name)
	if err != nil {
		return nil, fmt.Errorf("fetching secret %s/%s: %w", namespace, name, err)
	}
	data := make(map[string]string, len(secret.Data))
	for k, value := range secret.Data {
		data[k] = string(value)
	}
	return data, nil
}

// named returns where a persistent volume's secret is.
func named(ref *corev1.SecretReference) (namespace, name string) {
	if ref == nil {
		return "", ""
	}
	return ref.Namespace, ref.Name
}

// publishSecret returns where the secret is that the driver gets with NodePublishVolume.
func (w *Want) publishSecret() (namespace, name string) {
	switch {
	case w.PV != nil:
		return named(w.PV.Spec.CSI.NodePublishSecretRef)
	case w.Inline.NodePublishSecretRef != nil:
		return w.Pod.Namespace, w.Inline.NodePublishSecretRef.Name
	}
	return "", ""
}

// alone says why the pod cannot have a volume that is one pod's alone.
func (w *Want) alone(users []types.UID) error {
	if w.PV == nil || !slices.Contains(w.PV.Spec.AccessModes, corev1.ReadWriteOncePod) {
		return nil
	}
	if slices.ContainsFunc(users, func(uid types.UID) bool { return uid != w.Pod.UID }) {
		return errors.New("volume uses the ReadWriteOncePod access mode and is already in use by another pod")
	}
	return nil
}
