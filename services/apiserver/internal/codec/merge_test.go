package codec

import (
	"encoding/json"
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

const mergedThing = `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"a","labels":{"a":"b"}},"spec":{"n":1,"l":[1,null,{"a":null}],"m":{"x":{"y":1},"z":null}},"status":"s"}`

var mergePatches = []string{
	`{}`, `{"spec":{"n":2}}`, `{"spec":null}`, `{"spec":{"n":null,"new":{"a":1}}}`, `{"spec":{"new":{"a":null}}}`, `{"spec":{"l":[1,2]}}`, `{"spec":{"l":[null]}}`, `{"spec":{"m":{"x":{"y":null}}}}`,
	`{"spec":{"m":{"x":"text"}}}`, `{"spec":{"n":{"a":{"b":1}}}}`, `{"status":{"a":1}}`, `{"metadata":null}`, `{"metadata":{"labels":{"a":null,"c":"d"}}}`, `{"metadata":{"name":"b"}}`, `{"kind":"Other"}`,
	`{"kind":null}`, `{"apiVersion":1}`, `[]`, `null`, `1`, `{"spec":{"n":1,"n":2}}`, `{"a":`, `{"unknown":{"deep":[{"x":1.5}]}}`, `{"spec":[]}`, `{"spec":{"m":{"z":{"q":1}}}}`, `{"spec":{"big":12345678901234567890}}`,
	`{"spec":{"f":1.0}}`, `{"spec":{"f":1e3,"t":"ä<>&"}}`,
}

// mergesAlike holds a merge patch of trees against the library.
func mergesAlike(t *testing.T, patch []byte) bool {
	want := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Thing"}
	in, got := &unstructured.Unstructured{}, &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(mergedThing), in); err != nil {
		t.Fatal(err)
	}
	before := in.DeepCopy()
	if !mergeTrees(in, got, patch, want) {
		return false
	}
	if !reflect.DeepEqual(in, before) {
		t.Fatalf("%s changes what it is applied to: %v", patch, in)
	}
	whole := &unstructured.Unstructured{}
	patched, err := Patch(types.MergePatchType, patch, before, whole, want, nil, true)
	if err != nil || len(patched.Problems) > 0 {
		t.Fatalf("%s is applied, although %v, %v", patch, err, patched.Problems)
	}
	if !reflect.DeepEqual(got.Object, whole.Object) {
		t.Fatalf("%s makes\n%v\nwant\n%v", patch, got.Object, whole.Object)
	}
	return true
}

func TestMergeTrees(t *testing.T) {
	t.Parallel()
	merged := 0
	for _, patch := range mergePatches {
		if mergesAlike(t, []byte(patch)) {
			merged++
		}
	}
	if merged < 12 {
		t.Errorf("only %d of %d patches are applied to trees", merged, len(mergePatches))
	}
}

func FuzzMergeTrees(f *testing.F) {
	for _, patch := range mergePatches {
		f.Add([]byte(patch))
	}
	f.Fuzz(func(t *testing.T, patch []byte) { mergesAlike(t, patch) })
}
