package codec

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
)

var rawExtension = reflect.TypeFor[runtime.RawExtension]()

// embeds remembers which types have extensions somewhere, by type.
var embeds sync.Map

// checkEmbedded fails where an object embeds JSON that is none, as only a protobuf body can: it could be told to nobody as JSON, nor divided among its managers.
func checkEmbedded(obj any) error {
	if v := reflect.ValueOf(obj); hasExtensions(v.Type(), nil) {
		return embedded(v, "")
	}
	return nil
}

// hasExtensions reports whether a value of a type may have extensions; within are the types that are being looked at.
func hasExtensions(t reflect.Type, within []reflect.Type) bool {
	if known, ok := embeds.Load(t); ok {
		return known.(bool)
	}
	for _, outer := range within {
		if outer == t {
			return false // what it has is found where it was met first
		}
	}
	within = append(within, t)
	has := false
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		has = hasExtensions(t.Elem(), within)
	case reflect.Struct:
		has = t == rawExtension
		for i := 0; i < t.NumField() && !has; i++ {
			has = t.Field(i).IsExported() && hasExtensions(t.Field(i).Type, within)
		}
	}
	if has || len(within) == 1 { // what is not found inside of another may only not be found again there
		embeds.Store(t, has)
	}
	return has
}

func embedded(v reflect.Value, path string) error {
	if !hasExtensions(v.Type(), nil) {
		return nil
	}
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return embedded(v.Elem(), path)
		}
	case reflect.Slice:
		for i := range v.Len() {
			if err := embedded(v.Index(i), fmt.Sprintf("%s[%d]", path, i)); err != nil {
				return err
			}
		}
	case reflect.Map:
		for key, value := range v.Seq2() {
			if err := embedded(value, fmt.Sprintf("%s[%v]", path, key)); err != nil {
				return err
			}
		}
	case reflect.Struct:
		if v.Type() == rawExtension {
			if raw := v.Interface().(runtime.RawExtension).Raw; raw != nil && !json.Valid(raw) {
				return errors.New(strings.TrimPrefix(path, ".") + ": invalid JSON")
			}
			return nil
		}
		for i := range v.NumField() {
			field := v.Type().Field(i)
			if !field.IsExported() {
				continue
			}
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			inner := path
			if name != "" {
				inner += "." + name
			}
			if err := embedded(v.Field(i), inner); err != nil {
				return err
			}
		}
	}
	return nil
}
