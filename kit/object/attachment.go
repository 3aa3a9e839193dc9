package object

import (
	"crypto/sha256"
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// What node agents and the controller that attaches volumes have agreed on; Kubernetes' names, which the drivers' sidecars know, too.

// ManagedAttachAnnotation of a Node says that it waits until a controller has attached its volumes.
const ManagedAttachAnnotation = "volumes.kubernetes.io/controller-managed-attach-detach"

// AttachesAnnotation of a Node names, beside those of CSI drivers, the volumes that the controller attaches to it, by plugin and with commas between
// them. A controller of an older release, or one that is switched off, says nothing: for what it would never attach no agent may wait.
const AttachesAnnotation = "howdah.dev/attaches"

// ISCSIPlugin is what Kubernetes calls volumes of iSCSI targets.
const ISCSIPlugin = "kubernetes.io/iscsi"

// AttachmentName is the name of the VolumeAttachment of a driver's volume on a node.
func AttachmentName(handle, driver, node string) string {
	return fmt.Sprintf("csi-%x", sha256.Sum256([]byte(handle+driver+node)))
}

// AttachableName is what the status of a Node calls a volume of a driver.
func AttachableName(driver, handle string) corev1.UniqueVolumeName {
	return corev1.UniqueVolumeName("kubernetes.io/csi/" + driver + "^" + handle)
}

// ISCSIName is what the status of a Node calls a disk of an iSCSI target, whose portal is spelled as in the volume.
func ISCSIName(portal, iqn string, lun int32) corev1.UniqueVolumeName {
	return corev1.UniqueVolumeName(fmt.Sprintf("%s/%s:%s:%d", ISCSIPlugin, portal, iqn, lun))
}
