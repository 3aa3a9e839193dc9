package kind_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"sigs.k8s.io/randfill"
	"sigs.k8s.io/yaml"

	"howdah.dev/services/apiserver/internal/codec"
	"howdah.dev/services/apiserver/internal/registry"
)

// Every kind, in every served version, comes out of every encoding as it went in.
func TestEncodingsRoundTrip(t *testing.T) {
	t.Parallel()
	for _, r := range table(t).Resources() {
		if r.Kind.Resource == "customresourcedefinitions" {
			continue // not of random schemas: see package definition
		}
		t.Run(r.GVK.String(), func(t *testing.T) {
			t.Parallel()
			for range 5 {
				in, asJSON := random(t, r)
				asYAML, err := yaml.JSONToYAML(asJSON)
				if err != nil {
					t.Fatal(err)
				}
				binary, media, err := codec.Any(in.DeepCopyObject(), r.GVK, codec.Form{Media: codec.Protobuf})
				if err != nil || media != codec.Protobuf.String() {
					t.Fatalf("%s: %v", media, err)
				}
				asCBOR, cborMedia, err := codec.Any(in.DeepCopyObject(), r.GVK, codec.Form{Media: codec.CBOR})
				if err != nil || cborMedia != codec.CBOR.String() {
					t.Fatalf("%s: %v", cborMedia, err)
				}
				theirs := r.New()
				if err := direct.Unmarshal(asCBOR, theirs); err != nil {
					t.Fatalf("as clients read CBOR: %v", err)
				}
				for contentType, data := range map[string][]byte{"application/json": asJSON, "application/yaml": asYAML, media: binary, cborMedia: asCBOR} {
					out := r.New()
					warnings, err := codec.Body{Data: data, ContentType: contentType, Validation: codec.Strict, Offer: codec.Offer{CBOR: true}}.Into(out, r.GVK)
					if err != nil || len(warnings) > 0 {
						t.Fatalf("%s: %v %v", contentType, err, warnings)
					}
					same(t, contentType, out, in.DeepCopyObject().(registry.Object))
				}
			}
		})
	}
}

// random returns an object with something in all its fields, and its JSON.
func random(t *testing.T, r *registry.Resource) (registry.Object, []byte) {
	t.Helper()
	for {
		obj := r.New()
		filler(rand.Int64()).Funcs(
			func(f *metav1.FieldsV1, _ randfill.Continue) { f.Raw = []byte(`{"f:a":{}}`) },
			func(e *runtime.RawExtension, _ randfill.Continue) { e.Raw = []byte(`{"a":"b"}`) },
		).Fill(obj)
		obj.GetObjectKind().SetGroupVersionKind(r.GVK)
		asJSON, err := json.Marshal(obj)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(asJSON, []byte(`"<<":`)) { // a key that the library of YAML writes and does not read
			return obj, asJSON
		}
	}
}
