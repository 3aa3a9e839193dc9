// Package sqlview tells PostgreSQL how the kinds' bodies are laid out, for the views of migrations/0006_sql.sql.
package sqlview

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"howdah.dev/services/apiserver/internal/registry"
)

// Kind is a row of howdah_api.kind.
type Kind struct {
	Prefix, Group, Version, Kind, Resource string
	Namespaced                             bool
	Message                                string
	Concealed                              bool
}

// Field is a row of howdah_api.field.
type Field struct {
	Message                    string
	Number                     int
	Name, Type, Of, OfOf       string
	Repeated, Inlined, Omitted bool
}

// special are the types whose JSON is not that of their fields.
var special = map[reflect.Type]string{
	reflect.TypeFor[metav1.Time](): "time", reflect.TypeFor[metav1.MicroTime](): "microtime",
	reflect.TypeFor[resource.Quantity](): "quantity", reflect.TypeFor[intstr.IntOrString](): "intstr",
	reflect.TypeFor[runtime.RawExtension](): "json", reflect.TypeFor[metav1.FieldsV1](): "json",
}

// Describe returns the rows for the kinds. Bodies of Secrets are concealed.
func Describe(kinds []*registry.Kind) ([]Kind, []Field) {
	d := describer{seen: map[reflect.Type]bool{}}
	var rows []Kind
	for _, k := range kinds {
		row := Kind{
			Prefix: k.Prefix(""), Group: k.GVK.Group, Version: k.GVK.Version, Kind: k.GVK.Kind, Resource: k.Resource, Namespaced: k.Namespaced,
			Concealed: k.GVK.Group == "" && k.Resource == "secrets",
		}
		if k.Custom == nil && !row.Concealed {
			t := reflect.TypeOf(k.New()).Elem()
			row.Message = d.message(t)
		}
		rows = append(rows, row)
	}
	return rows, d.fields
}

type describer struct {
	seen   map[reflect.Type]bool
	fields []Field
}

// message describes a struct and what it leads to, and returns its name.
func (d *describer) message(t reflect.Type) string {
	name := t.PkgPath() + "." + t.Name()
	if d.seen[t] {
		return name
	}
	d.seen[t] = true
	for i := range t.NumField() {
		if f, ok := d.field(t.Field(i)); ok {
			f.Message = name
			d.fields = append(d.fields, f)
		}
	}
	return name
}

// field describes a field that the wire has.
func (d *describer) field(sf reflect.StructField) (Field, bool) {
	tag := strings.Split(sf.Tag.Get("protobuf"), ",")
	if len(tag) < 2 {
		return Field{}, false
	}
	number, err := strconv.Atoi(tag[1])
	if err != nil {
		return Field{}, false
	}
	name, options, _ := strings.Cut(sf.Tag.Get("json"), ",")
	if name == "-" {
		return Field{}, false
	}
	f := Field{Number: number, Name: name, Inlined: strings.Contains(options, "inline")}
	t, pointer := sf.Type, false
	if t.Kind() == reflect.Pointer {
		t, pointer = t.Elem(), true
	}
	if kind := reflect.New(t).Elem(); t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Uint8 && !wrapped(kind.Type()) {
		f.Repeated = true
		if t = t.Elem(); t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
	}
	if t.Kind() == reflect.Map {
		f.Type = "map"
		value := t.Elem()
		f.Of, f.OfOf = d.kind(value)
		return f, true
	}
	f.Type, f.Of = d.kind(t)
	f.Omitted = !pointer && !f.Repeated && strings.Contains(options, "omitempty")
	return f, true
}

// kind returns the type of a value, and its message.
func (d *describer) kind(t reflect.Type) (kind, of string) {
	if s, ok := special[t]; ok {
		return s, ""
	}
	if wrapped(t) {
		return "items", ""
	}
	if marshalsItself(t) {
		return "opaque", ""
	}
	switch t.Kind() {
	case reflect.String:
		return "string", ""
	case reflect.Bool:
		return "bool", ""
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Uint8, reflect.Uint32, reflect.Uint64:
		return "int", ""
	case reflect.Slice:
		return "bytes", ""
	case reflect.Struct:
		return "message", d.message(t)
	}
	return "opaque", ""
}

// wrapped reports whether a list of strings is a message of its own, as the values of a user's extra.
func wrapped(t reflect.Type) bool {
	_, ok := reflect.New(t).Interface().(interface{ Marshal() ([]byte, error) })
	return ok && t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.String
}

func marshalsItself(t reflect.Type) bool {
	_, ok := reflect.New(t).Interface().(json.Marshaler)
	return ok
}
