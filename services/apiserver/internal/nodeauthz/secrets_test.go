package nodeauthz

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

func TestMountSecrets(t *testing.T) {
	t.Parallel()
	near, far := &corev1.SecretReference{Name: "s"}, &corev1.SecretReference{Namespace: "storage", Name: "s"}
	inClaims, inStorage := corev1.SecretReference{Namespace: "ns", Name: "s"}, corev1.SecretReference{Namespace: "storage", Name: "s"}
	for name, tt := range map[string]struct {
		source corev1.PersistentVolumeSource
		want   []corev1.SecretReference
	}{
		"AzureFile":          {corev1.PersistentVolumeSource{AzureFile: &corev1.AzureFilePersistentVolumeSource{SecretName: "s"}}, []corev1.SecretReference{inClaims}},
		"AzureFile, its own": {corev1.PersistentVolumeSource{AzureFile: &corev1.AzureFilePersistentVolumeSource{SecretName: "s", SecretNamespace: ptr.To("storage")}}, []corev1.SecretReference{inStorage}},
		"CephFS":             {corev1.PersistentVolumeSource{CephFS: &corev1.CephFSPersistentVolumeSource{SecretRef: near}}, []corev1.SecretReference{inClaims}},
		"Cinder":             {corev1.PersistentVolumeSource{Cinder: &corev1.CinderPersistentVolumeSource{SecretRef: far}}, []corev1.SecretReference{inStorage}},
		"FlexVolume":         {corev1.PersistentVolumeSource{FlexVolume: &corev1.FlexPersistentVolumeSource{SecretRef: near}}, []corev1.SecretReference{inClaims}},
		"RBD":                {corev1.PersistentVolumeSource{RBD: &corev1.RBDPersistentVolumeSource{SecretRef: far}}, []corev1.SecretReference{inStorage}},
		"ScaleIO":            {corev1.PersistentVolumeSource{ScaleIO: &corev1.ScaleIOPersistentVolumeSource{SecretRef: near}}, []corev1.SecretReference{inClaims}},
		"iSCSI":              {corev1.PersistentVolumeSource{ISCSI: &corev1.ISCSIPersistentVolumeSource{SecretRef: near}}, []corev1.SecretReference{inClaims}},
		"iSCSI without":      {corev1.PersistentVolumeSource{ISCSI: &corev1.ISCSIPersistentVolumeSource{}}, nil},
		"StorageOS":          {corev1.PersistentVolumeSource{StorageOS: &corev1.StorageOSPersistentVolumeSource{SecretRef: &corev1.ObjectReference{Namespace: "storage", Name: "s"}}}, []corev1.SecretReference{inStorage}},
		"a driver's node": {corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{NodeStageSecretRef: far, NodePublishSecretRef: far, NodeExpandSecretRef: far}},
			[]corev1.SecretReference{inStorage, inStorage, inStorage}},
		"a driver's controller": {corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{ControllerPublishSecretRef: far, ControllerExpandSecretRef: far}}, nil},
		"a folder":              {corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{}}, nil},
	} {
		volume := &corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{ClaimRef: &corev1.ObjectReference{Namespace: "ns"}, PersistentVolumeSource: tt.source}}
		if got := mountSecrets(volume); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v", name, got)
		}
	}
}
