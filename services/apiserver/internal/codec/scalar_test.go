package codec

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// literals are what patches may say of a field, rightly or not.
var literals = []string{`"a"`, `""`, `"<&>é"`, `"\ud800"`, `"2026-01-02T03:04:05Z"`, `"2026-01-02T03:04:05.123456789+02:00"`, `"2026-01-02T03:04:05.000001Z"`, `"2026-01-02"`,
	`0`, `-0`, `1`, `-7`, `1.0`, `1e3`, `1.5`, `2147483648`, `9007199254740993`, `9223372036854775808`, `true`, `false`, `null`, `"1"`, `{}`, `[]`}

// Patches of scalars do what the library does with them, whatever they say.
func TestPatchesOfScalars(t *testing.T) {
	t.Parallel()
	directly := 0
	all := manifests(t)
	for _, name := range []string{"certificatesigningrequest", "configmap", "deployment-v1", "event-events", "job", "lease", "node", "persistentvolumeclaim", "pod-full"} {
		obj := all[name]
		if obj == nil {
			t.Fatalf("there is no manifest %s", name)
		}
		fields := fieldsOfType(reflect.TypeOf(obj).Elem())
		var paths []string
		for field, f := range fields {
			paths = append(paths, fmt.Sprintf("{%q:%%s}", field))
			for inner := range f.within {
				paths = append(paths, fmt.Sprintf("{%q:{%q:%%s}}", field, inner))
			}
		}
		slices.Sort(paths)
		r := rand.New(rand.NewPCG(3, 3))
		for _, path := range paths {
			for range 2 {
				patch := fmt.Appendf(nil, path, literals[r.IntN(len(literals))])
				named, ok := partsOf(patch, reflect.TypeOf(obj).Elem())
				if ok {
					if _, ok := patchScalars(named, obj); ok {
						directly++
					}
				}
				for _, kind := range []types.PatchType{types.MergePatchType, types.StrategicMergePatchType} {
					before := obj.DeepCopyObject()
					want, wantText := outcome(kind, patch, obj, true, Patch)
					got, gotText := outcome(kind, patch, obj, true, PatchParts)
					if gotText != wantText {
						t.Fatalf("%s: %s of %s: %s, want %s", name, kind, patch, gotText, wantText)
					}
					if !reflect.DeepEqual(obj, before) {
						t.Fatalf("%s: %s of %s: the object was changed", name, kind, patch)
					}
					if wantText == "<nil>" && !sameObject(got, want) {
						t.Fatalf("%s: %s of %s: %v, want %v", name, kind, patch, got, want)
					}
				}
			}
		}
	}
	if directly < 50 {
		t.Errorf("only %d patches were of scalars", directly)
	}
}

func sameObject(a, b runtime.Object) bool {
	x, _ := json.Marshal(a) // objects can be encoded
	y, _ := json.Marshal(b)
	return string(x) == string(y) && apiequality.Semantic.DeepEqual(a, b)
}
