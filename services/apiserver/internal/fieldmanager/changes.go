package fieldmanager

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	smdschema "sigs.k8s.io/structured-merge-diff/v6/schema"

	"howdah.dev/services/apiserver/internal/registry"
)

// appendChanges appends which fields differ between two objects of one type, and how, so that a comparison by the schema follows from it: what it
// does not tell, as most values, such a comparison does not depend on. It goes through structures, through lists with keys whose items stay where they
// are, and through maps of texts and of bytes, to fields that are scalars or lists of texts. ok is false where something else differs.
func (m *Manager) appendChanges(b []byte, before, after registry.Object) ([]byte, bool) {
	x, y := reflect.ValueOf(before), reflect.ValueOf(after)
	types, ok := m.types.(*types)
	if !ok || x.Kind() != reflect.Pointer || x.Type() != y.Type() || x.Elem().Kind() != reflect.Struct {
		return b, false
	}
	known, ok := types.typeOf(before)
	if !ok {
		return b, false
	}
	w := &changes{known.schema, b}
	ok = w.structure(x.Elem(), y.Elem(), known.ref)
	return w.b, ok
}

// changes are those between two values, walked beside their schema. Its methods report whether all that differs could be told.
type changes struct {
	schema *smdschema.Schema
	b      []byte
}

// ending ends the fields of a structure and the items of a list.
const ending = 0xff

// maxKeyed bounds the lists whose items are looked at one by one: each that differs is compared with the keys of all.
const maxKeyed = 200

// structure tells of two structs that the schema has as one thing of separate fields.
func (w *changes) structure(x, y reflect.Value, ref smdschema.TypeRef) bool {
	atom, ok := w.schema.Resolve(ref)
	if !ok || atom.Map == nil || atom.Map.ElementRelationship == smdschema.Atomic {
		return false
	}
	if _, whole := x.Addr().Interface().(json.Marshaler); whole { // as a quantity, whose parts are no fields
		return false
	}
	return w.fields(x, y, atom.Map)
}

func (w *changes) fields(x, y reflect.Value, of *smdschema.Map) bool {
	for i, name := range jsonNames(x.Type()) {
		a, b := x.Field(i), y.Field(i)
		switch {
		case a.Type() == typeMeta:
			if !a.Equal(b) {
				return false
			}
			continue
		case a.IsZero() && b.IsZero():
			continue
		case !a.CanInterface() || i >= ending:
			return false
		case equalFields(a, b):
			continue
		}
		w.b = append(w.b, byte(i))
		if name == "" {
			if a.Kind() != reflect.Struct || !w.fields(a, b, of) {
				return false
			}
			continue
		}
		field, ok := of.FindField(name)
		if !ok || !w.value(a, b, field.Type) {
			return false
		}
	}
	w.b = append(w.b, ending)
	return true
}

func (w *changes) value(x, y reflect.Value, ref smdschema.TypeRef) bool {
	if was, is, ok := scalarsOf(x, y); ok {
		w.b = appendChange(append(w.b, byte(was.state), byte(is.state)), was, is)
		return true
	}
	switch x.Kind() {
	case reflect.Struct:
		return w.structure(x, y, ref)
	case reflect.Pointer:
		return !x.IsNil() && !y.IsNil() && x.Type().Elem().Kind() == reflect.Struct && w.structure(x.Elem(), y.Elem(), ref)
	case reflect.Map:
		return w.entries(x, y, ref)
	case reflect.Slice:
		switch x.Type().Elem().Kind() {
		case reflect.String:
			return w.texts(x, y, ref)
		case reflect.Struct:
			return w.items(x, y, ref)
		}
	}
	return false
}

// stateOf is whether there is something in a list or a map.
func stateOf(v reflect.Value) byte {
	switch {
	case v.IsNil():
		return byte(absent)
	case v.Len() == 0:
		return byte(empty)
	}
	return byte(set)
}

// texts tells of lists that the schema has as one thing.
func (w *changes) texts(x, y reflect.Value, ref smdschema.TypeRef) bool {
	atom, ok := w.schema.Resolve(ref)
	if !ok || atom.List == nil || atom.List.ElementRelationship != smdschema.Atomic {
		return false
	}
	w.b = append(w.b, stateOf(x), stateOf(y)) // that they differ is known
	return true
}

