package codec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubejson "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/mergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/kubernetes/scheme"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"howdah.dev/services/apiserver/internal/registry"
)

// maxOperations bounds a JSON patch.
const maxOperations = 10000

// Patched is what a patch led to.
type Patched struct {
	// Problems are the unknown and duplicate fields, in the patch and in what it made.
	Problems []error
	// Mistaken is what is wrong with a custom object that says now that it is of another kind or version. Its status can be written so all the same.
	Mistaken *Mistyped
	// shown is what an error about the patch shows: the patched object, or the strategic merge patch itself.
	shown []byte
}

// Refuse is the 422 of a patch that leads to no object.
func (p Patched) Refuse(err error) error {
	problem := field.Invalid(field.NewPath("patch"), string(p.shown), err.Error())
	return &RefusedError{apierrors.NewInvalid(schema.GroupKind{}, "", field.ErrorList{problem})}
}

// RefusedError is the error of a patch that can be applied, but leads to no object. Its Status shows the whole object.
type RefusedError struct{ error }

// Unwrap returns the StatusError.
func (e *RefusedError) Unwrap() error { return e.error }

// Patch applies a JSON, merge or strategic merge patch to in, which it leaves as it is, and decodes the result into out,
// which is empty. With strict it also finds the unknown and duplicate fields. want is the kind of both. A result that says it is of
// another of the versions is read as that, and converted; a nil resource has no others.
func Patch(kind types.PatchType, patch []byte, in, out runtime.Object, want schema.GroupVersionKind, versions *registry.Resource, strict bool) (Patched, error) {
	if err := jsonDepth(patch); err != nil {
		text := err.Error()
		if kind != types.StrategicMergePatchType {
			text = "error decoding patch: " + text
		}
		return Patched{}, apierrors.NewBadRequest(text)
	}
	if kind == types.StrategicMergePatchType {
		return strategic(patch, in, out, strict)
	}
	var p Patched
	before, err := json.Marshal(in)
	if err != nil {
		return p, apierrors.NewInternalError(err)
	}
	var after []byte
	if kind == types.JSONPatchType {
		after, p.Problems, err = jsonPatch(before, patch, strict)
	} else {
		after, p.Problems, err = mergePatch(before, patch, strict)
	}
	if err != nil {
		return p, err
	}
	p.shown = after
	if u, ok := out.(*unstructured.Unstructured); ok {
		return p.custom(after, u, want, strict)
	}
	if !begins(after, want) {
		if unknown, nameless := versionless(after, want); nameless {
			// Kubernetes reads it as the type that has no version, which knows none of the fields.
			if strict {
				p.Problems = append(p.Problems, unknown...)
			}
			return p, nil
		}
		if other := sibling(after, versions); other != nil {
			return p.through(other, versions, after, out, strict)
		}
	}
	if strict {
		var unknown []error
		unknown, err = kjson.UnmarshalStrict(after, out)
		p.Problems = append(p.Problems, unknown...)
	} else {
		err = kjson.UnmarshalCaseSensitivePreserveInts(after, out)
	}
	return p.fits(after, out, want, err)
}

// custom reads a custom object; its unknown fields are found when it is fitted.
func (p Patched) custom(after []byte, out *unstructured.Unstructured, want schema.GroupVersionKind, strict bool) (Patched, error) {
	repeated, err := decodeMap(after, out, strict)
	p.Problems = append(p.Problems, repeated...)
	switch {
	case err != nil:
	case out.GetKind() == "":
		return p, p.Refuse(runtime.NewMissingKindErr(string(after)))
	case out.GetAPIVersion() != "" && out.GroupVersionKind() != want:
		p.Mistaken = otherType(out, want)
		return p, nil
	case out.GetAPIVersion() == "":
		return p, apierrors.NewInternalError(runtime.NewMissingVersionErr("object has no apiVersion field"))
	}
	return p.fits(after, out, want, err)
}

// fits refuses what could not be decoded, with err, or is of another kind than is wanted.
func (p Patched) fits(after []byte, out runtime.Object, want schema.GroupVersionKind, err error) (Patched, error) {
	if got := out.GetObjectKind().GroupVersionKind(); err != nil || got != want {
		if problem := misfit(after, want, err); problem != nil {
			return p, p.Refuse(problem)
		}
	}
	return p, nil
}

// begins reports whether an object begins with the version that is wanted. What a patch leaves does, as its fields are sorted; so its type need not be looked for.
func begins(object []byte, want schema.GroupVersionKind) bool {
	version, ok := bytes.CutPrefix(object, []byte(`{"apiVersion":"`))
	return ok && bytes.HasPrefix(version, []byte(want.GroupVersion().String()+`"`))
}

