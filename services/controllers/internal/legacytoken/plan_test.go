package legacytoken

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPlan(t *testing.T) {
	t.Parallel()
	const period = 48 * time.Hour
	now := time.Date(2026, 11, 21, 22, 0, 0, 0, time.UTC)
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "bot"}, Secrets: []corev1.ObjectReference{{Name: "s"}}}
	stranger := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "bot"}}
	secret := func(labels ...string) *corev1.Secret {
		s := &corev1.Secret{Type: corev1.SecretTypeServiceAccountToken, ObjectMeta: metav1.ObjectMeta{Name: "s", CreationTimestamp: metav1.NewTime(now.Add(-period)), Labels: map[string]string{}}}
		for i := 0; i < len(labels); i += 2 {
			s.Labels[labels[i]] = labels[i+1]
		}
		return s
	}
	young := secret()
	young.CreationTimestamp = metav1.NewTime(now.Add(time.Second - period))
	opaque := secret()
	opaque.Type = corev1.SecretTypeOpaque
	for what, c := range map[string]struct {
		secret  *corev1.Secret
		account *corev1.ServiceAccount
		used    bool
		want    action
		err     bool
	}{
		"never used":                         {secret: secret(), account: account, want: mark},
		"made within the period":             {secret: young, account: account},
		"of another type":                    {secret: opaque, account: account},
		"made by people":                     {secret: secret(), account: stranger},
		"of no account":                      {secret: secret()},
		"a pod has it":                       {secret: secret(), account: account, used: true},
		"last used a day and a period ago":   {secret: secret(lastUsedLabel, "2026-11-18"), account: account, want: mark},
		"last used within the period":        {secret: secret(lastUsedLabel, "2026-11-19"), account: account},
		"used in future":                     {secret: secret(lastUsedLabel, "2027-01-01"), account: account},
		"used at no day":                     {secret: secret(lastUsedLabel, "yesterday"), account: account, err: true},
		"used at an empty day":               {secret: secret(lastUsedLabel, ""), account: account, err: true},
		"marked, never used":                 {secret: secret(invalidSinceLabel, "2026-11-18"), account: account, want: remove},
		"marked within the period":           {secret: secret(invalidSinceLabel, "2026-11-19"), account: account},
		"marked, but used since":             {secret: secret(invalidSinceLabel, "2026-11-01", lastUsedLabel, "2026-11-20"), account: account},
		"marked, and a pod has it":           {secret: secret(invalidSinceLabel, "2026-11-01"), account: account, used: true},
		"marked, made by people":             {secret: secret(invalidSinceLabel, "2026-11-01"), account: stranger},
		"marked with what is no day":         {secret: secret(invalidSinceLabel, "x", lastUsedLabel, "2026-11-01"), account: account, want: mark},
		"marked with nothing":                {secret: secret(invalidSinceLabel, ""), account: account, want: mark},
		"marked, and last used at no day":    {secret: secret(invalidSinceLabel, "2026-11-01", lastUsedLabel, "x"), account: account, err: true},
		"marked before its last use of long": {secret: secret(invalidSinceLabel, "2026-11-01", lastUsedLabel, "2026-11-10"), account: account, want: remove},
	} {
		got, err := plan(c.secret, c.account, c.used, period, now)
		if got != c.want || (err != nil) != c.err {
			t.Errorf("%s: %d, %v; want %d", what, got, err, c.want)
		}
	}
}

func TestReferenced(t *testing.T) {
	t.Parallel()
	ref := func(name string) *corev1.LocalObjectReference { return &corev1.LocalObjectReference{Name: name} }
	env := func(name string) []corev1.EnvVar {
		return []corev1.EnvVar{{Name: "plain"}, {ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: *ref(name)}}}}
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns"}, Spec: corev1.PodSpec{
		ImagePullSecrets:    []corev1.LocalObjectReference{*ref("pull")},
		InitContainers:      []corev1.Container{{Env: env("init")}},
		Containers:          []corev1.Container{{EnvFrom: []corev1.EnvFromSource{{}, {SecretRef: &corev1.SecretEnvSource{LocalObjectReference: *ref("all")}}}}},
		EphemeralContainers: []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Env: env("debug")}}},
	}, Status: corev1.PodStatus{Phase: corev1.PodSucceeded}}
	for _, source := range []corev1.VolumeSource{
		{EmptyDir: &corev1.EmptyDirVolumeSource{}},
		{CSI: &corev1.CSIVolumeSource{}},
		{Secret: &corev1.SecretVolumeSource{SecretName: "volume"}},
		{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{}, {Secret: &corev1.SecretProjection{LocalObjectReference: *ref("projected")}}}}},
		{AzureFile: &corev1.AzureFileVolumeSource{SecretName: "azure"}},
		{CephFS: &corev1.CephFSVolumeSource{SecretRef: ref("ceph")}},
		{Cinder: &corev1.CinderVolumeSource{SecretRef: ref("cinder")}},
		{FlexVolume: &corev1.FlexVolumeSource{SecretRef: ref("flex")}},
		{RBD: &corev1.RBDVolumeSource{SecretRef: ref("rbd")}},
		{ScaleIO: &corev1.ScaleIOVolumeSource{SecretRef: ref("scale")}},
		{ISCSI: &corev1.ISCSIVolumeSource{SecretRef: ref("iscsi")}},
		{StorageOS: &corev1.StorageOSVolumeSource{SecretRef: ref("os")}},
		{CSI: &corev1.CSIVolumeSource{NodePublishSecretRef: ref("csi")}},
	} {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{VolumeSource: source})
	}
	got := referenced([]*corev1.Pod{pod})
	want := []string{"pull", "init", "all", "debug", "volume", "projected", "azure", "ceph", "cinder", "flex", "rbd", "scale", "iscsi", "os", "csi"}
	for _, secret := range want {
		if !got[name{"ns", secret}] {
			t.Errorf("%s is not found", secret)
		}
	}
	if len(got) != len(want) {
		t.Errorf("found %v", got)
	}
}
