package object

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	kubernetes "k8s.io/client-go/kubernetes/scheme"
)

// ContentType is the encoding between howdah's own services.
const ContentType = "application/vnd.kubernetes.protobuf"

// customContentType is the encoding of objects whose kinds have definitions.
const customContentType = "application/json"

// metadataAccept asks for the metadata of objects only.
const metadataAccept = ContentType + ";as=PartialObjectMetadata;g=meta.k8s.io;v=v1"

// Scheme knows every type that the client decodes.
var Scheme = newScheme()

var codec = protobuf.NewSerializer(Scheme, Scheme)

func newScheme() *runtime.Scheme {
	s := runtime.NewScheme()
	utilruntime.Must(kubernetes.AddToScheme(s))
	utilruntime.Must(metav1.AddMetaToScheme(s))
	return s
}

// Encode returns the object in Kubernetes' protobuf encoding. kind is set in
// the envelope, whatever the object's own TypeMeta says.
func Encode[T Object](kind Kind[T], obj T) ([]byte, error) {
	copied := obj.DeepCopyObject()
	copied.GetObjectKind().SetGroupVersionKind(kind.GVK)
	encode := func() ([]byte, error) { return runtime.Encode(codec, copied) }
	if kind.Custom {
		encode = func() ([]byte, error) { return json.Marshal(copied) }
	}
	data, err := encode()
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", kind.GVK.Kind, err)
	}
	return data, nil
}

// encodeAny encodes an object whose kind the scheme knows.
func encodeAny(obj runtime.Object) ([]byte, error) {
	kinds, _, err := Scheme.ObjectKinds(obj)
	if err != nil {
		return nil, err
	}
	copied := obj.DeepCopyObject()
	copied.GetObjectKind().SetGroupVersionKind(kinds[0])
	return runtime.Encode(codec, copied)
}

// Decode parses what Encode or the API has written.
func Decode[T Object](kind Kind[T], data []byte) (T, error) {
	target := kind.New()
	if kind.Custom {
		if err := json.Unmarshal(data, target); err != nil {
			return target, fmt.Errorf("decode %s: %w", kind.GVK.Kind, err)
		}
		return target, nil
	}
	gvk := &kind.GVK
	if isMetadata(target) {
		gvk = &metadataGVK
	}
	if ok, err := into(data, *gvk, target); err != nil {
		return target, fmt.Errorf("decode %s: %w", kind.GVK.Kind, err)
	} else if ok {
		return target, nil
	}
	obj, _, err := codec.Decode(data, gvk, target)
	if err != nil {
		return target, fmt.Errorf("decode %s: %w", kind.GVK.Kind, err)
	}
	typed, ok := obj.(T)
	if !ok {
		return target, fmt.Errorf("decode %s: the data holds a %T", kind.GVK.Kind, obj)
	}
	return typed, nil
}

// decodeListOf parses an encoded list of a kind.
func decodeListOf[T Object](kind Kind[T], data []byte) (runtime.Object, error) {
	if !kind.Custom {
		return decodeList(data)
	}
	var raw struct {
		metav1.ListMeta `json:"metadata"`
		Items           []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(data, &raw); err != nil {
		return nil, fmt.Errorf("decode a list of %s: %w", kind.GVK.Kind, err)
	}
	list := &metav1.List{ListMeta: raw.ListMeta, Items: make([]runtime.RawExtension, 0, len(raw.Items))}
	for _, item := range raw.Items {
		obj, err := Decode(kind, item)
		if err != nil {
			return nil, err
		}
		list.Items = append(list.Items, runtime.RawExtension{Object: obj})
	}
	return list, nil
}

// decodeList parses an encoded list of any kind that the scheme knows.
func decodeList(data []byte) (runtime.Object, error) {
	if e, ok := open(data); ok {
		gvk := schema.FromAPIVersionAndKind(string(e.apiVersion), string(e.kind))
		if list, err := Scheme.New(gvk); err == nil {
			if ok, err := into(data, gvk, list); ok {
				return list, err
			}
		}
	}
	list, _, err := codec.Decode(data, nil, nil)
	return list, err
}

var metadataGVK = metav1.SchemeGroupVersion.WithKind("PartialObjectMetadata")

func isMetadata(obj any) bool {
	_, ok := obj.(*metav1.PartialObjectMetadata)
	return ok
}

func accept[T Object](kind Kind[T]) string {
	if isMetadata(kind.New()) {
		return metadataAccept
	}
	return contentType(kind)
}

// contentType is the encoding of a kind's objects.
func contentType[T Object](kind Kind[T]) string {
	if kind.Custom {
		return customContentType
	}
	return ContentType
}

// decodeStatus parses a Status as in an ERROR event: in JSON from a watch of a custom kind, else in protobuf encoding.
func decodeStatus(custom bool, data []byte) (*metav1.Status, error) {
	if custom {
		status := &metav1.Status{}
		return status, json.Unmarshal(data, status)
	}
	obj, _, err := codec.Decode(data, nil, &metav1.Status{})
	if err != nil {
		return nil, err
	}
	status, ok := obj.(*metav1.Status)
	if !ok {
		return nil, fmt.Errorf("the data holds a %T, not a Status", obj)
	}
	return status, nil
}
