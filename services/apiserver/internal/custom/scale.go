package custom

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"howdah.dev/services/apiserver/internal/registry"
)

// scaling reads and writes the replicas where the definition says that they are.
func (v *version) scaling() *registry.Scale {
	number := func(obj registry.Object, path string) int32 {
		n, _, err := unstructured.NestedInt64(content(obj), steps(path)...)
		if err != nil { // validation has kept it out
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
		Set: func(obj registry.Object, replicas int32) {
			// It fails only where a part of the path is no object, which the schema has refused.
			_ = unstructured.SetNestedField(content(obj), int64(replicas), steps(v.scale.SpecReplicasPath)...)
		},
		Check: func(obj registry.Object) error {
			if _, ok, err := unstructured.NestedInt64(content(obj), steps(v.scale.SpecReplicasPath)...); err != nil {
				return err
			} else if !ok {
				return fmt.Errorf("the spec replicas field %q does not exist", v.scale.SpecReplicasPath)
			}
			return nil
		},
	}
}
