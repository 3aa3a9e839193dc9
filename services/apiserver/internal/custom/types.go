package custom

import (
	"maps"

	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// newTypes tells the field managers the types of all versions.
func (f *family) newTypes() (managedfields.TypeConverter, error) {
	d, err := f.source()
	if err != nil {
		return nil, err
	}
	models := map[string]*spec.Schema{}
	if f.Meta != nil {
		maps.Copy(models, f.Meta())
	}
	for i := range d.Spec.Versions {
		v := &d.Spec.Versions[i]
		if own := f.versions[v.Name]; own != nil {
			if s := own.published(v, 3); s != nil {
				models[f.group+"."+v.Name+"."+f.names.Kind] = s
			}
		}
	}
	return managedfields.NewTypeConverter(models, f.preserve)
}
