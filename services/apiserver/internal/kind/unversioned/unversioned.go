// Package unversioned prints values in problems as Kubernetes does: its validation mostly sees objects in a form
// of their own, whose fields have no JSON names, so that a policy's spec reads {"MinAvailable":1,"Selector":null}.
package unversioned

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Tagged is a value that is printed with its JSON names, for the checks that Kubernetes makes of the version that was sent.
type Tagged struct{ Value any }

// MarshalJSON is that of the value.
func (t Tagged) MarshalJSON() ([]byte, error) { return json.Marshal(t.Value) }

// Values lets the values of the problems print so. It changes what errs points to and returns errs.
func Values(errs field.ErrorList) field.ErrorList {
	for _, e := range errs {
		if e.BadValue != nil && concerns(reflect.TypeOf(e.BadValue)) {
			e.BadValue = form{reflect.ValueOf(e.BadValue)}
		}
	}
	return errs
}

// Form is the value with a JSON form that has the names in Go of all its fields.
func Form(value any) json.Marshaler { return form{reflect.ValueOf(value)} }

// apis begins the paths of the packages whose structs Kubernetes has twice.
const apis = "k8s.io/api/"

func concerns(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		return concerns(t.Elem())
	case reflect.Struct:
		return strings.HasPrefix(t.PkgPath(), apis)
	default:
		return false
	}
}

type form struct{ value reflect.Value }

// MarshalJSON writes all fields, by their names in Go.
func (f form) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	err := write(&out, f.value)
	return out.Bytes(), err
}

func write(out *bytes.Buffer, v reflect.Value) error {
	switch {
	case v.Kind() == reflect.Pointer && v.IsNil(), v.Kind() == reflect.Slice && v.IsNil(), v.Kind() == reflect.Map && v.IsNil():
		out.WriteString("null")
		return nil
	case v.Type() == reflect.TypeFor[merged]():
		return object(out, v.Interface().(merged))
	case !concerns(v.Type()):
		text, err := json.Marshal(v.Interface())
		out.Write(text)
		return err
	}
	switch v.Kind() {
	case reflect.Pointer:
		return write(out, v.Elem())
	case reflect.Slice, reflect.Array:
		return list(out, '[', ']', v.Len(), func(i int) error { return write(out, v.Index(i)) })
	case reflect.Map:
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
		return list(out, '{', '}', len(keys), func(i int) error {
			return member(out, fmt.Sprint(keys[i]), v.MapIndex(keys[i]))
		})
	default:
		return fields(out, v)
	}
}

// fields writes a struct. What it embeds of apimachinery is the same in all versions, and has names in JSON.
func fields(out *bytes.Buffer, v reflect.Value) error {
	if layout, ok := layouts[v.Type()]; ok {
		return object(out, layout(v))
	}
	visible := slices.DeleteFunc(reflect.VisibleFields(v.Type()), func(f reflect.StructField) bool {
		return len(f.Index) != 1 || !f.IsExported()
	})
	out.WriteByte('{')
	first := true
	for _, f := range visible {
		var inner bytes.Buffer
		var err error
		if f.Anonymous {
			err = write(&inner, v.FieldByIndex(f.Index))
			text := bytes.TrimSuffix(bytes.TrimPrefix(inner.Bytes(), []byte("{")), []byte("}"))
			inner = *bytes.NewBuffer(text)
		} else {
			err = member(&inner, f.Name, v.FieldByIndex(f.Index))
		}
		if err != nil {
			return err
		}
		if inner.Len() == 0 {
			continue
		}
		if !first {
			out.WriteByte(',')
		}
		first = false
		out.Write(inner.Bytes())
	}
	out.WriteByte('}')
	return nil
}

func object(out *bytes.Buffer, entries []entry) error {
	return list(out, '{', '}', len(entries), func(i int) error { return member(out, entries[i].name, entries[i].value) })
}

func member(out *bytes.Buffer, name string, value reflect.Value) error {
	key, err := json.Marshal(name)
	if err != nil {
		return err
	}
	out.Write(key)
	out.WriteByte(':')
	return write(out, value)
}

func list(out *bytes.Buffer, open, shut byte, n int, item func(int) error) error {
	out.WriteByte(open)
	for i := range n {
		if i > 0 {
			out.WriteByte(',')
		}
		if err := item(i); err != nil {
			return err
		}
	}
	out.WriteByte(shut)
	return nil
}
