package fake

import (
	"encoding/json"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

const protobuf = "application/vnd.kubernetes.protobuf"

// decode reads an object in Kubernetes' protobuf, JSON or YAML.
func decode(data []byte) (*unstructured.Unstructured, error) {
	if len(data) > 3 && string(data[:3]) == "k8s" {
		o, _, err := scheme.Codecs.UniversalDeserializer().Decode(data, nil, nil)
		if err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		return &unstructured.Unstructured{Object: content}, err
	}
	var content map[string]any
	if err := yaml.Unmarshal(data, &content); err != nil {
		return nil, apierrors.NewBadRequest("the object provided is malformed: " + err.Error())
	}
	return &unstructured.Unstructured{Object: content}, nil
}

// encode writes an object in protobuf where it is asked for and the kind has it, else in JSON.
func encode(o *unstructured.Unstructured, accept string) ([]byte, string, error) {
	if strings.HasPrefix(accept, protobuf) && scheme.Scheme.Recognizes(o.GroupVersionKind()) {
		typed, err := toTyped(o)
		if err != nil {
			return nil, "", err
		}
		data, err := encodeTyped(typed, o.GroupVersionKind().GroupVersion())
		return data, protobuf, err
	}
	data, err := json.Marshal(o.Object)
	return append(data, '\n'), "application/json", err
}

// encodeList writes a list of objects that share a group and version.
func encodeList(gv schema.GroupVersion, kind, revision string, items []*unstructured.Unstructured, accept string) ([]byte, string, error) {
	gvk := gv.WithKind(kind + "List")
	if strings.HasPrefix(accept, protobuf) && scheme.Scheme.Recognizes(gvk) {
		list, err := scheme.Scheme.New(gvk)
		if err != nil {
			return nil, "", err
		}
		objects := make([]runtime.Object, len(items))
		for i, item := range items {
			if objects[i], err = toTyped(item); err != nil {
				return nil, "", err
			}
		}
		if err := meta.SetList(list, objects); err != nil {
			return nil, "", err
		}
		accessor, err := meta.ListAccessor(list)
		if err != nil {
			return nil, "", err
		}
		accessor.SetResourceVersion(revision)
		data, err := encodeTyped(list, gv)
		return data, protobuf, err
	}
	content := make([]any, len(items))
	for i, item := range items {
		content[i] = item.Object
	}
	data, err := json.Marshal(map[string]any{
		"kind": gvk.Kind, "apiVersion": gv.String(),
		"metadata": map[string]any{"resourceVersion": revision}, "items": content,
	})
	return data, "application/json", err
}

func toTyped(o *unstructured.Unstructured) (runtime.Object, error) {
	typed, err := scheme.Scheme.New(o.GroupVersionKind())
	if err != nil {
		return nil, err
	}
	return typed, runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, typed)
}

func encodeTyped(o runtime.Object, gv schema.GroupVersion) ([]byte, error) {
	info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), protobuf)
	return runtime.Encode(scheme.Codecs.EncoderForVersion(info.Serializer, gv), o)
}

// kindOf guesses the kind of a resource from the scheme.
func kindOf(gv schema.GroupVersion, resource string) string {
	for kind := range scheme.Scheme.KnownTypes(gv) {
		if plural, _ := meta.UnsafeGuessKindToResource(gv.WithKind(kind)); plural.Resource == resource {
			return kind
		}
	}
	return "Widget" // the one custom kind of the tests
}
