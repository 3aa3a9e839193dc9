package object

import (
	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// envelope is an opened runtime.Unknown, as every Kubernetes protobuf body is one; its slices point into the body.
type envelope struct {
	apiVersion, kind []byte
	raw              []byte
}

// Field numbers of runtime.Unknown, and of the TypeMeta in it.
const (
	unknownTypeMeta    = 1
	unknownRaw         = 2
	typeMetaAPIVersion = 1
	typeMetaKind       = 2
)

const magic = "k8s\x00"

// open reads an envelope without copying its body, which the serializer does twice. It reports false for whatever is
// unusual: that is left to the serializer.
func open(data []byte) (e envelope, ok bool) {
	if len(data) < len(magic) || string(data[:len(magic)]) != magic {
		return e, false
	}
	ok = fields(data[len(magic):], func(number protowire.Number, value []byte) bool {
		switch number {
		case unknownTypeMeta:
			return fields(value, func(number protowire.Number, value []byte) bool {
				switch number {
				case typeMetaAPIVersion:
					e.apiVersion = value
				case typeMetaKind:
					e.kind = value
				}
				return true
			})
		case unknownRaw:
			e.raw = value
			return true
		}
		return len(value) == 0 // an encoding or content type of its own
	})
	return e, ok
}

// fields calls f with every field of a message that has none but those of a length; false is a message that is not so, or that f
// does not take.
func fields(b []byte, f func(number protowire.Number, value []byte) bool) bool {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 || kind != protowire.BytesType {
			return false
		}
		value, m := protowire.ConsumeBytes(b[n:])
		if m < 0 || !f(number, value) {
			return false
		}
		b = b[n+m:]
	}
	return true
}

// into decodes data into obj where it is an object of that kind and the type has a decoder of its own. ok is false for anything
// else.
func into(data []byte, gvk schema.GroupVersionKind, obj runtime.Object) (ok bool, err error) {
	e, ok := open(data)
	m, decodes := obj.(interface{ Unmarshal([]byte) error })
	if !ok || !decodes || string(e.kind) != gvk.Kind || string(e.apiVersion) != gvk.GroupVersion().String() {
		return false, nil
	}
	if err := m.Unmarshal(e.raw); err != nil {
		return true, err
	}
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	return true, nil
}