// versionless reports whether an object of a built-in kind does not say of which version it is, and tells all of its fields as unknown ones.
func versionless(object []byte, want schema.GroupVersionKind) (unknown []error, ok bool) {
	if got, err := kubejson.DefaultMetaFactory.Interpret(object); err != nil || got.Version != "" || got.Group != "" || got.Kind != "" && got.Kind != want.Kind {
		return nil, false
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(object, &fields) != nil {
		return nil, false
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if name != "apiVersion" && name != "kind" {
			unknown = append(unknown, fmt.Errorf("unknown field %q", name))
		}
	}
	return unknown, true
}

// Mistyped is an object that is not what it says: its kind, and the problems of that.
type Mistyped struct {
	Kind     schema.GroupKind
	Problems field.ErrorList
}

// otherType says what is wrong where a patch makes a custom object one of another kind or version.
func otherType(u *unstructured.Unstructured, want schema.GroupVersionKind) *Mistyped {
	var errs field.ErrorList
	if u.GetKind() != want.Kind {
		errs = append(errs, field.Invalid(field.NewPath("kind"), u.GetKind(), "must be "+want.Kind))
	}
	if version := want.GroupVersion().String(); u.GetAPIVersion() != version {
		errs = append(errs, field.Invalid(field.NewPath("apiVersion"), u.GetAPIVersion(), "must be "+version))
	}
	return &Mistyped{u.GroupVersionKind().GroupKind(), errs}
}

// misfit says why a patched object could not be decoded, with err, or is not of the wanted kind; nil: it is.
func misfit(after []byte, want schema.GroupVersionKind, err error) error {
	got, unreadable := kubejson.DefaultMetaFactory.Interpret(after)
	switch {
	case unreadable != nil:
		return unreadable
	case got.Version == "":
		got.Group, got.Version = want.Group, want.Version
	}
	if got.Kind == "" {
		got.Kind = want.Kind
	}
	if *got != want && !scheme.Scheme.Recognizes(*got) {
		return runtime.NewNotRegisteredErrForKind(schemeName, *got)
	}
	if err == nil && *got != want {
		return unknownConversion(*got, want)
	}
	return err
}

// Fit cuts a patched object to its schema, and returns its unknown fields where strict.
func Fit(kind *registry.Kind, obj runtime.Object, strict bool) ([]error, error) {
	return fit(kind, obj, strict)
}

// operation is one of a JSON patch, as far as strict decoding knows its fields.
type operation struct {
	Op    string  `json:"op"`
	From  *string `json:"from,omitempty"`
	Path  string  `json:"path"`
	Value any     `json:"value,omitempty"`
}

// operationName is what Kubernetes calls an operation in the errors of its decoding.
const operationName = "handlers.jsonPatchOp"

// checkOperations decodes a JSON patch to find what is wrong with it: duplicate and unknown fields are problems.
func checkOperations(patch []byte) (problems []error, err error) {
	var operations []operation
	if problems, err = kjson.UnmarshalStrict(patch, &operations); err != nil {
		text := strings.NewReplacer("codec.operation", operationName, "field operation.", "field jsonPatchOp.").Replace(err.Error())
		return nil, undecodable(errors.New(text))
	}
	for i, p := range problems {
		problems[i] = fmt.Errorf("json patch %w", p)
	}
	return problems, nil
}

// undecodable is the 400 of a patch that is none.
func undecodable(err error) error {
	return apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
}

func jsonPatch(before, patch []byte, strict bool) (after []byte, problems []error, err error) {
	if strict {
		if problems, err = checkOperations(patch); err != nil {
			return nil, nil, err
		}
	}
	operations, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, nil, apierrors.NewBadRequest(err.Error())
	}
	if len(operations) > maxOperations {
		return nil, nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("The allowed maximum operations in a JSON patch is %d, got %d",
			maxOperations, len(operations)))
	}
	after, err = applyOperations(operations, before)
	if err != nil {
		return nil, nil, unprocessable(err)
	}
	return after, problems, nil
}

// JSONPatch applies a JSON patch to an object's JSON.
func JSONPatch(before, patch []byte) ([]byte, error) {
	after, _, err := jsonPatch(before, patch, false)
	return after, err
}

// applyOperations applies a JSON patch. The library panics over some that replace the whole document by nothing.
func applyOperations(operations jsonpatch.Patch, before []byte) (after []byte, err error) {
	defer func() {
		if panicked := recover(); panicked != nil {
			after, err = nil, fmt.Errorf("the patch cannot be applied: %v", panicked)
		}
	}()
	return operations.Apply(before)
}

