package fieldmanager

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	smdschema "sigs.k8s.io/structured-merge-diff/v6/schema"

	"howdah.dev/services/apiserver/internal/plain"
)

// overlay sets the fields of a configuration in an object. It copies what it changes, and gives up where the configuration has an item of a list
// with keys that the object has not, where items are in another order, and where somebody else owns what it changes, unless
// that is to be taken from them.
type overlay struct {
	schema  *smdschema.Schema
	root    smdschema.TypeRef
	others  []owner // who owns nothing in the place of the applier's own entry
	force   bool
	path    []string
	taken   []taken
	changed bool
}

// taken is a field that is taken from an owner.
type taken struct {
	from int
	path []string
}

// overlay returns one for an object whose fields others own, which these types know.
func (m *Manager) overlay(types managedfields.TypeConverter, others []owner, force bool) (*overlay, bool) {
	bare := &unstructured.Unstructured{Object: map[string]any{"apiVersion": m.gvk.GroupVersion().String(), "kind": m.gvk.Kind}}
	tv, err := types.ObjectToTyped(bare)
	if err != nil {
		return nil, false
	}
	return &overlay{schema: tv.Schema(), root: tv.TypeRef(), force: force, others: others}, true
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
		ref := of.ElementType
		if field, ok := of.FindField(name); ok {
			ref = field.Type
		}
		changed := o.changed
		o.changed = false
		o.path = append(o.path, "f:"+name)
		after, ok := value, false
		if has {
			after, ok = o.value(before, value, ref)
		} else {
			ok = filled(value) && o.add()
		}
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
	keys := o.keysOf(of)
	for _, item := range applied {
		at := slices.IndexFunc(live, func(other any) bool { return sameItem(item, other, keys) })
		if at < next || slices.ContainsFunc(live[at+1:], func(other any) bool { return sameItem(item, other, keys) }) {
			return nil, false
		}
		next = at + 1
		if len(keys) == 0 {
			continue
		}
		element, ok := elementOf(item, keys)
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

// whole reports whether everything in the object's lists with keys has its keys. An object of a Go type that is not applied to may have what has none, as
// ServiceAccounts secrets without names: the library merges nothing into such an object, wherever it is told to.
func (o *overlay) whole(live any, ref smdschema.TypeRef) bool {
	switch v := live.(type) {
	case map[string]any:
		atom, ok := o.schema.Resolve(ref)
		if !ok || atom.Map == nil || atom.Map.ElementRelationship == smdschema.Atomic {
			return true
		}
		for name, value := range v {
			ref := atom.Map.ElementType
			if field, ok := atom.Map.FindField(name); ok {
				ref = field.Type
			}
			if !o.whole(value, ref) {
				return false
			}
		}
	case []any:
		atom, ok := o.schema.Resolve(ref)
		if !ok || atom.List == nil || atom.List.ElementRelationship != smdschema.Associative {
			return true
		}
		keys := o.keysOf(atom.List)
		return !slices.ContainsFunc(v, func(item any) bool { return !keyed(item, keys) || !o.whole(item, atom.List.ElementType) })
	}
	return true
}

// keyed reports whether an item has the keys of its list.
func keyed(item any, keys []itemKey) bool {
	fields, ok := item.(map[string]any)
	return len(keys) == 0 || ok && !slices.ContainsFunc(keys, func(k itemKey) bool { _, has := k.of(fields); return !has })
}

// itemKey is a field by which the items of a list are told apart, and its value where it is not given; nil is none.
type itemKey struct {
	name  string
	given any
}

// keysOf returns the keys of a list, as that of ports, where the protocol may be left out.
func (o *overlay) keysOf(of *smdschema.List) []itemKey {
	keys := make([]itemKey, len(of.Keys))
	item, ok := o.schema.Resolve(of.ElementType)
	for i, name := range of.Keys {
		keys[i].name = name
		if ok && item.Map != nil {
			field, _ := item.Map.FindField(name)
			keys[i].given = field.Default
		}
	}
	return keys
}

// of returns the key's value in an item.
func (k itemKey) of(item map[string]any) (any, bool) {
	if value, has := item[k.name]; has {
		return value, true
	}
	return k.given, k.given != nil
}

// sameItem reports whether two items of a list have the same keys or, where it has none, are equal.
func sameItem(a, b any, keys []itemKey) bool {
	if len(keys) == 0 {
		return plain.Equal(a, b)
	}
	x, ok1 := a.(map[string]any)
	y, ok2 := b.(map[string]any)
	if !ok1 || !ok2 {
		return false
	}
	for _, key := range keys {
		p, ok1 := key.of(x)
		if q, ok2 := key.of(y); !ok1 || !ok2 || !plain.Equal(p, q) {
			return false
		}
	}
	return true
}

// elementOf is how managed fields write the keys of an item.
func elementOf(item any, keys []itemKey) (string, bool) {
	fields, ok := item.(map[string]any)
	if !ok {
		return "", false
	}
	pairs := make([]any, 0, 2*len(keys))
	for _, key := range keys {
		value, _ := key.of(fields)
		pairs = append(pairs, key.name, value)
	}
	text, err := fieldpath.SerializePathElement(fieldpath.PathElement{Key: fieldpath.KeyByFields(pairs...)})
	return text, err == nil
}

// change notes that the field at the path changes. It is false where somebody else owns it who may keep it, or parts of it.
func (o *overlay) change() bool {
	o.changed = true
	for i := range o.others {
		switch below, known := o.others[i].find(o.path); {
		case !known || len(below) > 0 || below != nil && !o.force:
			return false
		case below != nil:
			o.taken = append(o.taken, taken{i, slices.Clone(o.path)})
		}
	}
	return true
}

// add notes that the field at the path is new. It is false where somebody claims to own it.
func (o *overlay) add() bool {
	o.changed = true
	for i := range o.others {
		if below, known := o.others[i].find(o.path); !known || below != nil {
			return false
		}
	}
	return true
}

// filled reports whether a value is just what it becomes where it is merged into nothing: there are no nulls in it, and nothing that is empty.
func filled(value any) bool {
	switch v := value.(type) {
	case nil:
		return false
	case map[string]any:
		for _, field := range v {
			if !filled(field) {
				return false
			}
		}
		return len(v) > 0
	case []any:
		return len(v) > 0 && !slices.ContainsFunc(v, func(item any) bool { return !filled(item) })
	}
	return true
}

// find returns what is owned at a path and below it, nil where that is nothing. known is false where what the path leads through is owned as a
// whole.
func find(fields map[string]any, path []string) (below map[string]any, known bool) {
	for n, element := range path {
		next, has := fields[element].(map[string]any)
		if !has {
			return nil, true
		}
		if len(next) == 0 && n < len(path)-1 {
			return nil, false
		}
		fields = next
	}
	return fields, true
}

// disowned returns a copy of the entries without the fields that were taken, and without those that own nothing more. Their times are as before. ok is
// false where an entry is not of the form that entries are written in.
func (o *overlay) disowned(entries []any) (left []any, ok bool) {
	left = slices.Clone(entries)
	for _, t := range o.taken {
		entry := maps.Clone(left[t.from].(map[string]any))
		fields, is := entry["fieldsV1"].(map[string]any)
		if !is {
			return nil, false
		}
		entry["fieldsV1"] = without(fields, t.path)
		left[t.from] = entry
	}
	return slices.DeleteFunc(left, func(e any) bool {
		fields, _ := e.(map[string]any)["fieldsV1"].(map[string]any)
		return len(fields) == 0
	}), true
}

// self is how managed fields write that a field is owned of which they also name parts.
const self = "."

// without returns fields without the one at a path, and without those on the way that are not owned themselves and of which nothing is left. It
// copies what it changes.
func without(fields map[string]any, path []string) map[string]any {
	out := maps.Clone(fields)
	if len(path) == 1 {
		delete(out, path[0])
		return out
	}
	below, _ := out[path[0]].(map[string]any)
	below = without(below, path[1:])
	_, owned := below[self]
	switch {
	case len(below) == 0:
		delete(out, path[0])
	case len(below) == 1 && owned:
		out[path[0]] = map[string]any{}
	default:
		out[path[0]] = below
	}
	return out
}
