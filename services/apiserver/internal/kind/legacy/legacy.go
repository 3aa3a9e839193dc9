// Package legacy makes the rows of removed API versions whose fields are those
// of the stored version.
package legacy

import (
	"fmt"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/services/apiserver/internal/kind/recast"
	"howdah.dev/services/apiserver/internal/registry"
)

// Version is the row of version gv, with the Go types T and L, of a kind that is
// stored as S in version stored. It was deprecated and removed in the given
// versions of Kubernetes. fill, which may be nil, sets its defaults.
func Version[T, L, S any, P interface {
	*T
	registry.Object
}, PL interface {
	*L
	runtime.Object
}, PS interface {
	*S
	registry.Object
}](gv, stored schema.GroupVersion, deprecated, removed string, fill func(PS)) registry.Version {
	name := reflect.TypeFor[T]().Name()
	v := registry.Version{
		GVK:     gv.WithKind(name),
		New:     func() registry.Object { return P(new(T)) },
		NewList: func() runtime.Object { return PL(new(L)) },
		ToStored: func(in registry.Object) (registry.Object, error) {
			out := PS(new(S))
			recast.Into((*T)(in.(P)), (*S)(out))
			out.GetObjectKind().SetGroupVersionKind(stored.WithKind(name))
			return out, nil
		},
		FromStored: func(in registry.Object) (registry.Object, error) {
			out := P(new(T))
			recast.Into((*S)(in.(PS)), (*T)(out))
			out.GetObjectKind().SetGroupVersionKind(gv.WithKind(name))
			return out, nil
		},
		Deprecated: fmt.Sprintf("%s %s is deprecated in %s+, unavailable in %s+; use %s %s", gv, name, deprecated, removed, stored, name),
	}
	if fill != nil {
		v.Default = func(obj registry.Object) {
			s := PS(new(S))
			recast.Into((*T)(obj.(P)), (*S)(s))
			fill(s)
			*obj.(P) = *P(new(T))
			recast.Into((*S)(s), (*T)(obj.(P)))
			obj.GetObjectKind().SetGroupVersionKind(gv.WithKind(name))
		}
	}
	return v
}