// entries tells of maps of texts or bytes.
func (w *changes) entries(x, y reflect.Value, ref smdschema.TypeRef) bool {
	atom, ok := w.schema.Resolve(ref)
	if !ok || atom.Map == nil || atom.Map.ElementRelationship == smdschema.Atomic || len(atom.Map.Fields) > 0 {
		return false
	}
	w.b = append(w.b, stateOf(x), stateOf(y))
	switch before := x.Interface().(type) {
	case map[string]string:
		after, ok := y.Interface().(map[string]string)
		if ok {
			w.b = appendKeyChanges(w.b, before, after, func(a, b string) bool { return a == b })
		}
		return ok
	case map[string][]byte:
		after, ok := y.Interface().(map[string][]byte)
		for _, side := range []map[string][]byte{before, after} {
			for _, value := range side {
				ok = ok && value != nil // which is encoded as null
			}
		}
		if ok {
			w.b = appendKeyChanges(w.b, before, after, bytes.Equal)
		}
		return ok
	}
	return false
}

// appendKeyChanges appends which keys come, go, or have another value.
func appendKeyChanges[V any](b []byte, x, y map[string]V, same func(a, b V) bool) []byte {
	changed := map[string]byte{}
	for key, was := range x {
		switch is, kept := y[key]; {
		case !kept:
			changed[key] = 'r'
		case !same(is, was):
			changed[key] = 'm'
		}
	}
	for key := range y {
		if _, kept := x[key]; !kept {
			changed[key] = 'a'
		}
	}
	for _, key := range slices.Sorted(maps.Keys(changed)) {
		b = appendText(append(b, changed[key]), key)
	}
	return append(b, ending)
}

// items tells of lists with keys: both have the same in the same places, each once.
func (w *changes) items(x, y reflect.Value, ref smdschema.TypeRef) bool {
	atom, ok := w.schema.Resolve(ref)
	n := x.Len()
	if !ok || atom.List == nil || atom.List.ElementRelationship != smdschema.Associative || len(atom.List.Keys) == 0 || n != y.Len() || n > maxKeyed {
		return false
	}
	keys := make([]int, len(atom.List.Keys))
	names := jsonNames(x.Type().Elem())
	for i, key := range atom.List.Keys {
		if keys[i] = slices.Index(names, key); keys[i] < 0 {
			return false
		}
	}
	for i := range n {
		a, b := x.Index(i), y.Index(i)
		if equalFields(a, b) {
			continue
		}
		w.b = append(w.b, 'i')
		for _, key := range keys {
			was, is, ok := scalarsOf(a.Field(key), b.Field(key))
			if !ok || was != is || was.state != set { // one that is not there may have a default
				return false
			}
			w.b = binary.AppendVarint(appendText(w.b, was.text), was.number)
		}
		for j := range n {
			if j != i && (sameKeys(x.Index(j), a, keys) || sameKeys(y.Index(j), a, keys)) {
				return false
			}
		}
		if !w.structure(a, b, atom.List.ElementType) {
			return false
		}
	}
	w.b = append(w.b, ending)
	return true
}

// sameKeys reports whether two items have the same keys, or may have: what is not there may be the default.
func sameKeys(a, b reflect.Value, keys []int) bool {
	for _, key := range keys {
		x, y, _ := scalarsOf(a.Field(key), b.Field(key))
		if x != y && x.state == set {
			return false
		}
	}
	return true
}

var namesOfTypes sync.Map // of []string by reflect.Type

// jsonNames returns the names of a struct's fields in JSON; "" are those whose own fields stand for them.
func jsonNames(of reflect.Type) []string {
	if known, ok := namesOfTypes.Load(of); ok {
		return known.([]string)
	}
	names := make([]string, of.NumField())
	for i := range names {
		names[i], _, _ = strings.Cut(of.Field(i).Tag.Get("json"), ",")
	}
	namesOfTypes.Store(of, names)
	return names
}
