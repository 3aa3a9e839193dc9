package fieldmanager

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	smdschema "sigs.k8s.io/structured-merge-diff/v6/schema"

	"howdah.dev/services/apiserver/internal/plain"
)

// overlay sets the fields of a configuration in an object that has all of them. It copies what it changes, and gives up where the configuration
// has a field, or an item of a list with keys, that the object has not, where items are in another order, and where somebody else owns
// what it changes.
type overlay struct {
	schema  *smdschema.Schema
	root    smdschema.TypeRef
	others  []map[string]any // the fields that others own
	path    []string
	changed bool
}

// overlay returns one for an object with these entries, of which one is the applier's own.
func (m *Manager) overlay(entries []any, own int) (*overlay, bool) {
	bare := &unstructured.Unstructured{Object: map[string]any{"apiVersion": m.gvk.GroupVersion().String(), "kind": m.gvk.Kind}}
	tv, err := m.treeTypes.ObjectToTyped(bare)
	if err != nil {
		return nil, false
	}
	o := &overlay{schema: tv.Schema(), root: tv.TypeRef()}
	for i := range entries {
		if i != own {
			fields, _ := entries[i].(map[string]any)["fieldsV1"].(map[string]any)
			o.others = append(o.others, fields)
		}
	}
	return o, true
}

// object merges whole objects.
func (o *overlay) object(live, applied map[string]any) (map[string]any, bool) {
	atom, ok := o.schema.Resolve(o.root)
	if !ok || atom.Map == nil {
		return nil, false
	}
	metadata, is := applied["metadata"].(map[string]any)
	if !is {
		return nil, false
	}
	rest := maps.Clone(applied)
	delete(rest, "apiVersion")
	delete(rest, "kind")
	named := maps.Clone(metadata)
	for _, name := range []string{"name", "namespace", "creationTimestamp"} {
		delete(named, name)
	}
	rest["metadata"] = named
	if len(named) == 0 {
		delete(rest, "metadata")
	}
	merged, ok := o.fields(live, rest, atom.Map)
	if ok && !o.changed {
		merged = maps.Clone(live)
	}
	return merged, ok
}

func (o *overlay) value(live, applied any, ref smdschema.TypeRef) (any, bool) {
	if plain.Equal(live, applied) {
		return live, true
	}
	atom, ok := o.schema.Resolve(ref)
	if !ok || live == nil || applied == nil {
		return nil, false
	}
	switch a := applied.(type) {
	case map[string]any:
		l, is := live.(map[string]any)
		switch {
		case !is || atom.Map == nil:
			return nil, false
		case atom.Map.ElementRelationship == smdschema.Atomic:
			return applied, o.change()
		case len(a) == 0:
			return nil, false
		}
		return o.fields(l, a, atom.Map)
	case []any:
		l, is := live.([]any)
		switch {
		case !is || atom.List == nil:
			return nil, false
		case atom.List.ElementRelationship == smdschema.Atomic:
			return applied, o.change()
		case atom.List.ElementRelationship != smdschema.Associative || len(a) == 0:
			return nil, false
		}
		return o.items(l, a, atom.List)
	}
	switch live.(type) {
	case map[string]any, []any:
		return nil, false
	}
	return applied, atom.Scalar != nil && o.change()
}

func (o *overlay) fields(live, applied map[string]any, of *smdschema.Map) (map[string]any, bool) {
	out, copied := live, false
	for name, value := range applied {
		before, has := live[name]
		if !has {
			return nil, false
		}
		ref := of.ElementType
		if field, ok := of.FindField(name); ok {
			ref = field.Type
		}
		changed := o.changed
		o.changed = false
		o.path = append(o.path, "f:"+name)
		after, ok := o.value(before, value, ref)
		o.path = o.path[:len(o.path)-1]
		if !ok {
			return nil, false
		}
		if o.changed {
			if !copied {
				out, copied = maps.Clone(live), true
			}
			out[name] = after
		}
		o.changed = o.changed || changed
	}
	return out, true
}

// items merges lists with keys and sets, of which the object has all items of the configuration, in the same order.
func (o *overlay) items(live, applied []any, of *smdschema.List) ([]any, bool) {
	out := live
	next := 0
	copied := false
	for _, item := range applied {
		at := slices.IndexFunc(live, func(other any) bool { return sameItem(item, other, of.Keys) })
		if at < next || slices.ContainsFunc(live[at+1:], func(other any) bool { return sameItem(item, other, of.Keys) }) {
			return nil, false
		}
		next = at + 1
		if len(of.Keys) == 0 {
			continue
		}
		element, ok := elementOf(item, of.Keys)
		if !ok {
			return nil, false
		}
		changed := o.changed
		o.changed = false
		o.path = append(o.path, element)
		after, ok := o.value(live[at], item, of.ElementType)
		o.path = o.path[:len(o.path)-1]
		if !ok {
			return nil, false
		}
		if o.changed {
			if !copied {
				out, copied = slices.Clone(live), true
			}
			out[at] = after
		}
		o.changed = o.changed || changed
	}
	return out, true
}

// sameItem reports whether two items of a list have the same keys or, where it has none, are equal.
func sameItem(a, b any, keys []string) bool {
	if len(keys) == 0 {
		return plain.Equal(a, b)
	}
	x, ok1 := a.(map[string]any)
	y, ok2 := b.(map[string]any)
	if !ok1 || !ok2 {
		return false
	}
	for _, key := range keys {
		if value, has := x[key]; !has || !plain.Equal(value, y[key]) {
			return false
		}
	}
	return true
}

// elementOf is how managed fields write the keys of an item.
func elementOf(item any, keys []string) (string, bool) {
	fields, ok := item.(map[string]any)
	if !ok {
		return "", false
	}
	pairs := make([]any, 0, 2*len(keys))
	for _, key := range keys {
		pairs = append(pairs, key, fields[key])
	}
	text, err := fieldpath.SerializePathElement(fieldpath.PathElement{Key: fieldpath.KeyByFields(pairs...)})
	return text, err == nil
}

// change notes that the field at the path changes. It is false where somebody else owns it.
func (o *overlay) change() bool {
	o.changed = true
	return !slices.ContainsFunc(o.others, func(fields map[string]any) bool {
		for _, element := range o.path {
			below, has := fields[element].(map[string]any)
			if !has {
				return false
			}
			fields = below
		}
		return true
	})
}
