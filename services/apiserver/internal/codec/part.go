package codec

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/services/apiserver/internal/registry"
)

// PatchParts does what Patch does, but has only the parts of a typed object that the patch names go through JSON: fields of the
// object, and of its metadata, spec and status. The others are copied. Most patches name one or two, as a node's report on a pod.
// Whatever is unusual is left to Patch: errors and problems, for their words.
func PatchParts(kind types.PatchType, patch []byte, in, out runtime.Object, want schema.GroupVersionKind, versions *registry.Resource, strict bool) (Patched, error) {
	if kind == types.MergePatchType {
		if from, ok := in.(*unstructured.Unstructured); ok {
			if to, ok := out.(*unstructured.Unstructured); ok && mergeTrees(from, to, patch, want) {
				return Patched{}, nil
			}
		}
	}
	var done *reflect.Value
	switch kind {
	case types.MergePatchType, types.StrategicMergePatchType:
		done = patchParts(kind, patch, in, out, want, strict)
	case types.JSONPatchType:
		done = spliceParts(patch, in, out, want, strict)
	}
	if done != nil {
		reflect.ValueOf(out).Elem().Set(done.Elem())
		return Patched{}, nil
	}
	return Patch(kind, patch, in, out, want, versions, strict)
}

// patchParts returns the patched object, and nil where it must be patched as a whole.
func patchParts(kind types.PatchType, patch []byte, in, out runtime.Object, want schema.GroupVersionKind, strict bool) *reflect.Value {
	from := reflect.ValueOf(in)
	if from.Kind() != reflect.Pointer || from.Elem().Kind() != reflect.Struct || reflect.TypeOf(out) != from.Type() || jsonDepth(patch) != nil {
		return nil
	}
	named, ok := partsOf(patch, from.Elem().Type())
	if !ok {
		return nil
	}
	if done, ok := patchScalars(named, in); ok {
		return &done
	}
	part, rest := divided(in, named, want)
	after := reflect.New(from.Elem().Type())
	patched, err := Patch(kind, patch, part, after.Interface().(runtime.Object), want, nil, strict)
	if err != nil || len(patched.Problems) > 0 {
		return nil
	}
	return joined(rest, after, named)
}

// divided returns an object of the parts of in that are named, of the kind, and one of the others; both share them with in.
func divided(in runtime.Object, named []namedPart, want schema.GroupVersionKind) (part, rest runtime.Object) {
	from := reflect.ValueOf(in).Elem()
	a, b := reflect.New(from.Type()), reflect.New(from.Type())
	b.Elem().Set(from)
	for _, n := range named {
		a.Elem().FieldByIndex(n.path).Set(from.FieldByIndex(n.path))
		b.Elem().FieldByIndex(n.path).SetZero()
	}
	part, rest = a.Interface().(runtime.Object), b.Interface().(runtime.Object)
	part.GetObjectKind().SetGroupVersionKind(want)
	return part, rest
}

// joined returns a copy of rest with the named parts of after.
func joined(rest runtime.Object, after reflect.Value, named []namedPart) *reflect.Value {
	done := reflect.ValueOf(rest.DeepCopyObject())
	for _, n := range named {
		done.Elem().FieldByIndex(n.path).Set(after.Elem().FieldByIndex(n.path))
	}
	return &done
}

// namedPart is a field that a patch names, by its place in the object, and what the patch says of it.
type namedPart struct {
	path  []int
	value json.RawMessage
}

// partsOf returns which fields of a type a patch names: those of the object or, where it says so of a part, those of that part. ok is
// false for a patch that is no object, names something else, or names a field twice.
func partsOf(patch []byte, of reflect.Type) (named []namedPart, ok bool) {
	if bytes.IndexByte(patch, '\\') >= 0 { // a name may be written in another way
		return nil, false
	}
	fields, ok := membersOf(patch)
	if !ok {
		return nil, false
	}
	known := fieldsOfType(of)
	for _, f := range fields {
		field, ok := known[f.name]
		if !ok {
			return nil, false
		}
		if field.within == nil || len(f.value) == 0 || f.value[0] != '{' {
			named = append(named, namedPart{[]int{field.index}, f.value})
			continue
		}
		members, ok := membersOf(f.value)
		if !ok {
			return nil, false
		}
		for _, m := range members {
			index, ok := field.within[m.name]
			if !ok {
				return nil, false
			}
			named = append(named, namedPart{[]int{field.index, index}, m.value})
		}
	}
	return named, true
}

// member is a field of a JSON object.
type member struct {
	name  string
	value json.RawMessage
}

// membersOf reads a JSON object, in its order. ok is false for anything else, and where a name occurs twice.
func membersOf(data []byte) (members []member, ok bool) {
	d := json.NewDecoder(bytes.NewReader(data))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, false
	}
	for d.More() {
		t, err := d.Token()
		name, is := t.(string)
		if err != nil || !is {
			return nil, false
		}
		for _, m := range members {
			if m.name == name {
				return nil, false
			}
		}
		m := member{name: name}
		if d.Decode(&m.value) != nil {
			return nil, false
		}
		members = append(members, m)
	}
	if _, err := d.Token(); err != nil || d.More() {
		return nil, false
	}
	return members, true
}

// partField is a field of a type of object: its metadata, spec, status or what else it has.
type partField struct {
	index int
	// within are the fields of the part by their names; nil where it is patched as one.
	within map[string]int
}

var partTypes sync.Map // of map[string]partField by reflect.Type; it is as small as there are kinds

// fieldsOfType returns the fields of a type of object by their names in JSON, but for its kind and version.
func fieldsOfType(of reflect.Type) map[string]partField {
	if known, ok := partTypes.Load(of); ok {
		return known.(map[string]partField)
	}
	fields := map[string]partField{}
	for name, index := range namesOf(of) {
		f := of.Field(index)
		field := partField{index: index}
		if _, whole := reflect.New(f.Type).Interface().(json.Marshaler); !whole && f.Type.Kind() == reflect.Struct && f.Tag.Get("patchStrategy") == "" {
			field.within = namesOf(f.Type)
		}
		fields[name] = field
	}
	partTypes.Store(of, fields)
	return fields
}

// namesOf returns the fields of a struct by their names in JSON; nil where fields of an embedded one are among them.
func namesOf(of reflect.Type) map[string]int {
	names := map[string]int{}
	for i := range of.NumField() {
		f := of.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Type.Name() == "TypeMeta":
		case name == "" || name == "-" || !f.IsExported():
			return nil
		default:
			names[name] = i
		}
	}
	return names
}
