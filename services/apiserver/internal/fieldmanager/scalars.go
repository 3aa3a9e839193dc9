package fieldmanager

import (
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// scalar is what a field says, as far as its encoding tells.
type scalar struct {
	state  state
	text   string
	number int64
}

// state is whether there is something in a field.
type state byte

const (
	absent state = iota // a nil pointer
	empty
	set
)

// scalarsOf reads two fields of one type. ok is false where they are no scalars.
func scalarsOf(before, after reflect.Value) (was, is scalar, ok bool) {
	if was, ok = scalarOf(before); ok {
		is, ok = scalarOf(after)
	}
	return was, is, ok
}

func scalarOf(v reflect.Value) (s scalar, ok bool) {
	if v.Kind() == reflect.Pointer {
		if _, ok := scalarOf(reflect.Zero(v.Type().Elem())); !ok || v.IsNil() {
			return scalar{}, ok
		}
		v = v.Elem()
	}
	switch v.Kind() {
	case reflect.String:
		s.text = v.String()
	case reflect.Bool:
		if v.Bool() {
			s.number = 1
		}
	case reflect.Int, reflect.Int32, reflect.Int64:
		s.number = v.Int()
	case reflect.Struct:
		return timeOf(v)
	default:
		return s, false
	}
	return s.filled(s != scalar{}), true
}

// timeOf reads a time as exactly as it is encoded. One that is zero is encoded as null.
func timeOf(v reflect.Value) (s scalar, ok bool) {
	if !v.CanInterface() {
		return s, false
	}
	switch t := v.Interface().(type) {
	case metav1.Time:
		s.number = t.Unix()
		return s.filled(!t.IsZero()), true
	case metav1.MicroTime:
		s.number = t.UnixMicro()
		return s.filled(!t.IsZero()), true
	}
	return s, false
}

func (s scalar) filled(is bool) scalar {
	if s.state = empty; is {
		s.state = set
	}
	return s
}
