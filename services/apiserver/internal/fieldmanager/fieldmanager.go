// Package fieldmanager keeps metadata.managedFields and merges server-side apply.
package fieldmanager

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"howdah.dev/kit/recent"
	"howdah.dev/services/apiserver/internal/registry"
)

// Managers makes and keeps a manager for every version and subresource of every kind.
type Managers struct {
	table *registry.Table
	// types parses the schema of all kinds: it costs some 100 ms, so that is left to the first write or to Warm.
	types func() managedfields.TypeConverter
	// more knows the kinds that client-go has no types of.
	more func() (managedfields.TypeConverter, error)

	mu       sync.Mutex
	managers map[key]*Manager
	// trees are the outcomes of all custom kinds.
	trees recent.Map[digest, treeOutcome]
	// scales are the entries that Scales have, scaleUpdates what comes of updates of them.
	scales, scaleUpdates memo[scaleOutcome]
}

type key struct {
	gvk         schema.GroupVersionKind
	subresource string
	custom      registry.Custom // nil for all but custom kinds, whose schema changes
}

// Manager is that of one version and subresource.
type Manager struct {
	*managedfields.FieldManager
	// ignored is the Go field that a write through this manager neither changes nor owns; empty is none.
	ignored string
	// creations spare the tracking of objects that are created many times over: the entries that each gets.
	creations memo[[]metav1.ManagedFieldsEntry]
	// types compare the objects whose updates are remembered; nil remembers none.
	types       managedfields.TypeConverter
	gvk         schema.GroupVersionKind
	subresource string
	updates     memo[outcome]
	repeats     repeats
	// applies are the fields that an applier owns of an object of a Go type, as they are written.
	applies  memo[[]byte]
	resource *registry.Resource
	// treeTypes compare custom objects.
	treeTypes managedfields.TypeConverter
	// identity names the schema and the subresource in what is remembered of custom objects.
	identity string
	trees    *recent.Map[digest, treeOutcome]
	// sound reports that a custom object has all its defaults, and nothing that its schema does not know.
	sound func(registry.Object) bool
}

// New returns an empty set of managers. models are the OpenAPI 3 schemas of the kinds of group that client-go has no types of.
func New(table *registry.Table, models func() map[string]*spec.Schema) *Managers {
	return &Managers{
		table:    table,
		managers: map[key]*Manager{},
		trees:    recent.Map[digest, treeOutcome]{Max: 4096, Size: func(o treeOutcome) int { return o.size }, MaxSize: treeBytes},
		types: sync.OnceValue(func() managedfields.TypeConverter {
			return newTypes(applyconfigurations.NewTypeConverter(scheme.Scheme))
		}),
		more: sync.OnceValues(func() (managedfields.TypeConverter, error) {
			types, err := managedfields.NewTypeConverter(models(), false)
			if err != nil {
				return nil, err
			}
			return newTypes(types), nil
		}),
	}
}

// Warm parses the schema, so that the first write need not.
func (m *Managers) Warm() { m.types() }

