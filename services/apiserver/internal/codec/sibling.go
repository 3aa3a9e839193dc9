package codec

import (
	"fmt"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubejson "k8s.io/apimachinery/pkg/runtime/serializer/json"
	kjson "sigs.k8s.io/json"

	"howdah.dev/services/apiserver/internal/registry"
)

// sibling returns the version of a built-in kind that an object's JSON says it is of, where that is another one than res; nil: it is not.
func sibling(object []byte, res *registry.Resource) *registry.Resource {
	if res == nil || res.Kind.Custom != nil {
		return nil
	}
	got, err := kubejson.DefaultMetaFactory.Interpret(object)
	if err != nil || *got == res.GVK {
		return nil
	}
	return res.Kind.VersionOf(*got)
}

// through reads a patched object as one of another version, and converts it into out, which is of the version res. The fields that the
// other version does not have are lost, as they are unknown there.
func (p Patched) through(other, res *registry.Resource, after []byte, out runtime.Object, strict bool) (Patched, error) {
	obj := other.New()
	var err error
	if strict {
		var unknown []error
		unknown, err = kjson.UnmarshalStrict(after, obj)
		p.Problems = append(p.Problems, unknown...)
	} else {
		err = kjson.UnmarshalCaseSensitivePreserveInts(after, obj)
	}
	if err != nil {
		return p, p.Refuse(err)
	}
	other.Default(obj)
	stored, err := other.ToStored(obj)
	if err != nil {
		return p, p.Refuse(err)
	}
	served, err := res.FromStored(stored)
	if err != nil {
		return p, apierrors.NewInternalError(err)
	}
	if reflect.TypeOf(served) != reflect.TypeOf(out) {
		return p, apierrors.NewInternalError(fmt.Errorf("%s is converted to %T, not %T", other.GVK, served, out))
	}
	reflect.ValueOf(out).Elem().Set(reflect.ValueOf(served).Elem())
	return p, nil
}

// sibling returns the version of the wanted kind that a body says it is of, where that is another one.
func (b Body) sibling(data []byte, want schema.GroupVersionKind) *registry.Resource {
	if b.Kind == nil || b.Kind.Custom != nil {
		return nil
	}
	return sibling(data, b.Kind.VersionOf(want))
}

// otherVersion refuses a body of another version than the wanted one, after it was read as what it says it is: what is wrong with it as such is
// told, too, or even alone. strict are the problems that were found before.
func (b Body) otherVersion(data []byte, other *registry.Resource, want schema.GroupVersionKind, strict []error) ([]string, error) {
	unknown, err := kjson.UnmarshalStrict(data, other.New())
	if err != nil {
		return nil, badBody(other.GVK, want, err)
	}
	problems := append(strict, unknown...)
	if len(problems) > 0 && b.Validation == Strict {
		return nil, badBody(other.GVK, want, runtime.NewStrictDecodingError(problems))
	}
	refused := otherVersion(other.GVK, want)
	if b.Validation == Ignore {
		return nil, refused
	}
	return Warnings(problems), refused
}
