package fieldmanager

import (
	"crypto/sha256"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"howdah.dev/services/apiserver/internal/registry"
)

// outlineOf covers which fields a built-in object has, and what is in its lists, but nothing else of what is in its fields: who owns what of a new
// object follows from that. ok is false where the object has parts whose fields its Go type does not tell.
func outlineOf(obj registry.Object, manager string) (d digest, ok bool) {
	v := reflect.ValueOf(obj)
	if v.Kind() != reflect.Pointer {
		return d, false
	}
	buffer := buffers.Get().(*[]byte)
	defer buffers.Put(buffer)
	b, ok := appendFields(appendText(append((*buffer)[:0], "outline"...), manager), v.Elem())
	*buffer = b
	return sha256.Sum256(b), ok
}

// appendFields appends what the fields of a value are, whatever is in them but for lists.
func appendFields(b []byte, v reflect.Value) ([]byte, bool) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return append(b, 0), true
		}
		return appendFields(append(b, 1), v.Elem())
	case reflect.Struct:
		return appendStruct(b, v)
	case reflect.Map:
		return appendKeys(b, v)
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 { // one value
			return appendPresence(b, v.Len() > 0), true
		}
		return appendContent(b, v)
	case reflect.String, reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Float32, reflect.Float64:
		return appendPresence(b, !v.IsZero()), true
	}
	return b, false
}

func appendPresence(b []byte, there bool) []byte {
	if there {
		return append(b, 1)
	}
	return append(b, 0)
}

// appendContent appends all that is in a list: keys of its items may be names of fields.
func appendContent(b []byte, v reflect.Value) ([]byte, bool) {
	if v.Len() == 0 {
		return append(b, 0), true
	}
	text, err := json.Marshal(v.Interface())
	return appendText(append(b, 1), string(text)), err == nil
}

func appendKeys(b []byte, v reflect.Value) ([]byte, bool) {
	if v.Type().Key().Kind() != reflect.String {
		return b, false
	}
	keys := v.MapKeys()
	slices.SortFunc(keys, func(x, y reflect.Value) int { return strings.Compare(x.String(), y.String()) })
	b = append(b, '{')
	ok := true
	for _, key := range keys {
		if b, ok = appendFields(appendText(append(b, ','), key.String()), v.MapIndex(key)); !ok {
			return b, false
		}
	}
	return append(b, '}'), true
}

func appendStruct(b []byte, v reflect.Value) ([]byte, bool) {
	switch of := v.Interface().(type) {
	case metav1.Time:
		return appendPresence(b, !of.IsZero()), true // none is written as null
	case metav1.MicroTime:
		return appendPresence(b, !of.IsZero()), true
	case metav1.Duration, resource.Quantity, intstr.IntOrString:
		return appendPresence(b, !v.IsZero()), true
	}
	if !transparent(v.Type()) {
		return b, v.IsZero()
	}
	ok := true
	for i := range v.NumField() {
		if b, ok = appendFields(b, v.Field(i)); !ok {
			return b, false
		}
	}
	return b, true
}

// seen has what transparent has found out, by type.
var seen sync.Map

// transparent reports whether a struct is written as its fields. In others there may be anything.
func transparent(t reflect.Type) bool {
	if known, ok := seen.Load(t); ok {
		return known.(bool)
	}
	is := !reflect.PointerTo(t).Implements(reflect.TypeFor[json.Marshaler]())
	for i := range t.NumField() {
		is = is && t.Field(i).IsExported()
	}
	seen.Store(t, is)
	return is
}
