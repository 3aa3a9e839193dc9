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
