// Package hollow finds the lists and maps of an object that are there and empty. JSON tells them from absent ones; protobuf, in which
// objects are stored, does not, so that what was written empty is read as absent.
package hollow

import (
	"reflect"
	"sync"
)

// In reports whether anything in obj, a pointer to a typed object, is there and empty. Bytes do not count: protobuf keeps them.
func In(obj any) bool { return find(obj, false) }

// Drop makes absent what In finds.
func Drop(obj any) { find(obj, true) }

func find(obj any, drop bool) bool {
	v := reflect.ValueOf(obj)
	if v.Kind() != reflect.Pointer {
		return false
	}
	return planOf(v.Type()).walk(v, drop)
}

// plan says where a type can have lists and maps; nil says that it cannot.
type plan struct {
	fields []step // of a struct
	elem   *plan  // of what a pointer, list or map holds
}

type step struct {
	index int
	plan  *plan
}

// plans are those of the types met so far. Types are as many as the API has.
var plans = struct {
	sync.RWMutex
	of map[reflect.Type]*plan
}{of: map[reflect.Type]*plan{}}

func planOf(t reflect.Type) *plan {
	plans.RLock()
	p, known := plans.of[t]
	plans.RUnlock()
	if known {
		return p
	}
	plans.Lock()
	defer plans.Unlock()
	return build(t)
}

// build makes the plan of a type. A type that holds itself has its plan, if an empty one yet, when it is met again.
func build(t reflect.Type) *plan {
	if p, known := plans.of[t]; known {
		return p
	}
	p := &plan{}
	plans.of[t] = p
	keep := false
	switch t.Kind() {
	case reflect.Pointer:
		p.elem = build(t.Elem())
		keep = p.elem != nil
	case reflect.Slice:
		if keep = t.Elem().Kind() != reflect.Uint8; keep {
			p.elem = build(t.Elem())
		}
	case reflect.Map:
		p.elem, keep = build(t.Elem()), true
	case reflect.Struct:
		for i := range t.NumField() {
			field := t.Field(i)
			if !field.IsExported() {
				continue
			}
			if inner := build(field.Type); inner != nil {
				p.fields = append(p.fields, step{i, inner})
			}
		}
		keep = len(p.fields) > 0
	}
	if !keep {
		p = nil
		plans.of[t] = nil
	}
	return p
}

func (p *plan) walk(v reflect.Value, drop bool) bool {
	if p == nil {
		return false
	}
	switch v.Kind() {
	case reflect.Struct:
		found := false
		for _, s := range p.fields {
			if s.plan.walk(v.Field(s.index), drop) {
				if found = true; !drop {
					return true
				}
			}
		}
		return found
	case reflect.Pointer:
		return !v.IsNil() && p.elem.walk(v.Elem(), drop)
	case reflect.Slice:
		return p.walkList(v, drop)
	case reflect.Map:
		return p.walkMap(v, drop)
	}
	return false
}

func (p *plan) walkList(v reflect.Value, drop bool) bool {
	if v.Len() == 0 {
		return empty(v, drop)
	}
	found := false
	if p.elem == nil {
		return false
	}
	for i := range v.Len() {
		if p.elem.walk(v.Index(i), drop) {
			if found = true; !drop {
				return true
			}
		}
	}
	return found
}

// walkMap puts what it changed back: what a map holds cannot be changed in place.
func (p *plan) walkMap(v reflect.Value, drop bool) bool {
	if v.Len() == 0 {
		return empty(v, drop)
	}
	if p.elem == nil {
		return false
	}
	found := false
	for _, key := range v.MapKeys() {
		value := reflect.New(v.Type().Elem()).Elem()
		value.Set(v.MapIndex(key))
		if !p.elem.walk(value, drop) {
			continue
		}
		if found = true; !drop {
			return true
		}
		v.SetMapIndex(key, value)
	}
	return found
}

func empty(v reflect.Value, drop bool) bool {
	if v.IsNil() {
		return false
	}
	if drop {
		v.SetZero()
	}
	return true
}
