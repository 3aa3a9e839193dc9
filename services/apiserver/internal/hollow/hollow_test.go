package hollow_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/services/apiserver/internal/hollow"
)

func TestDrop(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ obj, want any }{
		"nothing is there": {&rbacv1.Role{}, &rbacv1.Role{}},
		"a list":           {&rbacv1.Role{Rules: []rbacv1.PolicyRule{}}, &rbacv1.Role{}},
		"in a list": {
			&rbacv1.Role{Rules: []rbacv1.PolicyRule{{Verbs: []string{}, Resources: []string{"pods"}}}},
			&rbacv1.Role{Rules: []rbacv1.PolicyRule{{Resources: []string{"pods"}}}},
		},
		"a map": {
			&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{}}, Data: map[string]string{"a": ""}},
			&corev1.ConfigMap{Data: map[string]string{"a": ""}},
		},
		"a list in a map": {
			&certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{Extra: map[string]certificatesv1.ExtraValue{"a": {}, "b": {"c"}}}},
			&certificatesv1.CertificateSigningRequest{Spec: certificatesv1.CertificateSigningRequestSpec{Extra: map[string]certificatesv1.ExtraValue{"a": nil, "b": {"c"}}}},
		},
		"behind a pointer": {
			&resourcev1.ResourceSlice{Spec: resourcev1.ResourceSliceSpec{NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{}}}},
			&resourcev1.ResourceSlice{Spec: resourcev1.ResourceSliceSpec{NodeSelector: &corev1.NodeSelector{}}},
		},
		"in a type that holds itself": {
			&apiextensionsv1.JSONSchemaProps{Properties: map[string]apiextensionsv1.JSONSchemaProps{"a": {Not: &apiextensionsv1.JSONSchemaProps{Required: []string{}}}}},
			&apiextensionsv1.JSONSchemaProps{Properties: map[string]apiextensionsv1.JSONSchemaProps{"a": {Not: &apiextensionsv1.JSONSchemaProps{}}}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, want := hollow.In(c.obj), !cmp.Equal(c.obj, c.want); got != want {
				t.Errorf("In: %t, want %t", got, want)
			}
			hollow.Drop(c.obj)
			if diff := cmp.Diff(c.want, c.obj); diff != "" {
				t.Errorf("want (-), got (+)\n%s", diff)
			}
			if hollow.In(c.obj) {
				t.Error("something is left")
			}
		})
	}
}

func TestBytesStay(t *testing.T) {
	t.Parallel()
	secret := &corev1.Secret{Data: map[string][]byte{"a": {}}}
	hollow.Drop(secret)
	if secret.Data["a"] == nil {
		t.Error("empty bytes are gone")
	}
}

func BenchmarkPod(b *testing.B) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"a": "b"}, OwnerReferences: []metav1.OwnerReference{{Name: "x"}}},
		Spec: corev1.PodSpec{
			Containers:  []corev1.Container{{Name: "a", Env: []corev1.EnvVar{{Name: "a", Value: "b"}}, VolumeMounts: []corev1.VolumeMount{{Name: "v"}}}, {Name: "b"}},
			Volumes:     []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "a"}}}},
			Tolerations: []corev1.Toleration{{Key: "a"}, {Key: "b"}},
		},
	}
	for b.Loop() {
		hollow.Drop(pod)
	}
}
