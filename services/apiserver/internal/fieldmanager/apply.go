package fieldmanager

import (
	"crypto/sha256"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"howdah.dev/services/apiserver/internal/plain"
	"howdah.dev/services/apiserver/internal/registry"
)

// lastApplied is the annotation of client-side apply, which server-side apply keeps up.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// Apply merges a configuration into a live object and returns the result, which is like it where it changes nothing. It leaves both as they are; what
// it returns may share with them what is below the metadata and the other fields of the object.
//
// What somebody owns who has applied a configuration follows from its fields alone, and most are like others that were applied before, to this object
// or to another one. Then the fields are set, their other owners lose those that change, and nothing else has to be worked out.
func (m *Manager) Apply(live, applied runtime.Object, manager string, force bool) (runtime.Object, error) {
	u, custom := live.(*unstructured.Unstructured)
	configuration, ok := applied.(*unstructured.Unstructured)
	builtIn, typed := live.(registry.Object)
	switch {
	case !ok || !m.ownsAll(configuration):
	case custom && m.treeTypes != nil:
		return m.applyTree(u, configuration, manager, force)
	case !custom && typed && m.types != nil:
		return m.applyBuiltIn(builtIn, configuration, manager, force)
	}
	return m.FieldManager.Apply(live.DeepCopyObject(), applied.DeepCopyObject(), manager, force)
}

// ownsAll reports whether nothing that a configuration brings is left alone by writes of the resource or subresource.
func (m *Manager) ownsAll(configuration *unstructured.Unstructured) bool {
	switch m.subresource {
	case "":
		_, has := configuration.Object["status"]
		return !has
	case "status":
		for name := range configuration.Object {
			if name != "apiVersion" && name != "kind" && name != "metadata" && name != "status" {
				return false
			}
		}
		for name := range metadataOf(configuration) {
			if name != "name" && name != "namespace" {
				return false
			}
		}
		return true
	}
	return false
}

// applyTree is Apply for a custom object.
func (m *Manager) applyTree(u, configuration *unstructured.Unstructured, manager string, force bool) (runtime.Object, error) {
	d, ok := m.outline(configuration)
	if ok {
		if known, ok := m.trees.Get(d); ok {
			if out, ok := m.set(u, configuration, manager, force, known.entries[0]); ok {
				return out, nil
			}
		}
	}
	out, err := m.FieldManager.Apply(u.DeepCopyObject(), configuration.DeepCopyObject(), manager, force)
	if err == nil && ok {
		m.learn(d, out, manager)
	}
	return out, err
}

// outline is a digest of which fields a configuration has.
func (m *Manager) outline(configuration *unstructured.Unstructured) (d digest, ok bool) {
	b, ok := appendOutline(appendText(append(make([]byte, 0, 4096), 'a'), m.identity), configuration.Object)
	return sha256.Sum256(b), ok
}

// learn remembers which fields an applier owns who has applied a configuration.
func (m *Manager) learn(d digest, of runtime.Object, manager string) {
	u, ok := of.(*unstructured.Unstructured)
	if !ok {
		return
	}
	entries, _ := treesOf(u)
	if i, ok := m.applier(entries, manager); ok && i >= 0 {
		if fields, ok := entries[i].(map[string]any)["fieldsV1"].(map[string]any); ok {
			entry := map[string]any{"fieldsV1": fields}
			m.trees.Put(d, treeOutcome{entries: []map[string]any{entry}, size: sizeOf(entry)})
		}
	}
}

// applier returns the index of the entry of an applier, or -1 where there is none; ok is false where there are several.
func (m *Manager) applier(entries []any, manager string) (own int, ok bool) {
	like := map[string]any{"manager": manager, "operation": "Apply", "apiVersion": m.gvk.GroupVersion().String()}
	if m.subresource != "" {
		like["subresource"] = m.subresource
	}
	_, n := sameTree(entries, like)
	return slices.IndexFunc(entries, func(e any) bool { return ownsTree(e, like) }), n <= 1
}

