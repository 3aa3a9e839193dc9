package codec

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/mergepatch"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"howdah.dev/services/apiserver/internal/registry"
)

// maxOperations bounds a JSON patch.
const maxOperations = 10000

// Patch applies a JSON, merge or strategic merge patch to in, which it leaves as it is, and decodes the result into out,
// which is empty. With strict it also returns the unknown and duplicate fields of the patch.
func Patch(kind types.PatchType, patch []byte, in, out runtime.Object, strict bool) (problems []error, err error) {
	if err := jsonDepth(patch); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if kind == types.StrategicMergePatchType {
		return strategic(patch, in, out, strict)
	}
	before, err := json.Marshal(in)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	var after []byte
	if kind == types.JSONPatchType {
		after, err = jsonPatch(before, patch)
	} else {
		after, problems, err = mergePatch(before, patch, strict)
	}
	if err != nil {
		return nil, err
	}
	if u, ok := out.(*unstructured.Unstructured); ok {
		_, err = decodeMap(after, u, false) // a custom object's unknown fields are found when it is fitted
	} else if !strict {
		err = kjson.UnmarshalCaseSensitivePreserveInts(after, out)
	} else {
		var unknown []error
		unknown, err = kjson.UnmarshalStrict(after, out)
		problems = append(problems, unknown...)
	}
	if err != nil {
		return nil, unprocessable(err)
	}
	return problems, nil
}

// Fit cuts a patched object to its schema, and returns its unknown fields where strict.
func Fit(kind *registry.Kind, obj runtime.Object, strict bool) ([]error, error) {
	problems, err := fit(kind, obj, strict)
	if err != nil {
		return nil, unprocessable(err)
	}
	return problems, nil
}

func jsonPatch(before, patch []byte) ([]byte, error) {
	operations, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if len(operations) > maxOperations {
		return nil, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("The allowed maximum operations in a JSON patch is %d, got %d",
			maxOperations, len(operations)))
	}
	after, err := operations.Apply(before)
	if err != nil {
		return nil, unprocessable(err)
	}
	return after, nil
}

func mergePatch(before, patch []byte, strict bool) (after []byte, problems []error, err error) {
	if strict {
		var fields map[string]any
		if problems, err = kjson.UnmarshalStrict(patch, &fields); err != nil {
			return nil, nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding patch: %v", err))
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

func strategic(patch []byte, in, out runtime.Object, strict bool) (problems []error, err error) {
	before, err := runtime.DefaultUnstructuredConverter.ToUnstructured(in)
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	change := map[string]any{}
	if strict {
		problems, err = kjson.UnmarshalStrict(patch, &change)
	} else {
		err = kjson.UnmarshalCaseSensitivePreserveInts(patch, &change)
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	after, err := strategicpatch.StrategicMergeMapPatch(before, change, out)
	if err != nil {
		switch {
		case errors.Is(err, mergepatch.ErrBadJSONDoc), errors.Is(err, mergepatch.ErrBadPatchFormatForPrimitiveList),
			errors.Is(err, mergepatch.ErrBadPatchFormatForRetainKeys), errors.Is(err, mergepatch.ErrBadPatchFormatForSetElementOrderList),
			errors.Is(err, mergepatch.ErrUnsupportedStrategicMergePatchFormat):
			return nil, apierrors.NewBadRequest(err.Error())
		}
		return nil, unprocessable(err)
	}
	err = runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(after, out, strict)
	if unknown, ok := runtime.AsStrictDecodingError(err); ok {
		return append(problems, unknown.Errors()...), nil
	}
	if err != nil {
		return nil, unprocessable(err)
	}
	return problems, nil
}

// Configuration decodes the body of a server-side apply.
func Configuration(body []byte, want schema.GroupVersionKind) (*unstructured.Unstructured, []error, error) {
	if err := yamlDepth(body); err != nil {
		return nil, nil, apierrors.NewBadRequest(err.Error())
	}
	var problems []error
	object := map[string]any{}
	if err := yaml.UnmarshalStrict(body, &object); err != nil {
		for _, line := range strings.Split(err.Error(), "\n") {
			if strings.Contains(line, "already set in map") {
				problems = append(problems, errors.New(strings.TrimSpace(line)))
			}
		}
	}
	data, err := yaml.YAMLToJSON(body)
	if err == nil {
		object = map[string]any{}
		err = kjson.UnmarshalCaseSensitivePreserveInts(data, &object)
	}
	if err != nil {
		return nil, nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding YAML: %v", err))
	}
	u, err := configuration(object, want)
	return u, problems, err
}

// ConfigurationCBOR is Configuration of a body in CBOR, in which a field that occurs twice is an error.
func ConfigurationCBOR(body []byte, want schema.GroupVersionKind) (*unstructured.Unstructured, error) {
	data, err := cborToJSON(body)
	if err == nil {
		err = jsonDepth(data)
	}
	object := map[string]any{}
	if err == nil {
		err = kjson.UnmarshalCaseSensitivePreserveInts(data, &object)
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding CBOR: %v", err))
	}
	return configuration(object, want)
}

func configuration(object map[string]any, want schema.GroupVersionKind) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{Object: object}
	if err := checkKind(u.GetAPIVersion(), u.GetKind(), want); err != nil {
		return nil, err
	}
	u.SetGroupVersionKind(want)
	return u, nil
}

// unprocessable is the 422 of a patch that cannot be applied.
func unprocessable(err error) error {
	return apierrors.NewGenericServerResponse(http.StatusUnprocessableEntity, "", schema.GroupResource{}, "", err.Error(), 0, false)
}
