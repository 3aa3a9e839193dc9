package fieldmanager

import (
	"bytes"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"howdah.dev/services/apiserver/internal/plain"
	"howdah.dev/services/apiserver/internal/registry"
)

// applyBuiltIn is Apply for an object of a Go type. What its applier owns afterwards is remembered as it is written into the entry.
func (m *Manager) applyBuiltIn(live registry.Object, configuration *unstructured.Unstructured, manager string, force bool) (runtime.Object, error) {
	d, ok := m.outline(configuration)
	if ok {
		if owns, ok := m.applies.Get(d); ok {
			if out := m.setBuiltIn(live, configuration, manager, force, owns); out != nil {
				return out, nil
			}
		}
	}
	out, err := m.FieldManager.Apply(live.DeepCopyObject(), configuration.DeepCopy(), manager, force)
	if obj, is := out.(registry.Object); err == nil && is {
		entries := obj.GetManagedFields()
		wholeTimes(entries)
		if own := m.builtInApplier(entries, manager); ok && own >= 0 && entries[own].FieldsV1 != nil {
			m.applies.Put(d, entries[own].FieldsV1.Raw)
		}
	}
	return out, err
}

// setBuiltIn is set for an object of a Go type; nil is where more has to be worked out.
func (m *Manager) setBuiltIn(live registry.Object, configuration *unstructured.Unstructured, manager string, force bool, owns []byte) registry.Object {
	entries := live.GetManagedFields()
	if !m.usual(entries) || manager == "" || fractional(entries) || !slices.IsSortedFunc(entries, compareEntries) {
		return nil
	}
	own := m.builtInApplier(entries, manager)
	if own >= 0 && !bytes.Equal(entries[own].FieldsV1.Raw, owns) {
		return nil
	}
	tree, ok := m.treeOf(live)
	if _, nulls := metadataOf(configuration)["creationTimestamp"]; !ok || nulls || !appliesTo(tree, configuration) {
		return nil
	}
	others := make([]owner, len(entries))
	for i := range entries {
		if i != own {
			others[i].raw = entries[i].FieldsV1.Raw
		}
	}
	o, ok := m.overlay(m.types, others, force)
	if !ok || !o.whole(tree.Object, o.root) {
		return nil
	}
	merged, ok := o.object(tree.Object, configuration.Object)
	switch {
	case !ok:
		return nil
	case !o.changed && own >= 0:
		return live.DeepCopyObject().(registry.Object)
	}
	out := live.DeepCopyObject().(registry.Object) // with its raw fields as they were written, if nothing else changes them
	if o.changed {
		var err error
		if out, err = toObject(m.resource, &unstructured.Unstructured{Object: merged}); err != nil {
			return nil
		}
		m.resource.Default(out)
	}
	if entries, ok = m.applied(entries, own, manager, owns, o.changed); !ok {
		return nil
	}
	if entries, ok = o.disownedBuiltIn(live.GetManagedFields(), entries); !ok {
		return nil
	}
	out.SetManagedFields(entries)
	return out
}

// usual reports whether entries are those of objects that are applied to: a few, of this version, with fields, each of another owner.
func (m *Manager) usual(entries []metav1.ManagedFieldsEntry) bool {
	version := m.gvk.GroupVersion().String()
	for i := range entries {
		e := &entries[i]
		if e.APIVersion != version || e.FieldsV1 == nil || e.FieldsType != "FieldsV1" ||
			slices.ContainsFunc(entries[:i], func(other metav1.ManagedFieldsEntry) bool { return sameOwner(&other, e) }) {
			return false
		}
	}
	return len(entries) > 0 && len(entries) <= maxEntries
}

// builtInApplier returns the index of the entry of an applier, or -1 where there is none.
func (m *Manager) builtInApplier(entries []metav1.ManagedFieldsEntry, manager string) int {
	like := m.applierEntry(manager, nil)
	return slices.IndexFunc(entries, func(e metav1.ManagedFieldsEntry) bool { return sameOwner(&e, &like) })
}

