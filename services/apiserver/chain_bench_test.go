package apiserver

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/services/apiserver/internal/admission"
	"howdah.dev/services/apiserver/internal/authn"
)

// BenchmarkAdmissionOfAPod is the whole chain, with its defaults, for the creation of a pod.
func BenchmarkAdmissionOfAPod(b *testing.B) {
	f := startMemory(b)
	f.ctx = context.Background()
	if _, err := f.create("v1/serviceaccounts", "default", `{"metadata":{"name":"default"}}`); err != nil {
		b.Fatal(err)
	}
	if _, err := f.get("v1/serviceaccounts", "default", "default"); err != nil { // the cache has it
		b.Fatal(err)
	}
	res := f.server.known.Table.Find(corev1.SchemeGroupVersion.WithResource("pods"))
	chain := f.server.objects.Admission
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "default", Labels: map[string]string{"app": "bench"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "nginx:1"}}},
	}
	user := &authn.User{Name: "admin", Groups: []string{"system:masters"}}
	b.ReportAllocs()
	for b.Loop() {
		a := &admission.Attributes{Operation: admission.Create, Resource: res, Namespace: "default", Name: "p", Object: pod.DeepCopy(), User: user}
		if err := chain.Admit(b.Context(), a); err != nil {
			b.Fatal(err)
		}
		if err := chain.Validate(b.Context(), a); err != nil {
			b.Fatal(err)
		}
	}
}
