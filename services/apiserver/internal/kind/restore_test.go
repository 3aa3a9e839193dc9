package kind_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/equality"

	"howdah.dev/services/apiserver/internal/codec"
	"howdah.dev/services/apiserver/internal/registry"
)

// An object that was read from the store can be written back: what protobuf does not keep is there again.
func TestStatefulSetIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	k, obj := parse(t, "{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: a, namespace: default}, spec: {"+selector+template+
		", volumeClaimTemplates: [{metadata: {name: v}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]}}")
	k.Default(obj)
	k.PrepareCreate(obj)
	value, err := codec.Encode(t.Context(), k, obj)
	if err != nil {
		t.Fatal(err)
	}
	read, err := codec.Decode(k, value)
	if err != nil {
		t.Fatal(err)
	}
	if !equality.Semantic.DeepEqual(obj, read) {
		t.Errorf("got %+v, want %+v", read, obj)
	}
	again := read.DeepCopyObject().(registry.Object)
	k.Default(again)
	expect(t, k.ValidateUpdate(again, read))
}
