package discovery

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/services/apiserver/internal/registry"
)

// A custom kind as far as the digest needs it.
type stored struct{ registry.Custom }

func (stored) StoredAs() string { return "v1" }

// The digests are those that Kubernetes 1.36.3 answers with.
func TestStorageHash(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		gvk    schema.GroupVersionKind
		custom registry.Custom
		want   string
	}{
		{schema.GroupVersionKind{Group: "apiextensions.k8s.io", Version: "v1", Kind: "CustomResourceDefinition"}, nil, "jfWCUB31mvA="},
		{schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingAdmissionPolicy"}, nil, "LYmCf+UMVdg="},
		{schema.GroupVersionKind{Group: "admissionregistration.k8s.io", Version: "v1", Kind: "MutatingAdmissionPolicyBinding"}, nil, "90V5FRZZ3Zg="},
		{schema.GroupVersionKind{Version: "v1", Kind: "Pod"}, nil, "xPOwRZ+Yhw8="},
		{schema.GroupVersionKind{Group: "kv.example.com", Version: "v1beta1", Kind: "Gizmo"}, stored{}, "Qu909hntkbk="},
	} {
		r := resource{res: &registry.Resource{Kind: &registry.Kind{GVK: test.gvk, Custom: test.custom}}}
		if got := r.storageHash(); got != test.want {
			t.Errorf("%s: %s, want %s", test.gvk, got, test.want)
		}
	}
}
