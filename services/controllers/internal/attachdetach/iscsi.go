package attachdetach

import (
	corev1 "k8s.io/api/core/v1"

	"howdah.dev/kit/object"
)

// iscsi are disks of targets: the nodes log in to them by themselves.
var iscsi = kind{
	plugin: object.ISCSIPlugin,
	inline: func(v *corev1.VolumeSource) corev1.UniqueVolumeName {
		if v.ISCSI == nil {
			return ""
		}
		return object.ISCSIName(v.ISCSI.TargetPortal, v.ISCSI.IQN, v.ISCSI.Lun)
	},
	bound: func(v *corev1.PersistentVolumeSource) corev1.UniqueVolumeName {
		if v.ISCSI == nil {
			return ""
		}
		return object.ISCSIName(v.ISCSI.TargetPortal, v.ISCSI.IQN, v.ISCSI.Lun)
	},
}
