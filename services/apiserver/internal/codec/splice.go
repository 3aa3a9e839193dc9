package codec

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"

	"howdah.dev/services/apiserver/internal/splice"
)

// spliceParts is patchParts of a JSON patch, which only changes the text of what it names. It does so to custom objects, too, as a whole. nil is for
// what is left to the library: all that fails or has problems.
func spliceParts(patch []byte, in, out runtime.Object, want schema.GroupVersionKind, strict bool) *reflect.Value {
	from := reflect.ValueOf(in)
	if from.Kind() != reflect.Pointer || from.Elem().Kind() != reflect.Struct || reflect.TypeOf(out) != from.Type() || jsonDepth(patch) != nil {
		return nil
	}
	if strict {
		if problems, err := checkOperations(patch); err != nil || len(problems) > 0 {
			return nil
		}
	}
	operations, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil
	}
	made := reflect.New(from.Elem().Type())
	if u, ok := made.Interface().(*unstructured.Unstructured); ok {
		after, ok := spliced(in, operations)
		if !ok {
			return nil
		}
		if problems, err := decodeMap(after, u, strict); err != nil || len(problems) > 0 || u.GroupVersionKind() != want {
			return nil
		}
		return &made
	}
	named, ok := partsOfOperations(operations, from.Elem().Type())
	if !ok {
		return nil
	}
	part, rest := divided(in, named, want)
	after, ok := spliced(part, operations)
	if !ok {
		return nil
	}
	var problems []error
	if strict {
		problems, err = kjson.UnmarshalStrict(after, made.Interface())
	} else {
		err = kjson.UnmarshalCaseSensitivePreserveInts(after, made.Interface())
	}
	if err != nil || len(problems) > 0 {
		return nil
	}
	return joined(rest, made, named)
}

func spliced(in runtime.Object, operations jsonpatch.Patch) ([]byte, bool) {
	before, err := json.Marshal(in)
	if err != nil {
		return nil, false
	}
	return splice.Apply(before, operations)
}

// partsOfOperations returns which fields of a type a JSON patch is about, each once, as partsOf does.
func partsOfOperations(operations jsonpatch.Patch, of reflect.Type) (named []namedPart, ok bool) {
	known := fieldsOfType(of)
	for _, o := range operations {
		path, err := o.Path()
		if err != nil {
			return nil, false
		}
		steps := strings.SplitN(path, "/", 4)
		if len(steps) < 3 || steps[0] != "" {
			return nil, false
		}
		field, ok := known[steps[1]]
		if !ok {
			return nil, false
		}
		part := namedPart{path: []int{field.index}}
		if field.within != nil {
			index, ok := field.within[steps[2]]
			if !ok {
				return nil, false
			}
			part.path = append(part.path, index)
		}
		if !slices.ContainsFunc(named, func(n namedPart) bool { return slices.Equal(n.path, part.path) }) {
			named = append(named, part)
		}
	}
	return named, true
}
