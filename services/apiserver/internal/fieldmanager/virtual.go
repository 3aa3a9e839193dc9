package fieldmanager

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"

	"howdah.dev/services/apiserver/internal/registry"
)

// Posted records in obj, which is posted and answered but not stored, that the manager made it. empty is a new object of its
// type. Such objects are of one version, and of no type that client-go has, so their fields are as they come; those of a Binding,
// the target of which is owned as a whole, are described.
func (m *Managers) Posted(gvk schema.GroupVersionKind, subresource string, empty, obj registry.Object, manager string) error {
	k := key{gvk: gvk, subresource: subresource}
	m.mu.Lock()
	found := m.managers[k]
	m.mu.Unlock()
	if found == nil {
		c, types := posted{}, managedfields.NewDeducedTypeConverter()
		if gvk.Kind == "Binding" {
			var err error
			if types, err = m.more(); err != nil {
				return fmt.Errorf("field types of %s: %w", gvk, err)
			}
		}
		made, err := managedfields.NewDefaultCRDFieldManager(types, c, c, c, gvk, gvk.GroupVersion(), subresource, nil)
		if err != nil {
			return fmt.Errorf("field manager of %s: %w", gvk, err)
		}
		found = &Manager{FieldManager: made}
		m.mu.Lock()
		m.managers[k] = found
		m.mu.Unlock()
	}
	empty.GetObjectKind().SetGroupVersionKind(gvk)
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	found.Create(empty, obj, manager)
	return nil
}

// posted is the converter of objects that have one version.
type posted struct{}

// Convert is not used by the field managers.
func (posted) Convert(_, _, _ any) error { return fmt.Errorf("conversion is not supported") }

// ConvertFieldLabel is not used by the field managers.
func (posted) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

// ConvertToVersion returns the object.
func (posted) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	return in, nil
}

// Default does nothing: what is posted has its defaults.
func (posted) Default(runtime.Object) {}

// New is not used by updates.
func (posted) New(gvk schema.GroupVersionKind) (runtime.Object, error) {
	return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind}}, nil
}
