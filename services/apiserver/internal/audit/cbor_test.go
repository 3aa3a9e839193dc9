package audit

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
)

// Bodies in CBOR are recorded as JSON, and those that are broken by their type alone.
func TestBodiesInCBOR(t *testing.T) {
	t.Parallel()
	body, err := direct.Marshal(map[string]any{"kind": "ConfigMap", "metadata": map[string]any{"name": "a", "managedFields": []any{map[string]any{}}}})
	if err != nil {
		t.Fatal(err)
	}
	e := &Entry{}
	e.config.OmitManagedFields = true
	for contentType, want := range map[string]string{
		"application/cbor":             `{"kind":"ConfigMap","metadata":{"name":"a"}}`,
		"application/apply-patch+cbor": `{"kind":"ConfigMap","metadata":{"name":"a"}}`,
	} {
		if got := e.object(body, contentType); got == nil || string(got.Raw) != want {
			t.Errorf("%s: %v", contentType, got)
		}
		told := `{"apiVersion":"runtime.k8s.io/v1","contentType":"` + contentType + `","kind":"Unknown"}`
		if got := e.object(body[:len(body)-1], contentType); got == nil || string(got.Raw) != told {
			t.Errorf("broken %s: %v", contentType, got)
		}
	}
}
