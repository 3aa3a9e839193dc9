package fieldmanager

import (
	"maps"
	"reflect"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	smdschema "sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"howdah.dev/services/apiserver/internal/registry"
)

// types is a type converter that does not validate what cannot be invalid: an object that was decoded into its Go type has
// the fields of its schema. Validation walks the whole object, which would be a third of an update's cost.
type types struct {
	managedfields.TypeConverter

	mu    sync.RWMutex
	known map[schema.GroupVersionKind]typeOf
}

type typeOf struct {
	schema *smdschema.Schema
	ref    smdschema.TypeRef
}

func newTypes(validating managedfields.TypeConverter) *types {
	return &types{TypeConverter: validating, known: map[schema.GroupVersionKind]typeOf{}}
}

// ObjectToTyped implements managedfields.TypeConverter.
func (t *types) ObjectToTyped(obj runtime.Object, options ...typed.ValidationOptions) (*typed.TypedValue, error) {
	// Duplicates in lists with keys are allowed for what is stored, and not for what is applied.
	lenient := len(options) == 1 && options[0] == typed.AllowDuplicates
	if _, ok := obj.(*unstructured.Unstructured); ok || !lenient {
		return t.TypeConverter.ObjectToTyped(obj, options...)
	}
	gvk := obj.GetObjectKind().GroupVersionKind()
	t.mu.RLock()
	known, ok := t.known[gvk]
	t.mu.RUnlock()
	if ok {
		v, err := value.NewValueReflect(obj)
		if err != nil {
			return nil, err
		}
		return typed.AsTypedUnvalidated(held{v, obj}, known.schema, known.ref), nil
	}
	tv, err := t.TypeConverter.ObjectToTyped(obj, options...)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.known[gvk] = typeOf{tv.Schema(), tv.TypeRef()}
	return tv, nil
}

// typeOf returns the type of an object in the schema.
func (t *types) typeOf(obj runtime.Object) (typeOf, bool) {
	gvk := obj.GetObjectKind().GroupVersionKind()
	t.mu.RLock()
	known, ok := t.known[gvk]
	t.mu.RUnlock()
	if ok {
		return known, true
	}
	if _, err := t.ObjectToTyped(obj, typed.AllowDuplicates); err != nil {
		return typeOf{}, false
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	known, ok = t.known[gvk]
	return known, ok
}

// held is the value of an object, and the object.
type held struct {
	value.Value
	object runtime.Object
}

// TypedToObject implements managedfields.TypeConverter. A value that was made of an object is that object, which must not be
// changed: the field managers only look at its version, and would otherwise have the whole of it converted into maps.
func (t *types) TypedToObject(v *typed.TypedValue) (runtime.Object, error) {
	if h, ok := v.AsValue().(held); ok {
		return h.object, nil
	}
	return t.TypeConverter.TypedToObject(v)
}

// Without returns a shallow copy of obj whose named field is empty, or obj itself where it has no such field.
func Without(obj registry.Object, field string) registry.Object {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		if _, has := u.Object[strings.ToLower(field)]; !has {
			return obj
		}
		out := copied(obj).(*unstructured.Unstructured)
		delete(out.Object, strings.ToLower(field))
		return out
	}
	v := reflect.ValueOf(obj)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct || !v.Elem().FieldByName(field).IsValid() {
		return obj
	}
	out := copied(obj)
	if out == nil {
		return obj
	}
	reflect.ValueOf(out).Elem().FieldByName(field).SetZero()
	return out
}

// Untracked returns a shallow copy of obj without managed fields, or obj itself where it cannot be copied.
func Untracked(obj registry.Object) registry.Object {
	out := copied(obj)
	if out == nil {
		return obj
	}
	out.SetManagedFields(nil)
	return out
}

// copied returns a shallow copy of obj, nil where it is no pointer to a struct.
func copied(obj registry.Object) registry.Object {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		content := maps.Clone(u.Object)
		if meta, ok := content["metadata"].(map[string]any); ok {
			content["metadata"] = maps.Clone(meta)
		}
		return &unstructured.Unstructured{Object: content}
	}
	v := reflect.ValueOf(obj)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		return nil
	}
	out := reflect.New(v.Elem().Type())
	out.Elem().Set(v.Elem())
	made, _ := out.Interface().(registry.Object)
	return made
}
