// Package recast copies between types of two API versions that have the same
// fields under the same names, but are different Go types.
package recast

import (
	"fmt"
	"reflect"
)

// Into sets the fields of *out from those of the same name in *in; what only
// one of them has is left alone. An optional field that the other version
// requires is its zero value there. What is the same type is shared, not copied.
// It panics where two fields of one name cannot be made of each other.
func Into[In, Out any](in *In, out *Out) {
	set(reflect.ValueOf(out).Elem(), reflect.ValueOf(in).Elem())
}

func set(dst, src reflect.Value) {
	switch {
	case src.Type().AssignableTo(dst.Type()):
		dst.Set(src)
	case dst.Kind() == reflect.Struct && src.Kind() == reflect.Struct:
		for i := range dst.NumField() {
			if from := src.FieldByName(dst.Type().Field(i).Name); from.IsValid() {
				set(dst.Field(i), from)
			}
		}
	case dst.Kind() == reflect.Pointer && src.Kind() == reflect.Pointer:
		if src.IsNil() {
			dst.SetZero()
			return
		}
		dst.Set(reflect.New(dst.Type().Elem()))
		set(dst.Elem(), src.Elem())
	case dst.Kind() == reflect.Pointer:
		if src.IsZero() {
			dst.SetZero()
			return
		}
		dst.Set(reflect.New(dst.Type().Elem()))
		set(dst.Elem(), src)
	case src.Kind() == reflect.Pointer:
		if src.IsNil() {
			dst.SetZero()
			return
		}
		set(dst, src.Elem())
	case dst.Kind() == reflect.Slice && src.Kind() == reflect.Slice:
		if src.IsNil() {
			dst.SetZero()
			return
		}
		dst.Set(reflect.MakeSlice(dst.Type(), src.Len(), src.Len()))
		for i := range src.Len() {
			set(dst.Index(i), src.Index(i))
		}
	case dst.Kind() == reflect.Map && src.Kind() == reflect.Map:
		if src.IsNil() {
			dst.SetZero()
			return
		}
		dst.Set(reflect.MakeMapWithSize(dst.Type(), src.Len()))
		for _, key := range src.MapKeys() {
			value := reflect.New(dst.Type().Elem()).Elem()
			set(value, src.MapIndex(key))
			dst.SetMapIndex(key.Convert(dst.Type().Key()), value)
		}
	case src.Type().ConvertibleTo(dst.Type()) && src.Kind() == dst.Kind():
		dst.Set(src.Convert(dst.Type()))
	default:
		panic(fmt.Sprintf("recast: %s is not made of %s", dst.Type(), src.Type()))
	}
}
