package object

import (
	"crypto/sha256"
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// What node agents and the controller that attaches volumes have agreed on; Kubernetes' names, which the drivers' sidecars know, too.

// AttachmentName is the name of the VolumeAttachment of a driver's volume on a node.
func AttachmentName(handle, driver, node string) string {
	return fmt.Sprintf("csi-%x", sha256.Sum256([]byte(handle+driver+node)))
}

// AttachableName is what the status of a Node calls a volume of a driver.
func AttachableName(driver, handle string) corev1.UniqueVolumeName {
	return corev1.UniqueVolumeName("kubernetes.io/csi/" + driver + "^" + handle)
}
