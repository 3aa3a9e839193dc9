package kind_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/services/apiserver/internal/registry"
)

// The manifests that we give to users are good ones.
func TestExamples(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../../../examples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	tab := table(t)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, doc := range bytes.Split(data, []byte("\n---\n")) {
				var meta metav1.TypeMeta
				if err := yaml.Unmarshal(doc, &meta); err != nil {
					t.Fatal(err)
				}
				if strings.HasPrefix(meta.APIVersion, "gateway.networking.k8s.io/") {
					continue // of definitions; services/ingress routes them in a test of its own
				}
				res := tab.FindKind(schema.FromAPIVersionAndKind(meta.APIVersion, meta.Kind))
				if res == nil {
					t.Fatalf("%s %s is not served", meta.APIVersion, meta.Kind)
				}
				obj := res.New()
				if err := yaml.UnmarshalStrict(doc, obj); err != nil {
					t.Fatal(err)
				}
				res.Default(obj)
				stored, err := res.ToStored(obj)
				if err != nil {
					t.Fatal(err)
				}
				if p, ok := stored.(*corev1.Pod); ok && p.Spec.ServiceAccountName == "" {
					p.Spec.ServiceAccountName = "default" // as admission does
				}
				if res.Kind.Complete != nil {
					res.Kind.Complete(stored, registry.Caller{})
				}
				if res.Kind.Validate != nil {
					expect(t, res.Kind.Validate(stored))
				}
				if res.Kind.Warnings != nil {
					if w := res.Kind.Warnings(stored, nil); len(w) > 0 {
						t.Errorf("warnings: %q", w)
					}
				}
			}
		})
	}
}