func mergePatch(before, patch []byte, strict bool) (after []byte, problems []error, err error) {
	if strict {
		var fields map[string]any
		if problems, err = kjson.UnmarshalStrict(patch, &fields); err != nil {
			return nil, nil, undecodable(err)
		}
	}
	after, err = jsonpatch.MergePatch(before, patch)
	switch {
	case errors.Is(err, jsonpatch.ErrBadJSONPatch), errors.Is(err, jsonpatch.ErrBadJSONDoc):
		return nil, nil, apierrors.NewBadRequest(err.Error())
	case err != nil:
		return nil, nil, unprocessable(err)
	}
	return after, problems, nil
}

func strategic(patch []byte, in, out runtime.Object, strict bool) (p Patched, err error) {
	before, err := runtime.DefaultUnstructuredConverter.ToUnstructured(in)
	if err != nil {
		return p, apierrors.NewInternalError(err)
	}
	change := map[string]any{}
	if strict {
		p.Problems, err = kjson.UnmarshalStrict(patch, &change)
	} else {
		err = kjson.UnmarshalCaseSensitivePreserveInts(patch, &change)
	}
	if err != nil {
		return p, apierrors.NewBadRequest(err.Error())
	}
	after, err := strategicpatch.StrategicMergeMapPatch(before, change, out)
	if err != nil {
		switch {
		case errors.Is(err, mergepatch.ErrBadJSONDoc), errors.Is(err, mergepatch.ErrBadPatchFormatForPrimitiveList),
			errors.Is(err, mergepatch.ErrBadPatchFormatForRetainKeys), errors.Is(err, mergepatch.ErrBadPatchFormatForSetElementOrderList),
			errors.Is(err, mergepatch.ErrUnsupportedStrategicMergePatchFormat):
			return p, apierrors.NewBadRequest(err.Error())
		}
		return p, unnamed(err)
	}
	if err = runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(after, out, strict); err == nil && len(p.Problems) == 0 {
		return p, nil
	}
	p.shown = fmt.Appendf(nil, "%+v", change)
	if unknown, ok := runtime.AsStrictDecodingError(err); ok {
		p.Problems = append(p.Problems, unknown.Errors()...)
	} else if err != nil {
		return p, p.Refuse(err)
	}
	return p, nil
}

// Configuration decodes the body of a server-side apply. Fields that occur twice are told as problems, or, where validation is
// strict, an error.
func Configuration(body []byte, want schema.GroupVersionKind, level Validation) (u *unstructured.Unstructured, problems []error, err error) {
	if object, ok := flow(body); ok {
		u, err = configuration(object, want)
		return u, nil, err
	}
	if err := yamlDepth(body); err != nil {
		return nil, nil, apierrors.NewBadRequest("error decoding YAML: error converting YAML to JSON: " + err.Error())
	}
	if level != Ignore {
		if err := yamlDuplicates(body); err != nil {
			problems = append(problems, err)
		}
	}
	if level == Strict && len(problems) > 0 {
		return nil, nil, apierrors.NewBadRequest(fmt.Sprintf("error strict decoding YAML: error converting YAML to JSON: %v", problems[0]))
	}
	object := map[string]any{}
	data, err := yaml.YAMLToJSON(body)
	if err == nil {
		err = kjson.UnmarshalCaseSensitivePreserveInts(data, &object)
	}
	if err != nil {
		if told := yaml.Unmarshal(body, &object); told != nil { // in the words of the library
			err = told
		}
		return nil, nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding YAML: %v", err))
	}
	u, err = configuration(object, want)
	return u, problems, err
}

// ConfigurationCBOR is Configuration of a body in CBOR, in which a field that occurs twice is an error.
func ConfigurationCBOR(body []byte, want schema.GroupVersionKind) (*unstructured.Unstructured, error) {
	object, err := configurationCBOR(body)
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding YAML: %v", err)) // as Kubernetes calls it
	}
	return configuration(object, want)
}

func configuration(object map[string]any, want schema.GroupVersionKind) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{Object: object}
	if got := u.GroupVersionKind(); got != want {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("invalid object type: %v", got))
	}
	u.SetGroupVersionKind(want)
	return u, nil
}

// unnamed is the 500 of an error that Kubernetes has no reason for.
func unnamed(err error) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: err.Error(),
	}}
}

// unprocessable is the 422 of a patch that cannot be applied.
func unprocessable(err error) error {
	return apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)
}
