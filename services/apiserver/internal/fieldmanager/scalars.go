package fieldmanager

import (
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/services/apiserver/internal/registry"
)

// appendScalars appends which fields differ between two objects of one type, and how, where all of them are scalars in the objects themselves, their
// metadata, spec or status: times, counts, phases, which is what is renewed and counted all day. A comparison of such objects by the schema follows
// from that. ok is false where something else differs. The objects are those of which level has emptied what is equal.
func appendScalars(b []byte, before, after registry.Object) ([]byte, bool) {
	x, y := reflect.ValueOf(before), reflect.ValueOf(after)
	if x.Kind() != reflect.Pointer || x.Type() != y.Type() || x.Elem().Kind() != reflect.Struct {
		return b, false
	}
	return appendDiffering(b, x.Elem(), y.Elem(), 0)
}

func appendDiffering(b []byte, x, y reflect.Value, depth int) ([]byte, bool) {
	for i := range x.NumField() {
		before, after := x.Field(i), y.Field(i)
		if before.Type() == typeMeta {
			if !before.Equal(after) {
				return b, false
			}
			continue
		}
		if before.IsZero() && after.IsZero() {
			continue
		}
		b = append(b, byte(depth), byte(i))
		if was, is, ok := scalarsOf(before, after); ok {
			b = appendChange(append(b, byte(was.state), byte(is.state)), was, is)
			continue
		}
		if before.Kind() != reflect.Struct || depth+1 >= levels {
			return b, false
		}
		var ok bool
		if b, ok = appendDiffering(b, before, after, depth+1); !ok {
			return b, false
		}
	}
	return append(b, 0xff), true
}

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
