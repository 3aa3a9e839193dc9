package codec

import (
	"encoding/json"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// patchScalars returns a copy of in with what a patch says of some of its fields, where all of these are texts, numbers, truth values and times and
// the patch sets them, as a renewal or a count does: in merge patches of both kinds they take the place of what was there. ok is false for
// anything else, and for what does not fit into its field.
func patchScalars(named []namedPart, in runtime.Object) (done reflect.Value, ok bool) {
	from := reflect.TypeOf(in).Elem()
	for _, n := range named {
		if !isLiteral(n.value) || !isScalar(from.FieldByIndex(n.path).Type) {
			return done, false
		}
	}
	done = reflect.ValueOf(in.DeepCopyObject())
	for _, n := range named {
		field := done.Elem().FieldByIndex(n.path)
		field.SetZero()
		if json.Unmarshal(n.value, field.Addr().Interface()) != nil {
			return done, false
		}
	}
	return done, true
}

// isLiteral reports whether a JSON value is a text, a number or a truth value.
func isLiteral(value json.RawMessage) bool {
	return len(value) > 0 && value[0] != '{' && value[0] != '[' && value[0] != 'n'
}

var (
	timeType    = reflect.TypeFor[metav1.Time]()
	microType   = reflect.TypeFor[metav1.MicroTime]()
	unmarshaler = reflect.TypeFor[json.Unmarshaler]()
)

// isScalar reports whether a field of the type, or one that it points to, has one literal for a value, which it reads as the library does.
func isScalar(of reflect.Type) bool {
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	if of == timeType || of == microType {
		return true
	}
	switch of.Kind() {
	case reflect.String, reflect.Bool, reflect.Int32, reflect.Int64:
		return !reflect.PointerTo(of).Implements(unmarshaler)
	}
	return false
}
