package conversion

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

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
	if err := s.is(r.GroupVersionKind()); err != nil {
		return nil, err
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

// registered are kinds that the decoder knows in the group.
var registered = []string{"ConversionReview", "CustomResourceDefinition", "CustomResourceDefinitionList", "Status"}

// is says why an answer of a kind is none to this request, in the words of Kubernetes' decoder, which knows the group's kinds in both versions.
func (s *sent) is(got schema.GroupVersionKind) error {
	known := (got.Version == "v1" || got.Version == "v1beta1") && slices.Contains(registered, got.Kind)
	if got.Group == apiextensionsv1.GroupName && !known {
		return fmt.Errorf("no kind %q is registered for version %q in scheme \"pkg/runtime/scheme.go:111\"", got.Kind, got.GroupVersion())
	}
	if got.Group == apiextensionsv1.GroupName && got.Kind == registered[0] && got.Version != s.version {
		return fmt.Errorf("converting (%s.ConversionReview) to (%s.ConversionReview): unknown conversion", got.Version, s.version)
	}
	if s.version == "v1" { // of the older one these were never asked
		want := apiextensionsv1.SchemeGroupVersion.WithKind("ConversionReview")
		if got != want {
			return fmt.Errorf("expected webhook response of %v, got %v", want, got)
		}
	}
	return nil
}

// undecodable says why an answer is no review, in the words of Kubernetes' decoder, which tries YAML too.
func undecodable(body []byte, cause error) error {
	text, err := yaml.YAMLToJSON(body)
	if err != nil {
		text = body
	}
	if _, err := kubejson.DefaultMetaFactory.Interpret(text); err != nil {
		return err
	}
	return cause
}

// decode reads a converted object. null is nothing at all, as where Kubernetes decodes it.
func decode(raw json.RawMessage) (*unstructured.Unstructured, error) {
	if string(raw) == "null" {
		raw = nil
	}
	u := &unstructured.Unstructured{}
	return u, u.UnmarshalJSON(raw)
}

// accept takes the n-th converted object. Its errors are phrases of which the webhook is the subject. Of the object's metadata a webhook may change the labels and annotations alone: all else is taken
// from the original, which it must be recognizable as.
func accept(n int, original, u *unstructured.Unstructured, to schema.GroupVersion) error {
	if got := u.GroupVersionKind().GroupVersion(); got != to {
		return fmt.Errorf("returned invalid object at index %d: invalid groupVersion (expected %v, received %v)", n, to, got)
	}
	if want, got := original.GetKind(), u.GetKind(); want != got {
		return fmt.Errorf("returned invalid object at index %d: invalid kind (expected %v, received %v)", n, want, got)
	}
	for _, same := range []struct{ what, want, got string }{
		{"name", original.GetName(), u.GetName()}, {"namespace", original.GetNamespace(), u.GetNamespace()},
		{"UID", string(original.GetUID()), string(u.GetUID())},
	} {
		if same.want != same.got {
			return fmt.Errorf("returned invalid object: must have the same %s: %v != %v", same.what, same.want, same.got)
		}
	}
	if err := keepMeta(original, u); err != nil {
		return fmt.Errorf("returned invalid metadata: %w", err)
	}
	return nil
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
	return validation.ValidateAnnotations(texts, field.NewPath("metadata", "annotation")).ToAggregate() // which is Kubernetes' word
}
