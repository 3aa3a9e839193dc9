// Package typed lets the functions of a registry.Kind be written against the
// kind's own Go type. Each adapter panics on an object of another type: the
// machinery decodes with the kind's New, so that would be a bug there.
package typed

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/services/apiserver/internal/registry"
)

// Do adapts a function that changes one object.
func Do[T registry.Object](f func(T)) func(registry.Object) {
	return func(obj registry.Object) { f(obj.(T)) }
}

// Share adapts a function that shares parts of an object, which encoded decodes to.
func Share[T registry.Object](f func(obj T, encoded []byte)) func(registry.Object, []byte) {
	return func(obj registry.Object, encoded []byte) { f(obj.(T), encoded) }
}

// Recall adapts a function that decodes with what it remembers.
func Recall[T registry.Object](f func(encoded []byte) (T, bool)) func([]byte) (registry.Object, bool) {
	return func(encoded []byte) (registry.Object, bool) {
		obj, ok := f(encoded)
		return obj, ok
	}
}

// Change adapts a function that changes obj, given the stored old.
func Change[T registry.Object](f func(obj, old T)) func(obj, old registry.Object) {
	return func(obj, old registry.Object) { f(obj.(T), old.(T)) }
}

// Check adapts a validation of one object.
func Check[T registry.Object](f func(T) field.ErrorList) func(registry.Object) field.ErrorList {
	return func(obj registry.Object) field.ErrorList { return f(obj.(T)) }
}

// CheckChange adapts a validation of an update.
func CheckChange[T registry.Object](f func(obj, old T) field.ErrorList) func(obj, old registry.Object) field.ErrorList {
	return func(obj, old registry.Object) field.ErrorList { return f(obj.(T), old.(T)) }
}

// Ratchet has a kind validated by f: old is nil for a new object, and else the stored one, of whose faults f may let some stay.
func Ratchet[T registry.Object](k *registry.Kind, f func(obj, old T) field.ErrorList) {
	k.Validate = func(obj registry.Object) field.ErrorList {
		var none T
		return f(obj.(T), none)
	}
	k.Ratchet = CheckChange(f)
}

// Get adapts any other function of one object.
func Get[T registry.Object, R any](f func(T) R) func(registry.Object) R {
	return func(obj registry.Object) R { return f(obj.(T)) }
}

// Warn adapts a function that tells a client what to know; old is nil on create.
func Warn[T registry.Object](f func(obj, old T) []string) func(obj, old registry.Object) []string {
	return func(obj, old registry.Object) []string {
		before, _ := old.(T)
		return f(obj.(T), before)
	}
}

// WarnOfSpec is Warn for what is said of a spec: where an update leaves the generation as it is, nothing is said again.
func WarnOfSpec[T registry.Object](f func(obj T) []string) func(obj, old registry.Object) []string {
	return func(obj, old registry.Object) []string {
		if old != nil && old.GetGeneration() == obj.GetGeneration() {
			return nil
		}
		return f(obj.(T))
	}
}

// Convert adapts a conversion between two versions of a kind.
func Convert[In, Out registry.Object](f func(In) Out) func(registry.Object) (registry.Object, error) {
	return func(in registry.Object) (registry.Object, error) { return f(in.(In)), nil }
}
