// Package row makes the rows of kinds that have nothing unusual: a spec whose
// changes are counted in metadata.generation and, for many, a status that only
// its subresource writes. What is particular is set on the row afterwards.
package row

import (
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/services/apiserver/internal/registry"
)

// Of starts the row of the kind whose Go types are T and its list L: the kind
// is named as T is.
func Of[T, L any, P interface {
	*T
	registry.Object
}, PL interface {
	*L
	runtime.Object
}](gv schema.GroupVersion, resource string) *registry.Kind {
	name := reflect.TypeFor[T]().Name()
	return &registry.Kind{
		GVK:      gv.WithKind(name),
		Resource: resource, Singular: strings.ToLower(name),
		New:     func() registry.Object { return P(new(T)) },
		NewList: func() runtime.Object { return PL(new(L)) },
	}
}

// Spec counts the changes of what spec points to in the generation.
func Spec[T registry.Object, S any](k *registry.Kind, spec func(T) *S) {
	k.PrepareCreate = func(obj registry.Object) { obj.SetGeneration(1) }
	k.PrepareUpdate = func(obj, old registry.Object) {
		obj.SetGeneration(old.GetGeneration())
		if !equality.Semantic.DeepEqual(spec(obj.(T)), spec(old.(T))) {
			obj.SetGeneration(old.GetGeneration() + 1)
		}
	}
}

// SpecStatus is Spec for a kind with a status, which writes to the main
// resource leave alone, and which the subresource alone changes; check, which
// may be nil, returns the problems of such a write.
func SpecStatus[T registry.Object, S, U any](k *registry.Kind, spec func(T) *S, status func(T) *U,
	check func(obj, old T) field.ErrorList,
) {
	SpecStatusUncounted(k, spec, status, check)
	reset, keep := k.PrepareCreate, k.PrepareUpdate
	Spec(k, spec)
	counted := k.PrepareUpdate
	k.PrepareCreate = func(obj registry.Object) {
		reset(obj)
		obj.SetGeneration(1)
	}
	k.PrepareUpdate = func(obj, old registry.Object) {
		keep(obj, old)
		counted(obj, old)
	}
}

// SpecStatusUncounted is SpecStatus for a kind without generations.
func SpecStatusUncounted[T registry.Object, S, U any](k *registry.Kind, spec func(T) *S, status func(T) *U,
	check func(obj, old T) field.ErrorList,
) {
	k.PrepareCreate = func(obj registry.Object) {
		var none U
		*status(obj.(T)) = none
	}
	k.PrepareUpdate = func(obj, old registry.Object) { *status(obj.(T)) = *status(old.(T)) }
	Status(k, spec, check)
}

// Status gives the kind a status subresource that leaves what spec points to alone.
func Status[T registry.Object, S any](k *registry.Kind, spec func(T) *S, check func(obj, old T) field.ErrorList) {
	k.Status = &registry.Status{PrepareUpdate: func(obj, old registry.Object) {
		*spec(obj.(T)) = *spec(old.(T))
		obj.SetGeneration(old.GetGeneration())
	}}
	if check != nil {
		k.Status.ValidateUpdate = func(obj, old registry.Object) field.ErrorList { return check(obj.(T), old.(T)) }
	}
}

// AfterStatus has f fill in what a write of the kind's status left out of the rest.
func AfterStatus[T registry.Object](k *registry.Kind, f func(T)) {
	prepare := k.Status.PrepareUpdate
	k.Status.PrepareUpdate = func(obj, old registry.Object) {
		prepare(obj, old)
		f(obj.(T))
	}
}

// KeepMeta has writes of the kind's status leave the metadata alone, but for what nobody would change.
func KeepMeta(k *registry.Kind) {
	prepare := k.Status.PrepareUpdate
	k.Status.PrepareUpdate = func(obj, old registry.Object) {
		metav1.ResetObjectMetaForStatus(obj, old)
		prepare(obj, old)
	}
	k.Status.Untracked = []string{"metadata"}
}

// Set gives an unset optional field its default.
func Set[T any](p **T, value T) {
	if *p == nil {
		*p = &value
	}
}

// Deref is what p points to, or the zero value.
func Deref[T any](p *T) T {
	if p == nil {
		var zero T
		return zero
	}
	return *p
}
