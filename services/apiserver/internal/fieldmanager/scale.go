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

// Scaled keeps the managed fields of an object of which a client sees a Scale only.
type Scaled struct {
	managers *Managers
	res      *registry.Resource
	owned    []metav1.ManagedFieldsEntry
	entries  []metav1.ManagedFieldsEntry
	// owners is what outcomes follow from beside the change; nil: they are not remembered.
	owners []byte
}

// ForScale returns what keeps the managed fields of an object of the resource, which are owned, through its Scale.
func (m *Managers) ForScale(res *registry.Resource, owned []metav1.ManagedFieldsEntry) (*Scaled, error) {
	s := &Scaled{managers: m, res: res, owned: owned, owners: ownersOf(res, owned)}
	if o, known := s.recall(&m.scales, s.owners); known {
		s.entries = o.scale.at(owned, present())
		return s, nil
	}
	var err error
	if s.entries, err = s.handler().ToSubresource(); err != nil {
		return nil, fmt.Errorf("managed fields of the scale: %w", err)
	}
	s.remember(&m.scales, s.owners, present(), s.entries, nil)
	return s, nil
}

// handler translates between the entries of the object and those of its Scale.
func (s *Scaled) handler() *managedfields.ScaleHandler {
	return managedfields.NewScaleHandler(s.owned, s.res.GVK.GroupVersion(), s.managers.replicas(s.res))
}

// merger keeps the managed fields of Scales.
func (s *Scaled) merger() (*managedfields.FieldManager, error) {
	types, err := s.managers.more()
	if err != nil {
		return nil, fmt.Errorf("field types of a Scale: %w", err)
	}
	gvk := autoscalingv1.SchemeGroupVersion.WithKind("Scale")
	return managedfields.NewDefaultFieldManager(types, scales{}, scales{}, scales{}, gvk, gvk.GroupVersion(), "scale", nil)
}

// Entries are the managed fields of the Scale.
func (s *Scaled) Entries() []metav1.ManagedFieldsEntry { return s.entries }

// Update records in the Scale obj that the manager made it of live, and returns the managed fields that the object is to have.
func (s *Scaled) Update(live, obj *autoscalingv1.Scale, manager string) ([]metav1.ManagedFieldsEntry, error) {
	question := s.ask(live, obj, manager)
	if o, known := s.recall(&s.managers.scaleUpdates, question); known {
		now := present()
		obj.ManagedFields = o.scale.at(s.owned, now)
		return o.object.at(s.owned, now), nil
	}
	merger, err := s.merger()
	if err != nil {
		return nil, err
	}
	asked := present()
	live = live.DeepCopy()
	live.ManagedFields = s.entries
	merger.UpdateNoErrors(live, obj, manager)
	entries, err := s.parent(obj)
	if err == nil {
		s.remember(&s.managers.scaleUpdates, question, asked, obj.ManagedFields, entries)
	}
	return entries, err
}

// Apply applies a configuration to the Scale live, and returns the new Scale and the managed fields that the object is to have.
func (s *Scaled) Apply(live *autoscalingv1.Scale, applied *unstructured.Unstructured, manager string, force bool) (*autoscalingv1.Scale, []metav1.ManagedFieldsEntry, error) {
	merger, err := s.merger()
	if err != nil {
		return nil, nil, err
	}
	live = live.DeepCopy()
	live.ManagedFields = s.entries
	merged, err := merger.Apply(live, applied, manager, force)
	if err != nil {
		return nil, nil, err
	}
	scale, ok := merged.(*autoscalingv1.Scale)
	if !ok { // the configuration changes nothing
		scale = live
	}
	entries, err := s.parent(scale)
	return scale, entries, err
}

func (s *Scaled) parent(scale *autoscalingv1.Scale) ([]metav1.ManagedFieldsEntry, error) {
	entries, err := s.handler().ToParent(scale.ManagedFields)
	if err != nil {
		return nil, fmt.Errorf("managed fields of the object: %w", err)
	}
	wholeTimes(entries)
	return entries, nil
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
