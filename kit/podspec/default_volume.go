package podspec

import corev1 "k8s.io/api/core/v1"

func defaultVolume(v *corev1.Volume) {
	if v.VolumeSource == (corev1.VolumeSource{}) {
		v.EmptyDir = &corev1.EmptyDirVolumeSource{}
	}
	s := v.VolumeSource
	if s.Secret != nil {
		setPtr(&s.Secret.DefaultMode, corev1.SecretVolumeSourceDefaultMode)
	}
	if s.ConfigMap != nil {
		setPtr(&s.ConfigMap.DefaultMode, corev1.ConfigMapVolumeSourceDefaultMode)
	}
	if s.DownwardAPI != nil {
		setPtr(&s.DownwardAPI.DefaultMode, corev1.DownwardAPIVolumeSourceDefaultMode)
		defaultDownward(s.DownwardAPI.Items)
	}
	if s.Projected != nil {
		defaultProjected(s.Projected)
	}
	if s.HostPath != nil {
		setPtr(&s.HostPath.Type, corev1.HostPathUnset)
	}
	if s.ISCSI != nil {
		set(&s.ISCSI.ISCSIInterface, "default")
	}
	if s.RBD != nil {
		set(&s.RBD.RBDPool, "rbd")
		set(&s.RBD.RadosUser, "admin")
		set(&s.RBD.Keyring, "/etc/ceph/keyring")
	}
	if s.AzureDisk != nil {
		setPtr(&s.AzureDisk.CachingMode, corev1.AzureDataDiskCachingReadWrite)
		setPtr(&s.AzureDisk.Kind, corev1.AzureSharedBlobDisk)
		setPtr(&s.AzureDisk.FSType, "ext4")
		setPtr(&s.AzureDisk.ReadOnly, false)
	}
	if s.ScaleIO != nil {
		set(&s.ScaleIO.StorageMode, "ThinProvisioned")
		set(&s.ScaleIO.FSType, "xfs")
	}
	if s.Ephemeral != nil && s.Ephemeral.VolumeClaimTemplate != nil {
		setPtr(&s.Ephemeral.VolumeClaimTemplate.Spec.VolumeMode, corev1.PersistentVolumeFilesystem)
	}
	if s.Image != nil {
		set(&s.Image.PullPolicy, pullPolicy(s.Image.Reference))
	}
}

func defaultProjected(p *corev1.ProjectedVolumeSource) {
	setPtr(&p.DefaultMode, corev1.ProjectedVolumeSourceDefaultMode)
	for i := range p.Sources {
		s := &p.Sources[i]
		if s.DownwardAPI != nil {
			defaultDownward(s.DownwardAPI.Items)
		}
		if s.ServiceAccountToken != nil {
			setPtr(&s.ServiceAccountToken.ExpirationSeconds, int64(60*60))
		}
	}
}

func defaultDownward(items []corev1.DownwardAPIVolumeFile) {
	for i := range items {
		defaultFieldRef(items[i].FieldRef)
	}
}
