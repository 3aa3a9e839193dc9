package codec

import (
	"encoding/binary"
	"fmt"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"

	"howdah.dev/services/apiserver/internal/registry"
)

// selfDescribed is the tag by which a body is known as CBOR (RFC 8949, section 3.4.6); Kubernetes begins every one with it.
const selfDescribed = "\xd9\xd9\xf7"

// Heads of CBOR items (RFC 8949, section 3): the major type of arrays, the information that a length of 4 bytes follows, and a map of 4 pairs.
const (
	cborArray  = 4 << 5
	cborLong   = 26
	cborMapOf4 = 5<<5 | 4
)

// encodeCBOR encodes an object as Kubernetes does.
func encodeCBOR(obj any) ([]byte, error) {
	return appendCBOR([]byte(selfDescribed), obj)
}

// appendCBOR appends a value without the tag.
func appendCBOR(b []byte, value any) ([]byte, error) {
	if u, ok := value.(runtime.Unstructured); ok {
		value = u.UnstructuredContent()
	}
	item, err := direct.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", value, err)
	}
	return append(b, item...), nil
}

// cbor encodes an item in the version of the resource.
func (i *Item) cbor(res *registry.Resource) ([]byte, error) {
	obj, err := i.served(res)
	if err != nil {
		return nil, err
	}
	return encodeCBOR(obj)
}

func (i *Item) partialCBOR(beta bool) ([]byte, error) {
	p, err := i.partial(beta)
	if err != nil {
		return nil, err
	}
	return encodeCBOR(p)
}

// cborList writes a list as the map that it is, its keys in the order that Kubernetes' deterministic encoding gives them.
func cborList(w *writer, res *registry.Resource, gvk schema.GroupVersionKind, items []*Item, meta metav1.ListMeta, form Form) error {
	add := func(values ...any) (err error) {
		for _, v := range values {
			if w.b, err = appendCBOR(w.b, v); err != nil {
				return err
			}
		}
		return nil
	}
	w.b = append(append(w.b, selfDescribed...), cborMapOf4)
	if err := add("kind", gvk.Kind, "items"); err != nil {
		return err
	}
	if len(items) == 0 && form.As == PartialMetadata {
		return add(nil, "metadata", meta, "apiVersion", gvk.GroupVersion().String())
	}
	w.b = binary.BigEndian.AppendUint32(append(w.b, cborArray|cborLong), uint32(len(items)))
	for _, item := range items {
		one, err := item.listed(res, form)
		if err != nil {
			return err
		}
		if err := add(one); err != nil {
			return err
		}
		if err := w.full(); err != nil {
			return err
		}
	}
	return add("metadata", listMeta(meta, res.Kind.Custom != nil && form.As == Whole), "apiVersion", gvk.GroupVersion().String())
}

// listed returns what stands for the item in a list: items of a typed list do not repeat their kind.
func (i *Item) listed(res *registry.Resource, form Form) (registry.Object, error) {
	if form.As == PartialMetadata {
		return i.partial(form.Beta)
	}
	obj, err := i.served(res)
	if err != nil || res.Kind.Custom != nil {
		return obj, err
	}
	shallow := reflect.New(reflect.TypeOf(obj).Elem())
	shallow.Elem().Set(reflect.ValueOf(obj).Elem())
	bare := shallow.Interface().(registry.Object)
	bare.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	return bare, nil
}