func (m *Manager) applierEntry(manager string, owns []byte) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{
		Manager: manager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: m.gvk.GroupVersion().String(), Subresource: m.subresource,
		FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: owns},
	}
}

// treeOf returns a tree of an object of a Go type, without its managed fields.
func (m *Manager) treeOf(obj registry.Object) (*unstructured.Unstructured, bool) {
	bare := copied(obj)
	if bare == nil {
		return nil, false
	}
	bare.SetManagedFields(nil)
	bare.GetObjectKind().SetGroupVersionKind(m.gvk)
	tree, err := runtime.DefaultUnstructuredConverter.ToUnstructured(bare)
	return &unstructured.Unstructured{Object: tree}, err == nil
}

// applied returns entries after an apply by the owner of one of them, or by somebody new. ok is false where their order is not clear.
func (m *Manager) applied(entries []metav1.ManagedFieldsEntry, own int, manager string, owns []byte, changes bool) (after []metav1.ManagedFieldsEntry, ok bool) {
	entry := m.applierEntry(manager, owns)
	after = slices.Clone(entries)
	if own >= 0 {
		entry = entries[own]
		after = slices.Delete(after, own, own+1)
	}
	if changes {
		entry.Time = present()
	}
	at, tied := slices.BinarySearchFunc(after, entry, compareEntries)
	return slices.Insert(after, at, entry), !tied
}

// disownedBuiltIn is disowned for entries that were those before, and have another place now.
func (o *overlay) disownedBuiltIn(before, entries []metav1.ManagedFieldsEntry) (left []metav1.ManagedFieldsEntry, ok bool) {
	lost := map[int]*fieldpath.Set{}
	for _, t := range o.taken {
		path := make(fieldpath.Path, len(t.path))
		for i, element := range t.path {
			var err error
			if path[i], err = fieldpath.DeserializePathElement(element); err != nil {
				return nil, false
			}
		}
		if lost[t.from] == nil {
			lost[t.from] = fieldpath.NewSet()
		}
		lost[t.from].Insert(path)
	}
	for from, fields := range lost {
		at := slices.IndexFunc(entries, func(e metav1.ManagedFieldsEntry) bool { return sameOwner(&e, &before[from]) })
		owned := fieldpath.NewSet()
		if err := owned.FromJSON(bytes.NewReader(entries[at].FieldsV1.Raw)); err != nil {
			return nil, false
		}
		if owned = owned.Difference(fields); owned.Empty() {
			entries = slices.Delete(entries, at, at+1)
			continue
		}
		raw, err := owned.ToJSON()
		if err != nil {
			return nil, false
		}
		entries[at].FieldsV1 = &metav1.FieldsV1{Raw: raw}
	}
	return entries, true
}

// compareEntries is compareTrees for the entries of an object of a Go type.
func compareEntries(a, b metav1.ManagedFieldsEntry) int {
	if c := strings.Compare(string(a.Operation), string(b.Operation)); c != 0 {
		return c
	}
	if c := int(seconds(a.Time) - seconds(b.Time)); c != 0 {
		return c
	}
	if c := strings.Compare(a.Manager, b.Manager); c != 0 {
		return c
	}
	return strings.Compare(a.Subresource, b.Subresource)
}

// owner is who owns some fields of an object: as a tree, or as they are written, which are read when they are asked for.
type owner struct {
	tree map[string]any
	raw  []byte
}

// find returns what is owned at a path and below it, nil where that is nothing. known is false where what the path leads through is owned as a
// whole, or where it cannot be read who owns what.
func (o *owner) find(path []string) (below map[string]any, known bool) {
	if o.raw != nil {
		tree, ok := plain.Decode(o.raw)
		if !ok {
			return nil, false
		}
		o.tree, o.raw = tree, nil
	}
	return find(o.tree, path)
}