// For returns the manager of a resource and subresource.
func (m *Managers) For(res *registry.Resource, subresource string) (*Manager, error) {
	k := key{res.GVK, subresource, res.Kind.Custom}
	m.mu.Lock()
	found := m.managers[k]
	m.mu.Unlock()
	if found != nil {
		return found, nil
	}
	converter := converter{m.table, res.Kind}
	types, err := m.TypesOf(res, res.GVK)
	if err != nil {
		return nil, fmt.Errorf("field types of %s: %w", res.GVK, err)
	}
	made, err := managedfields.NewDefaultCRDFieldManager(types, converter, converter, converter,
		res.GVK, res.Kind.GVK.GroupVersion(), subresource, resetFields(res, subresource))
	if err != nil {
		return nil, fmt.Errorf("field manager of %s: %w", res.GVK, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.managers[k] == nil {
		if res.Kind.Custom != nil {
			m.forget(res)
		}
		manager := &Manager{FieldManager: made, resource: res, ignored: ignoredField(res, subresource), gvk: res.GVK, subresource: subresource}
		if res.Kind.Custom == nil && res.GVK == res.Kind.GVK {
			manager.types = types
		}
		if res.Kind.Custom != nil {
			manager.treeTypes, manager.trees = types, &m.trees
			manager.sound = res.Kind.Custom.Sound
			manager.identity = res.Kind.Custom.Fingerprint() + "/" + subresource
		}
		m.managers[k] = manager
	}
	return m.managers[k], nil
}

// TypesOf returns what knows the fields of a resource, or of another kind that a subresource takes. It fails where the schema of a
// custom kind cannot be had.
func (m *Managers) TypesOf(res *registry.Resource, gvk schema.GroupVersionKind) (managedfields.TypeConverter, error) {
	switch {
	case res.Kind.Custom != nil:
		return res.Kind.Custom.Types()
	case !scheme.Scheme.Recognizes(gvk), gvk.Kind == "Binding", gvk.Kind == "TokenRequest", gvk.Kind == "Eviction": // none of these is applied
		return m.more()
	}
	return m.types(), nil
}

// forget drops the managers of a custom kind as it was before.
func (m *Managers) forget(res *registry.Resource) {
	for k := range m.managers {
		if k.custom != nil && k.custom != res.Kind.Custom && k.gvk == res.GVK {
			delete(m.managers, k)
		}
	}
}

// track is Update in full, whatever is remembered.
func (m *Manager) track(live, obj registry.Object, manager string) {
	if m.ignored == "" {
		m.UpdateNoErrors(live, obj, manager)
	} else {
		// What the write does not own need not be walked.
		slim := Without(obj, m.ignored)
		m.UpdateNoErrors(Without(live, m.ignored), slim, manager)
		obj.SetManagedFields(slim.GetManagedFields())
	}
	switch after := obj.GetManagedFields(); {
	case m.foreign(after):
		obj.SetManagedFields(m.own(after))
	case len(after) == 0:
		obj.SetManagedFields(nil) // custom objects would have an empty list
	}
	wholeTimes(obj.GetManagedFields())
}

// ignoredField is none of versions that are not stored, which may keep in annotations what they have no fields for (autoscaling/v1): what the
// object had there before is seen only with all of it. Nor has a custom kind one: a status that is not of its type leaves an object without
// entries, and what a write of one of several versions leaves out is left out of the entries that resetFields say.
func ignoredField(res *registry.Resource, subresource string) string {
	switch {
	case res.Kind.Custom != nil, res.GVK != res.Kind.GVK:
		return ""
	case subresource == "status":
		return "Spec"
	case subresource == "" && res.Kind.Status != nil && !res.Kind.TracksStatus:
		return "Status"
	}
	return ""
}

// wholeTimes rounds the times of entries down to what encodings have of them.
func wholeTimes(entries []metav1.ManagedFieldsEntry) {
	for i := range entries {
		if t := entries[i].Time; t != nil && t.Nanosecond() != 0 {
			whole := t.Rfc3339Copy()
			whole.Time = whole.UTC()
			entries[i].Time = &whole
		}
	}
}

// Settle gives obj the managed fields of live where nothing but their times differs: a write that changes nothing else does not
// change who wrote last, and when.
func Settle(live, obj registry.Object) {
	if a, b, ok := trees(live, obj); ok {
		settleTree(a, b)
		return
	}
	before, after := live.GetManagedFields(), obj.GetManagedFields()
	if !slices.EqualFunc(before, after, func(a, b metav1.ManagedFieldsEntry) bool { return sameEntry(&a, &b) }) || sameEntries(before, after) {
		return
	}
	if equality.Semantic.DeepEqual(Untracked(live), Untracked(obj)) {
		obj.SetManagedFields(before)
	}
}

func sameEntry(a, b *metav1.ManagedFieldsEntry) bool {
	if a.Manager != b.Manager || a.Operation != b.Operation || a.APIVersion != b.APIVersion || a.Subresource != b.Subresource ||
		(a.FieldsV1 == nil) != (b.FieldsV1 == nil) {
		return false
	}
	return a.FieldsV1 == nil || string(a.FieldsV1.Raw) == string(b.FieldsV1.Raw)
}

// resetFields are the fields that a write does not own although its body carries them.
func resetFields(res *registry.Resource, subresource string) map[fieldpath.APIVersion]fieldpath.Filter {
	var set *fieldpath.Set
	switch status := res.Kind.Status; {
	case subresource == "status" && res.Kind.Custom != nil:
		set = fieldpath.NewSet(fieldpath.MakePathOrDie("spec"), fieldpath.MakePathOrDie("metadata"))
	case subresource == "status":
		set = paths("spec", status.Untracked)
	case (subresource == "" || subresource == "finalize") && status != nil && !res.Kind.TracksStatus:
		set = paths("status", res.Kind.Untracked)
	default:
		return nil
	}
	filters := map[fieldpath.APIVersion]fieldpath.Filter{}
	exclude := func(gvk schema.GroupVersionKind) {
		filters[fieldpath.APIVersion(gvk.GroupVersion().String())] = fieldpath.NewExcludeSetFilter(set)
	}
	exclude(res.GVK)
	if res.Kind.Custom == nil { // in the entries of all versions
		for _, version := range res.Kind.Versions() {
			exclude(version.GVK)
		}
	}
	if subresource == "status" && res.Kind.Custom != nil {
		for _, gvk := range res.Kind.Custom.GVKs() {
			exclude(gvk)
		}
	}
	return filters
}

// paths are the fields of these names; a dot leads from one into the next.
func paths(first string, more []string) *fieldpath.Set {
	set := fieldpath.NewSet(fieldpath.MakePathOrDie(first))
	for _, name := range more {
		var path fieldpath.Path
		for part := range strings.SplitSeq(name, ".") {
			path = append(path, fieldpath.PathElement{FieldName: &part})
		}
		set.Insert(path)
	}
	return set
}

// converter converts between the versions of one kind.
type converter struct {
	table *registry.Table
	kind  *registry.Kind
}

// Convert is not used by the field managers.
func (converter) Convert(_, _, _ any) error {
	return fmt.Errorf("conversion into an object is not supported")
}

// ConvertFieldLabel is not used by the field managers.
func (converter) ConvertFieldLabel(_ schema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

// ConvertToVersion returns the object in a version of its kind, as a typed object.
func (c converter) ConvertToVersion(in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error) {
	gvk := in.GetObjectKind().GroupVersionKind()
	want, ok := target.KindForGroupVersionKinds([]schema.GroupVersionKind{gvk, c.kind.GVK})
	if gv, is := target.(schema.GroupVersion); is {
		want, ok = gv.WithKind(gvk.Kind), true
	}
	if !ok {
		return nil, runtime.NewNotRegisteredErrForTarget("howdah", nil, target)
	}
	if c.kind.Custom != nil {
		return c.custom(in, want)
	}
	from, to := c.table.FindKind(gvk), c.table.FindKind(want)
	if from == nil || to == nil {
		return nil, runtime.NewNotRegisteredErrForKind("howdah", want)
	}
	obj, err := toObject(from, in)
	if err != nil || from == to {
		return obj, err
	}
	if obj, err = from.ToStored(obj); err != nil {
		return nil, err
	}
	if obj, err = to.FromStored(obj); err != nil {
		return nil, err
	}
	obj.GetObjectKind().SetGroupVersionKind(to.GVK)
	return obj, nil
}

// custom converts an object of a custom kind. Who wrote in a version that is no longer served still owns what was written.
func (c converter) custom(in runtime.Object, want schema.GroupVersionKind) (runtime.Object, error) {
	obj, ok := in.(registry.Object)
	if !ok {
		return nil, fmt.Errorf("%T has no metadata", in)
	}
	if !slices.Contains(c.kind.Custom.GVKs(), want) {
		return nil, runtime.NewNotRegisteredErrForKind("howdah", want)
	}
	return c.kind.Custom.ConvertWhole(context.Background(), obj, want)
}

func toObject(res *registry.Resource, in runtime.Object) (registry.Object, error) {
	u, ok := in.(*unstructured.Unstructured)
	if !ok {
		obj, ok := in.(registry.Object)
		if !ok {
			return nil, fmt.Errorf("%T has no metadata", in)
		}
		return obj, nil
	}
	obj := res.New()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, obj); err != nil {
		return nil, fmt.Errorf("unable to convert unstructured object to %v: %w", res.GVK, err)
	}
	obj.GetObjectKind().SetGroupVersionKind(res.GVK)
	return obj, nil
}

// Default fills unset fields. A custom object may share maps with the configuration that was applied, which kubectl's annotation is made of later: one that
// has fields to fill gets its own.
func (c converter) Default(in runtime.Object) {
	obj, ok := in.(registry.Object)
	if u, tree := in.(*unstructured.Unstructured); tree && c.kind.Custom != nil && !c.kind.Custom.Sound(u) {
		u.Object = runtime.DeepCopyJSON(u.Object)
	}
	if res := c.table.FindKind(in.GetObjectKind().GroupVersionKind()); ok && res != nil {
		res.Default(obj)
	}
}

// New returns an empty object.
func (c converter) New(gvk schema.GroupVersionKind) (runtime.Object, error) {
	res := c.table.FindKind(gvk)
	if res == nil {
		return nil, runtime.NewNotRegisteredErrForKind("howdah", gvk)
	}
	obj := res.New()
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	return obj, nil
}
