package fieldmanager

import (
	"fmt"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"howdah.dev/services/apiserver/internal/registry"
)

// ApplyScale applies a configuration to the Scale of an object whose managed fields are given, and returns the new Scale, which bears
// the managed fields that the object is to have.
func (m *Managers) ApplyScale(
	res *registry.Resource, live *autoscalingv1.Scale, owned []metav1.ManagedFieldsEntry, applied *unstructured.Unstructured, manager string, force bool,
) (*autoscalingv1.Scale, error) {
	handler := managedfields.NewScaleHandler(owned, res.GVK.GroupVersion(), m.replicas(res))
	entries, err := handler.ToSubresource()
	if err != nil {
		return nil, fmt.Errorf("managed fields of the scale: %w", err)
	}
	live = live.DeepCopy()
	live.ManagedFields = entries
	gvk := live.GroupVersionKind()
	types, err := m.more()
	if err != nil {
		return nil, fmt.Errorf("field types of %s: %w", gvk, err)
	}
	merger, err := managedfields.NewDefaultFieldManager(types, scales{}, scales{}, scales{}, gvk, gvk.GroupVersion(), "scale", nil)
	if err != nil {
		return nil, err
	}
	merged, err := merger.Apply(live, applied, manager, force)
	if err != nil {
		return nil, err
	}
	scale, ok := merged.(*autoscalingv1.Scale)
	if !ok { // the configuration changes nothing
		scale = live
	}
	if scale.ManagedFields, err = handler.ToParent(scale.ManagedFields); err != nil {
		return nil, fmt.Errorf("managed fields of the object: %w", err)
	}
	return scale, nil
}

// replicas says where each version of a kind has the replicas that a Scale sets.
func (m *Managers) replicas(res *registry.Resource) managedfields.ResourcePathMappings {
	paths := managedfields.ResourcePathMappings{}
	for _, r := range m.table.Resources() {
		if r.GVR.GroupResource() != res.GVR.GroupResource() || r.Kind.Scale == nil {
			continue
		}
		path := fieldpath.MakePathOrDie("spec", "replicas")
		if steps := r.Kind.Scale.Path; len(steps) > 0 {
			path = fieldpath.Path{}
			for _, step := range steps {
				path = append(path, fieldpath.PathElement{FieldName: &step})
			}
		}
		paths[r.GVK.GroupVersion().String()] = path
	}
	return paths
}

// scales converts, defaults and makes Scales of the one version.
type scales struct{}

func (scales) Convert(_, _, _ any) error {
	return fmt.Errorf("conversion into an object is not supported")
}

func (scales) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

func (scales) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	u, ok := in.(*unstructured.Unstructured)
	if !ok {
		return in, nil
	}
	scale := &autoscalingv1.Scale{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, scale); err != nil {
		return nil, fmt.Errorf("unable to convert unstructured object to %v: %w", u.GroupVersionKind(), err)
	}
	return scale, nil
}

func (scales) Default(runtime.Object) {}

func (scales) New(gvk schema.GroupVersionKind) (runtime.Object, error) {
	scale := &autoscalingv1.Scale{}
	scale.SetGroupVersionKind(gvk)
	return scale, nil
}
