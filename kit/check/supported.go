package check

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Supported is OneOf with a message that lists allowed as they stand here, which is what some fields do.
func Supported[T ~string](value T, path *field.Path, allowed ...T) field.ErrorList {
	if slices.Contains(allowed, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, value, allowed)}
}
