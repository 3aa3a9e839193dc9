package codec

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubejson "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
)

// schemeName is what Kubernetes calls its table of kinds where it says that it does not know one.
const schemeName = "pkg/runtime/scheme.go:111"

// maxSnippet is how much of an unreadable body its error shows, in characters.
const maxSnippet = 30

// refusal is the 400 of a body, in JSON or turned into it, that is not an object of the wanted kind. It is made when decoding has failed,
// with err, or has met another kind; err is nil then. Whole is the body as it came.
func refusal(whole, data []byte, want schema.GroupVersionKind, obj runtime.Object, level Validation, err error) error {
	got, unreadable := kubejson.DefaultMetaFactory.Interpret(data)
	if unreadable != nil {
		return unrecognized(whole, want, unreadable)
	}
	if custom, ok := obj.(*unstructured.Unstructured); ok {
		return customRefusal(whole, data, *got, want, custom, level, err)
	}
	if got.Version == "" {
		got.Group, got.Version = want.Group, want.Version
	}
	if got.Kind == "" {
		got.Kind = want.Kind
	}
	if *got == want {
		return badBody(want, want, err)
	}
	if err := unreadableAs(*got, want, data); err != nil {
		return badBody(*got, want, err)
	}
	return otherKind(*got, want)
}

// unreadableAs says what is wrong with an object's JSON as one of the kind that it says it is, where that is known beside the wanted one.
func unreadableAs(got, want schema.GroupVersionKind, data []byte) error {
	obj, err := knownBeside(want).New(got)
	if err != nil {
		return nil // that no such kind is known is told instead
	}
	return kjson.UnmarshalCaseSensitivePreserveInts(data, obj)
}

// customRefusal is refusal for a custom object, which has to say of what kind and version it is.
func customRefusal(whole, data []byte, got, want schema.GroupVersionKind, obj *unstructured.Unstructured, level Validation, err error) error {
	switch {
	case got.Kind == "" && level == Ignore:
		return badBody(want, want, runtime.NewMissingKindErr(string(data)))
	case got.Kind == "":
		return unrecognized(whole, want, runtime.NewMissingKindErr(string(data)))
	case got.GroupVersion() != want.GroupVersion():
		return otherVersion(got, want)
	case got.Kind != want.Kind:
		problem := field.Invalid(field.NewPath("kind"), got.Kind, "must be "+want.Kind)
		refused := apierrors.NewInvalid(got.GroupKind(), obj.GetName(), field.ErrorList{problem})
		if err != nil {
			return refused
		}
		if _, _, _, err := objectmeta.GetObjectMetaWithOptions(obj.Object, objectmeta.ObjectMetaOptions{}); err != nil {
			return badBody(got, want, err) // metadata are the same in all kinds
		}
		return &MistakenError{refused}
	}
	return badBody(want, want, err)
}

// MistakenError is the 422 of a body that is decoded, but says that it is of another kind than the custom one of its version. An update is refused
// for it only once all else that it says of its identity was found right, and an update of the status is not.
type MistakenError struct{ error }

// Unwrap returns the StatusError.
func (e *MistakenError) Unwrap() error { return e.error }

// otherKind is the 400 of a body of another kind, or of another version of the kind.
func otherKind(got, want schema.GroupVersionKind) error {
	if got.Kind == want.Kind && (got.Kind == "Scale" || internalPackage(got.Group) == internalPackage(want.Group)) && knownBeside(want).Recognizes(got) {
		return otherVersion(got, want)
	}
	return badBody(got, want, unknownConversion(got, want))
}

// unknownConversion says why an object of the kind got, which may be unknown, cannot become one of the wanted kind.
func unknownConversion(got, want schema.GroupVersionKind) error {
	obj, err := knownBeside(want).New(got)
	if err != nil {
		return runtime.NewNotRegisteredErrForKind(schemeName, got)
	}
	return fmt.Errorf("converting (%s) to (%s.%s): unknown conversion", reflect.TypeOf(obj).Elem(), internalPackage(want.Group), want.Kind)
}

func otherVersion(got, want schema.GroupVersionKind) error {
	return apierrors.NewBadRequest(fmt.Sprintf("the API version in the data (%s) does not match the expected API version (%s)",
		got.GroupVersion(), want.GroupVersion()))
}

// internalPackage names the package of a group's types that have no version. Where its name is not the group's first part, it says so.
func internalPackage(group string) string {
	switch group {
	case "", "events.k8s.io":
		return "core"
	case "extensions":
		return "apps"
	}
	name, _, _ := strings.Cut(group, ".")
	return name
}

// unrecognized is the 400 of a body of which not even the kind can be told.
func unrecognized(whole []byte, want schema.GroupVersionKind, err error) error {
	return apierrors.NewBadRequest(fmt.Sprintf("the object provided is unrecognized (must be of type %s): %v (%s)", want.Kind, err, snippet(whole)))
}

// snippet is the start of a body: as text if it may be JSON, else in hexadecimal digits.
func snippet(data []byte) string {
	if len(data) == 0 {
		return "<empty>"
	}
	start, more := data, ""
	if len(data) > maxSnippet {
		start, more = data[:maxSnippet], " ..."
	}
	if data[0] == '{' {
		return string(start) + more
	}
	return fmt.Sprintf("%x%s", start, more)
}

var (
	errNoData = errors.New("empty data")
	errNoBody = errors.New("empty body")
)

// check fails where the envelope is of another kind. What it leaves out is taken for what is wanted, and so is a version that cannot be one.
func (e envelope) check(want schema.GroupVersionKind) error {
	got := schema.FromAPIVersionAndKind(e.apiVersion, e.kind)
	if got.Version == "" {
		got.Group, got.Version = want.Group, want.Version
	}
	if got.Kind == "" {
		got.Kind = want.Kind
	}
	if got == want {
		return nil
	}
	if other, err := knownBeside(want).New(got); err == nil {
		if m, ok := other.(message); ok {
			if err := m.Unmarshal(e.raw); err != nil {
				return badBody(got, want, err)
			}
		}
	}
	return otherKind(got, want)
}
