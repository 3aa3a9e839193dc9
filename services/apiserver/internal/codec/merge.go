package codec

import (
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/services/apiserver/internal/plain"
)

// mergeTrees applies a merge patch to a custom object, whose maps it copies where it changes them, and puts the result into out. It is false
// for what is unusual, which is left to the library, and where the result is none of the wanted kind. What the patch does not name is shared:
// whoever changes the result in place has to copy it first.
func mergeTrees(in, out *unstructured.Unstructured, patch []byte, want schema.GroupVersionKind) bool {
	change, ok := plain.Decode(patch)
	if !ok || jsonDepth(patch) != nil {
		return false
	}
	merged, ok := mergeMaps(in.Object, change)
	if !ok {
		return false
	}
	metadata, ok := merged["metadata"].(map[string]any)
	if !ok {
		return false
	}
	merged["metadata"] = maps.Clone(metadata) // the request completes them
	if merged["kind"] != want.Kind || merged["apiVersion"] != want.GroupVersion().String() {
		return false
	}
	out.Object = merged
	return true
}

// mergeMaps is RFC 7396 for two maps. Nulls in lists and below what is new are for the library.
func mergeMaps(in, change map[string]any) (map[string]any, bool) {
	out := maps.Clone(in)
	for name, value := range change {
		switch v := value.(type) {
		case nil:
			delete(out, name)
			continue
		case map[string]any:
			if before, ok := in[name].(map[string]any); ok {
				after, ok := mergeMaps(before, v)
				if !ok {
					return nil, false
				}
				out[name] = after
				continue
			}
		}
		if hasNull(value) {
			return nil, false
		}
		out[name] = value
	}
	return out, true
}

func hasNull(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case map[string]any:
		for _, below := range v {
			if hasNull(below) {
				return true
			}
		}
	case []any:
		for _, below := range v {
			if hasNull(below) {
				return true
			}
		}
	}
	return false
}
