// Package initializers keeps objects back from those who did not ask for them until initializers, which clients run, have done their part:
// metadata.initializers, which Kubernetes had from 1.7 to 1.13.
//
// The field is in no type of the API any more. What it says is stored as an annotation, which is what protobuf and CBOR show it as; Server
// turns it into the field, and back, in JSON and YAML. Where the admission plugin is off, none of this package runs.
package initializers

import (
	"encoding/json"
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/services/apiserver/internal/codec"
	"howdah.dev/services/apiserver/internal/registry"
)

// Annotation is what metadata.initializers is stored as: the field's JSON.
const Annotation = "howdah.dev/initializers"

// Path is where the field is in an object.
var Path = field.NewPath("metadata", "initializers")

// Initializers is metadata.initializers.
type Initializers struct {
	// Pending are those that are still to come, in the order in which they are to act.
	Pending []Initializer `json:"pending" patchStrategy:"merge" patchMergeKey:"name"`
	// Result says that one of them has failed, and why.
	Result *metav1.Status `json:"result,omitempty"`
}

// Initializer is one that is to come.
type Initializer struct {
	// Name is fully qualified, as in podimage.example.com.
	Name string `json:"name"`
}

// Of returns what an object waits for, nil where it is nothing.
func Of(obj metav1.Object) (*Initializers, error) {
	text, ok := obj.GetAnnotations()[Annotation]
	if !ok {
		return nil, nil
	}
	i := &Initializers{}
	if err := json.Unmarshal([]byte(text), i); err != nil {
		return nil, fmt.Errorf("annotation %s: %w", Annotation, err)
	}
	return i, nil
}

// Done reports whether nothing is waited for, and nothing has failed.
func (i *Initializers) Done() bool { return i == nil || len(i.Pending) == 0 && i.Result == nil }

// Put stores what an object waits for; nothing where i is nil.
func (i *Initializers) Put(obj metav1.Object) error {
	annotations := maps.Clone(obj.GetAnnotations())
	delete(annotations, Annotation)
	if i != nil {
		text, err := json.Marshal(i)
		if err != nil {
			return err
		}
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[Annotation] = string(text)
	}
	if len(annotations) == 0 {
		annotations = nil
	}
	obj.SetAnnotations(annotations)
	return nil
}

// Keep gives obj what old waits for, whatever obj says.
func Keep(obj, old metav1.Object) error {
	state, err := Of(old)
	if err != nil {
		return err
	}
	return state.Put(obj)
}

// Validate returns what is wrong with the initializers of a new object.
func (i *Initializers) Validate() (errs field.ErrorList) {
	for n, p := range i.Pending {
		errs = append(errs, validation.IsFullyQualifiedName(Path.Child("pending").Index(n).Child("name"), p.Name)...)
	}
	return append(errs, i.validateResult()...)
}

// ValidateUpdate returns why an object's initializers may not become i; nil stands for none.
func (i *Initializers) ValidateUpdate(old *Initializers) field.ErrorList {
	switch {
	case i == nil: // all have done their part
		return nil
	case old == nil:
		return field.ErrorList{field.Invalid(Path, nil, "field is immutable once initialization has completed")}
	}
	return i.Validate()
}

func (i *Initializers) validateResult() field.ErrorList {
	if i.Result == nil || i.Result.Status == metav1.StatusFailure {
		return nil
	}
	return field.ErrorList{field.Invalid(Path.Child("result", "status"), i.Result.Status, "must be 'Failure'")}
}

// Waiting tells which objects wait.
type Waiting struct{}

// Hides reports whether an object is hidden from those who did not ask for what waits.
func (Waiting) Hides(item *codec.Item) bool {
	obj, err := item.Object()
	return err == nil && Waiting{}.Waits(obj)
}

// Waits reports whether an object waits for initializers, or one of them has failed.
func (Waiting) Waits(obj registry.Object) bool {
	_, waits := obj.GetAnnotations()[Annotation]
	return waits
}

// Fails reports whether an initializer has failed: then the object goes.
func (Waiting) Fails(obj registry.Object) bool {
	state, err := Of(obj)
	return err == nil && state != nil && state.Result != nil
}
