package custom

import (
	"context"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/warning"

	"howdah.dev/services/apiserver/internal/registry"
)

// notes collects what a validation tells besides its errors.
type notes []string

// AddWarning implements warning.Recorder.
func (n *notes) AddWarning(_, text string) { *n = append(*n, text) }

// tolerates validates an update, and names the rules that it breaks where the object was so before.
func (v *version) tolerates(obj, old registry.Object) (field.ErrorList, []string) {
	var told notes
	return v.validateChange(warning.WithWarningRecorder(context.Background(), &told), obj, old), told
}

// toleratesStatus is tolerates of a change of the status.
func (v *version) toleratesStatus(obj, old registry.Object) (field.ErrorList, []string) {
	var told notes
	return v.validateStatusChange(warning.WithWarningRecorder(context.Background(), &told), obj, old), told
}
