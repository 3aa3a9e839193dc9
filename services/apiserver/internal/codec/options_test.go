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