// set applies a configuration with fields of which it is known who owns them afterwards. The applier has none yet, or those very
// ones. ok is false where more has to be worked out.
func (m *Manager) set(live, configuration *unstructured.Unstructured, manager string, force bool, owns map[string]any) (out *unstructured.Unstructured, ok bool) {
	entries, ok := treesOf(live)
	if !ok || len(entries) == 0 || len(entries) > maxEntries || manager == "" {
		return nil, false
	}
	if _, _, ok := appendTrees(nil, entries, m.gvk.GroupVersion().String()); !ok {
		return nil, false
	}
	if !slices.IsSortedFunc(entries, compareTrees) {
		return nil, false // they are to be put in order
	}
	own, ok := m.applier(entries, manager)
	if !ok || own >= 0 && !plain.Equal(entries[own].(map[string]any)["fieldsV1"], owns["fieldsV1"]) || !appliesTo(live, configuration) {
		return nil, false
	}
	others := make([]owner, len(entries))
	for i := range entries {
		if i != own {
			others[i].tree, _ = entries[i].(map[string]any)["fieldsV1"].(map[string]any)
		}
	}
	o, ok := m.overlay(m.treeTypes, others, force)
	if !ok {
		return nil, false
	}
	merged, ok := o.object(live.Object, configuration.Object)
	if !ok {
		return nil, false
	}
	out = &unstructured.Unstructured{Object: merged}
	if !m.sound(out) {
		return nil, false
	}
	// A creationTimestamp of null is a change, too, which is taken back when the object is written. What is left of it is a time, which no write
	// keeps that moves no entry.
	_, nulls := metadataOf(configuration)["creationTimestamp"]
	if own >= 0 && !o.changed && (!nulls || lastOfItsKind(entries, own)) {
		return copied(live).(*unstructured.Unstructured), true
	}
	if entries, ok = o.disowned(entries); !ok {
		return nil, false
	}
	entry := m.entry(manager, owns)
	if own, _ = m.applier(entries, manager); own >= 0 {
		entry = maps.Clone(entries[own].(map[string]any))
		entries = slices.Delete(entries, own, own+1)
	}
	entries, ok = with(entries, entry, o.changed || nulls)
	out.Object["metadata"] = maps.Clone(metadataOf(out))
	metadataOf(out)["managedFields"] = entries
	return out, ok
}

// lastOfItsKind reports whether an entry stands where it stood if its time were now.
func lastOfItsKind(entries []any, own int) bool {
	return own == len(entries)-1 || entries[own+1].(map[string]any)["operation"] != "Apply"
}

// entry is that of somebody who applies for the first time.
func (m *Manager) entry(manager string, owns map[string]any) map[string]any {
	entry := map[string]any{
		"manager": manager, "operation": "Apply", "apiVersion": m.gvk.GroupVersion().String(), "fieldsType": "FieldsV1", "fieldsV1": owns["fieldsV1"],
	}
	if m.subresource != "" {
		entry["subresource"] = m.subresource
	}
	return entry
}

// appliesTo reports whether a configuration names the object, and nothing of its metadata that is out of the ordinary.
func appliesTo(live, configuration *unstructured.Unstructured) bool {
	is, wants := metadataOf(live), metadataOf(configuration)
	for name, value := range wants {
		switch name {
		case "name", "namespace":
			if value != is[name] {
				return false
			}
		case "creationTimestamp":
			if value != nil {
				return false
			}
		case "annotations":
			if annotations, ok := value.(map[string]any); !ok || annotations[lastApplied] != nil {
				return false
			}
		case "labels", "finalizers", "ownerReferences":
		default:
			return false
		}
	}
	annotations, _ := is["annotations"].(map[string]any)
	return wants["name"] != nil && annotations[lastApplied] == nil && live.Object["kind"] == configuration.Object["kind"] &&
		live.Object["apiVersion"] == configuration.Object["apiVersion"]
}

// with puts an entry among others, in their order. Its time is now where its manager changes something.
func with(entries []any, entry map[string]any, changes bool) ([]any, bool) {
	if changes {
		entry["time"] = present().UTC().Format(time.RFC3339)
	}
	at, tied := slices.BinarySearchFunc(entries, any(entry), compareTrees)
	return slices.Insert(entries, at, any(entry)), !tied
}

// compareTrees is the order that entries are kept in: what was applied first, then by time and manager.
func compareTrees(a, b any) int {
	x, y := a.(map[string]any), b.(map[string]any)
	for _, name := range []string{"operation", "time", "manager", "subresource"} {
		p, _ := x[name].(string)
		q, _ := y[name].(string)
		if c := strings.Compare(p, q); c != 0 {
			return c
		}
	}
	return 0
}
