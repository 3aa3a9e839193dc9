package codec

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestOptionsOfAnotherKindInProtobuf(t *testing.T) {
	t.Parallel()
	envelope := func(kind string) []byte {
		b, _, err := Any(&metav1.DeleteOptions{}, schema.GroupVersionKind{Version: "v1", Kind: kind}, Form{Media: Protobuf})
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for _, kind := range []string{"ConfigMap", "Secret"} {
		err := (Offer{}).Options(envelope(kind), "application/vnd.kubernetes.protobuf", &metav1.DeleteOptions{})
		if err == nil || !strings.Contains(err.Error(), `no kind "`+kind+`" is registered for version "v1"`) {
			t.Errorf("%s: %v", kind, err)
		}
	}
	if err := (Offer{}).Options(envelope("DeleteOptions"), "application/vnd.kubernetes.protobuf", &metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	if err := (Offer{}).Options([]byte("k8s\x00"), "application/vnd.kubernetes.protobuf", &metav1.DeleteOptions{}); err == nil {
		t.Error("an envelope of nothing is options")
	}
}

func TestOptionsOfAnotherKindInYAML(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		"apiVersion: v1\nkind: ConfigMap":  `no kind "ConfigMap" is registered for version "v1"`,
		"kind: DeleteOptions\ndryRun: All": "json: cannot unmarshal string into Go struct field DeleteOptions.dryRun of type []string",
		"{":                                "yaml: line 1: did not find expected node content",
		"dryRun: [All]":                    "",
	} {
		err := (Offer{}).Options([]byte(body), "application/yaml", &metav1.DeleteOptions{})
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%s: %v", body, err)
		}
	}
}

// Options without a version are of the group of metadata, and what is in every version is known and no options.
func TestOptionsOfNoVersion(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`{"kind": "Foo"}`:                          `no kind "Foo" is registered for version "meta.k8s.io/v1"`,
		`{"kind": "Foo", "apiVersion": "apps/v1"}`: `no kind "Foo" is registered for version "apps/v1"`,
		`{"kind": "Status", "apiVersion": "v2"}`:   "converting (v1.Status) to (v1.DeleteOptions): unknown conversion",
		`{"kind": "Status", "status": 1}`:          "json: cannot unmarshal number into Go struct field Status.status of type string",
		`{"kind": "Table"}`:                        "converting (v1.Table) to (v1.DeleteOptions): unknown conversion",
	} {
		if err := (Offer{}).Options([]byte(body), "application/json", &metav1.DeleteOptions{}); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v", body, err)
		}
	}
	bare := []byte("k8s\x00\x0a\x04\x0a\x00\x12\x00") // an envelope that says nothing of what is in it
	if err := (Offer{}).Options(bare, "application/vnd.kubernetes.protobuf", &metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}

// Options in CBOR are told in the words of its decoder what is wrong with them, and fields in another case are others.
func TestOptionsInCBOR(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		body any
		want string
	}{
		{map[string]any{"dryRun": "All"}, "cbor: cannot unmarshal byte string into Go struct field v1.DeleteOptions.dryRun of type []string"},
		{map[string]any{"kind": 1}, "unable to determine group/version/kind: cbor: cannot unmarshal positive integer into Go struct field v1.TypeMeta.kind of type string"},
		{map[string]any{"kind": "Status", "status": 1}, "cbor: cannot unmarshal positive integer into Go struct field v1.Status.status of type string"},
		{map[string]any{"kind": "ListOptions"}, "converting (v1.ListOptions) to (v1.DeleteOptions): unknown conversion"},
		{map[string]any{"kind": "Foo"}, `no kind "Foo" is registered for version "meta.k8s.io/v1"`},
		{map[string]any{"Kind": "Foo", "GracePeriodSeconds": "x", "apiVersion": "a/b/c", "dryRun": []string{"All"}}, ""},
	} {
		body, err := encodeCBOR(test.body)
		if err != nil {
			t.Fatal(err)
		}
		o := &metav1.DeleteOptions{}
		err = Offer{CBOR: true}.Options(body, "application/cbor", o)
		if test.want == "" && (err != nil || len(o.DryRun) != 1) || test.want != "" && (err == nil || !strings.HasPrefix(err.Error(), test.want)) {
			t.Errorf("%v: %v", test.body, err)
		}
	}
}
