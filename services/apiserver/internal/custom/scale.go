package custom

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"howdah.dev/services/apiserver/internal/registry"
)

// scaling reads and writes the replicas where the definition says that they are.
func (v *version) scaling() *registry.Scale {
	number := func(obj registry.Object, path string) int32 {
		n, _, err := unstructured.NestedInt64(content(obj), steps(path)...)
		if err != nil { // which Check tells
			return 0
		}
		return int32(n)
	}
	return &registry.Scale{
		Path: steps(v.scale.SpecReplicasPath),
		Get: func(obj registry.Object) (spec, status int32, selector string) {
			if v.scale.LabelSelectorPath != nil {
				selector, _, _ = unstructured.NestedString(content(obj), steps(*v.scale.LabelSelectorPath)...)
			}
			return number(obj, v.scale.SpecReplicasPath), number(obj, v.scale.StatusReplicasPath), selector
		},
		Set: func(obj registry.Object, replicas int32) error {
			return unstructured.SetNestedField(content(obj), int64(replicas), steps(v.scale.SpecReplicasPath)...)
		},
		Field: v.scale.SpecReplicasPath,
		Check: func(obj registry.Object) (wants bool, err error) {
			_, wants, err = unstructured.NestedInt64(content(obj), steps(v.scale.SpecReplicasPath)...)
			if err != nil {
				return false, err
			}
			if _, _, err := unstructured.NestedInt64(content(obj), steps(v.scale.StatusReplicasPath)...); err != nil {
				return false, err
			}
			if v.scale.LabelSelectorPath != nil && *v.scale.LabelSelectorPath != "" {
				_, _, err = unstructured.NestedString(content(obj), steps(*v.scale.LabelSelectorPath)...)
			}
			return wants, err
		},
	}
}
