package conversion

import (
	"encoding/json"
	"errors"
	"fmt"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubejson "k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// review is a ConversionReview of either version: they have the same fields.
type review struct {
	metav1.TypeMeta `json:",inline"`
	Request         *request  `json:"request,omitempty"`
	Response        *response `json:"response,omitempty"`
}

type request struct {
	UID               types.UID         `json:"uid"`
	DesiredAPIVersion string            `json:"desiredAPIVersion"`
	Objects           []json.RawMessage `json:"objects"`
}

type response struct {
	UID              types.UID         `json:"uid"`
	ConvertedObjects []json.RawMessage `json:"convertedObjects"`
	Result           metav1.Status     `json:"result"`
}

// sent is a request on its way.
type sent struct {
	version string
	uid     types.UID
	body    []byte
}

func (c *converter) request(bodies []json.RawMessage, to schema.GroupVersion) (*sent, error) {
	if c.version == "" {
		return nil, errors.New("no supported conversion review versions")
	}
	s := &sent{version: c.version, uid: uuid.NewUUID()}
	var err error
	s.body, err = json.Marshal(review{
		TypeMeta: metav1.TypeMeta{Kind: "ConversionReview", APIVersion: apiextensionsv1.GroupName + "/" + c.version},
		Request:  &request{UID: s.uid, DesiredAPIVersion: to.String(), Objects: bodies},
	})
	return s, err
}

// answered returns the objects of an answer that is one to this request, and a success.
func (s *sent) answered(body []byte) ([]json.RawMessage, error) {
	var r review
	if err := kjson.UnmarshalCaseSensitivePreserveInts(body, &r); err != nil {
		return nil, undecodable(body, err)
	}
	if got := r.GroupVersionKind(); got.Group == apiextensionsv1.GroupName && got.Version != "v1" && got.Version != "v1beta1" {
		return nil, fmt.Errorf("no kind %q is registered for version %q in scheme \"pkg/runtime/scheme.go:111\"", got.Kind, got.GroupVersion())
	}
	if s.version == "v1" { // of the older one these were never asked
		want := apiextensionsv1.SchemeGroupVersion.WithKind("ConversionReview")
		if got := r.GroupVersionKind(); got != want {
			return nil, fmt.Errorf("expected webhook response of %v, got %v", want, got)
		}
	}
	if r.Response == nil {
		return nil, errors.New("no response provided")
	}
	if s.version == "v1" && r.Response.UID != s.uid {
		return nil, fmt.Errorf("expected response.uid=%q, got %q", s.uid, r.Response.UID)
	}
	if r.Response.Result.Status != metav1.StatusSuccess {
		if r.Response.Result.Message != "" {
			return nil, errors.New(r.Response.Result.Message)
		}
		return nil, fmt.Errorf("response.result.status was '%s', not 'Success'", r.Response.Result.Status)
	}
	return r.Response.ConvertedObjects, nil
}

// undecodable says why an answer is no review, in the words of Kubernetes' decoder, which tries YAML too.
func undecodable(body []byte, cause error) error {
	if text, err := yaml.YAMLToJSON(body); err == nil {
		if _, err := kubejson.DefaultMetaFactory.Interpret(text); err != nil {
			return err
		}
	}
	return cause
}

// accept reads the n-th converted object. Its errors are phrases of which the webhook is the subject. Of the object's metadata a webhook may change the labels and annotations alone: all else is taken
// from the original, which it must be recognizable as.
func accept(n int, original *unstructured.Unstructured, raw json.RawMessage, to schema.GroupVersion) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(raw); err != nil {
		return nil, fmt.Errorf("returned invalid converted object at index %d: %w", n, err)
	}
	if got := u.GroupVersionKind().GroupVersion(); got != to {
		return nil, fmt.Errorf("returned invalid object at index %d: invalid groupVersion (expected %v, received %v)", n, to, got)
	}
	if want, got := original.GetKind(), u.GetKind(); want != got {
		return nil, fmt.Errorf("returned invalid object at index %d: invalid kind (expected %v, received %v)", n, want, got)
	}
	for _, same := range []struct{ what, want, got string }{
		{"name", original.GetName(), u.GetName()}, {"namespace", original.GetNamespace(), u.GetNamespace()},
		{"UID", string(original.GetUID()), string(u.GetUID())},
	} {
		if same.want != same.got {
			return nil, fmt.Errorf("returned invalid object: must have the same %s: %v != %v", same.what, same.want, same.got)
		}
	}
	if err := keepMeta(original, u); err != nil {
		return nil, fmt.Errorf("returned invalid metadata: %w", err)
	}
	return u, nil
}

func keepMeta(original, u *unstructured.Unstructured) error {
	answered, has := u.Object["metadata"]
	if !has {
		return errors.New("missing metadata in converted object")
	}
	theirs, ok := answered.(map[string]any)
	if !ok {
		return fmt.Errorf("invalid metadata of type %T in converted object", answered)
	}
	meta := map[string]any{}
	if own, ok := original.Object["metadata"].(map[string]any); ok {
		meta = runtime.DeepCopyJSON(own)
	}
	for _, name := range []string{"labels", "annotations"} {
		before, _ := meta[name].(map[string]any)
		delete(meta, name)
		value, ok := theirs[name]
		if !ok || value == nil {
			continue
		}
		pairs, ok := value.(map[string]any)
		if !ok {
			return fmt.Errorf("invalid metadata.%s of type %T in converted object", name, value)
		}
		if err := check(name, pairs, before); err != nil {
			return err
		}
		meta[name] = pairs
	}
	u.Object["metadata"] = meta
	return nil
}

// check validates labels or annotations that are not as they were.
func check(name string, pairs, before map[string]any) error {
	texts := make(map[string]string, len(pairs))
	same := len(pairs) == len(before)
	for key, value := range pairs {
		text, ok := value.(string)
		if !ok {
			return fmt.Errorf("metadata.%s[%s] must be a string, but is %T in converted object", name, key, value)
		}
		texts[key] = text
		same = same && before[key] == value
	}
	if same {
		return nil
	}
	if name == "labels" {
		return metav1validation.ValidateLabels(texts, field.NewPath("metadata", name)).ToAggregate()
	}
	return validation.ValidateAnnotations(texts, field.NewPath("metadata", name)).ToAggregate()
}
