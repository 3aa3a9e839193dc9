package codec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"howdah.dev/services/apiserver/internal/plain"
	"howdah.dev/services/apiserver/internal/registry"
)

// memoKey names an encoding that is kept with an item: 8 bits of version, then the media and the form.
type memoKey uint16

const (
	memoJSON     memoKey = 0
	memoProtobuf memoKey = 1
	memoRaw      memoKey = 2
	memoPartial  memoKey = 3
)

func keyOf(res *registry.Resource, what memoKey) memoKey { return memoKey(res.Index)<<8 | what }

// partialKind is the GVK of metadata-only objects.
func partialKind(beta bool) schema.GroupVersionKind {
	version := "v1"
	if beta {
		version = "v1beta1"
	}
	return schema.GroupVersionKind{Group: metav1.GroupName, Version: version, Kind: "PartialObjectMetadata"}
}

// Object encodes an item in the version and form that is asked for. The bytes are shared: they must not be changed.
func (i *Item) Encoded(res *registry.Resource, form Form) ([]byte, error) {
	switch form.As {
	case Table:
		meta := metav1.ListMeta{ResourceVersion: i.revisionText()}
		if i.Revision == 0 { // nothing was stored
			meta.ResourceVersion = ""
		}
		t, err := newTable(res, []*Item{i}, meta, form, true)
		if err != nil {
			return nil, err
		}
		return finish(t, form)
	case PartialMetadata:
		if form.Media == Protobuf {
			raw, err := i.partialRaw()
			if err != nil {
				return nil, err
			}
			return wrap(partialKind(form.Beta), raw), nil
		}
		if form.Media == CBOR {
			return i.partialCBOR(form.Beta)
		}
		b, err := i.partialJSON(form.Beta)
		if err != nil {
			return nil, err
		}
		return restyle(b, form)
	case PartialMetadataList:
		if res.Kind.Custom != nil {
			return nil, errNoList
		}
		return nil, notOfObject(goType(res, res.GVK.Kind))
	}
	switch form.Media {
	case Protobuf:
		return i.protobuf(res)
	case CBOR: // asked for too seldom to be kept
		return i.cbor(res)
	}
	b, err := i.json(res)
	if err != nil {
		return nil, err
	}
	return restyle(b, form)
}

// json returns the object with its kind and apiVersion first and a newline at the end.
func (i *Item) json(res *registry.Resource) ([]byte, error) {
	return i.memoize(keyOf(res, memoJSON), func() ([]byte, error) {
		if b, ok := i.answer(nil); ok {
			return b, nil
		}
		obj, err := i.served(res)
		if err != nil {
			return nil, err
		}
		return encodeJSON(obj)
	})
}

// passingJSON returns what json does, and keeps neither that nor the decoded object. The bytes are good until the buffer is used again.
func (i *Item) passingJSON(res *registry.Resource, buffer *bytes.Buffer) ([]byte, error) {
	if known := i.memo(keyOf(res, memoJSON)); known != nil {
		return known, nil
	}
	buffer.Reset()
	if b, ok := i.answer(buffer.AvailableBuffer()); ok {
		buffer.Write(b)
		return buffer.Bytes(), nil
	}
	d := i.decoded.Load()
	if d == nil && i.Kind.Custom != nil {
		d = i.decode()
	}
	if d == nil {
		obj, err := i.decodeBody()
		if err == nil {
			obj.SetResourceVersion(i.revisionText())
		}
		d = &decoded{object: obj, err: err}
	}
	obj, err := inVersion(res, d.object, d.err)
	if err != nil {
		return nil, err
	}
	if u, ok := obj.(*unstructured.Unstructured); ok && u.Object["kind"] != nil {
		if b, ok := plain.Append(buffer.AvailableBuffer(), u.Object, true); ok {
			buffer.Write(append(b, '\n'))
			return buffer.Bytes(), nil
		}
	}
	if err := json.NewEncoder(buffer).Encode(obj); err != nil {
		return nil, fmt.Errorf("encode %T: %w", obj, err)
	}
	return buffer.Bytes(), nil
}

// answer appends what json returns for a custom object that was not decoded, where no decoding is needed for it.
func (i *Item) answer(to []byte) ([]byte, bool) {
	if i.Kind.Custom == nil || i.decoded.Load() != nil {
		return to, false
	}
	b, ok := i.Kind.Custom.Answer(to, i.Value(), i.revisionText())
	if !ok {
		return to, false
	}
	return append(b, '\n'), true
}

// served returns the decoded object in the version of the resource.
func (i *Item) served(res *registry.Resource) (registry.Object, error) {
	obj, err := i.Object()
	return inVersion(res, obj, err)
}

func inVersion(res *registry.Resource, obj registry.Object, err error) (registry.Object, error) {
	if err != nil || res.Version == nil {
		return obj, err
	}
	obj, err = res.FromStored(obj)
	if err == nil {
		obj.GetObjectKind().SetGroupVersionKind(res.GVK)
	}
	return obj, err
}

// protobuf returns the object in its envelope.
func (i *Item) protobuf(res *registry.Resource) ([]byte, error) {
	if res.Kind.Custom != nil {
		return nil, NoProtobuf()
	}
	if res.Version == nil {
		return i.serve()
	}
	return i.memoize(keyOf(res, memoProtobuf), func() ([]byte, error) {
		obj, err := i.served(res)
		if err != nil {
			return nil, err
		}
		return seal(res.GVK, obj)
	})
}

// raw returns the protobuf body without envelope; suffix reports that the revision's suffix is not in it yet.
func (i *Item) raw(res *registry.Resource) (b []byte, suffix bool, err error) {
	if res.Kind.Custom != nil {
		return nil, false, NoProtobuf()
	}
	if res.Version == nil {
		b, err := i.held().body()
		return b, true, err
	}
	b, err = i.memoize(keyOf(res, memoRaw), func() ([]byte, error) {
		obj, err := i.served(res)
		if err != nil {
			return nil, err
		}
		m, ok := obj.(message)
		if !ok {
			return nil, errNoProtobuf
		}
		b := make([]byte, m.Size())
		_, err = m.MarshalToSizedBuffer(b)
		return b, err
	})
	return b, false, err
}

// partialRaw returns the body of a PartialObjectMetadata: the metadata fields of the stored body as they are.
func (i *Item) partialRaw() ([]byte, error) {
	if i.Kind.Custom != nil {
		p, err := i.partial(false)
		if err != nil {
			return nil, err
		}
		return p.Marshal()
	}
	raw, err := i.held().body()
	if err != nil {
		return nil, err
	}
	b := make([]byte, 0, 512)
	err = eachField(raw, func(tag uint64, value []byte) error {
		if tag == 1<<3|2 {
			b = append(appendVarint(append(b, 1<<3|2), uint64(len(value))), value...)
		}
		return nil
	})
	if err == nil && i.Kind.Hidden != "" {
		if b, err = withoutHidden(i.Kind, b); err != nil {
			return nil, err
		}
	}
	return revisionSuffix(b, i.Revision), err
}

// withoutHidden is the body of a PartialObjectMetadata without what the kind hides.
func withoutHidden(kind *registry.Kind, b []byte) ([]byte, error) {
	p := &metav1.PartialObjectMetadata{}
	if err := p.Unmarshal(b); err != nil {
		return nil, err
	}
	hide(kind, &p.ObjectMeta)
	return p.Marshal()
}

func (i *Item) partialJSON(beta bool) ([]byte, error) {
	key := memoPartial
	if beta {
		key |= 1 << 4
	}
	return i.memoize(key, func() ([]byte, error) {
		p, err := i.partial(beta)
		if err != nil {
			return nil, err
		}
		return encodeJSON(p)
	})
}

// Metadata returns the object's metadata alone, with its resourceVersion. What it consists of is shared and must not be changed.
func (i *Item) Metadata(beta bool) (*metav1.PartialObjectMetadata, error) { return i.partial(beta) }

func (i *Item) partial(beta bool) (*metav1.PartialObjectMetadata, error) {
	if i.Kind.Custom == nil && i.decoded.Load() == nil {
		// The rest of the object need not be decoded for it, which would leave all of it in memory.
		raw, err := i.partialRaw()
		if err != nil {
			return nil, err
		}
		p := &metav1.PartialObjectMetadata{}
		if err := p.Unmarshal(raw); err != nil {
			return nil, err
		}
		p.SetGroupVersionKind(partialKind(beta))
		return p, nil
	}
	if b, ok := i.answer(nil); ok {
		p := &metav1.PartialObjectMetadata{}
		if err := kjson.UnmarshalCaseSensitivePreserveInts(b, p); err != nil {
			return nil, err
		}
		p.SetGroupVersionKind(partialKind(beta))
		return p, nil
	}
	obj, err := i.Object()
	if err != nil {
		return nil, err
	}
	p, err := Partial(obj, beta)
	if err == nil {
		hide(i.Kind, &p.ObjectMeta)
	}
	return p, err
}

// Partial returns the metadata of an object. It shares the object's maps and slices.
func Partial(obj registry.Object, beta bool) (*metav1.PartialObjectMetadata, error) {
	meta, err := Meta(obj)
	if err != nil {
		return nil, err
	}
	p := &metav1.PartialObjectMetadata{ObjectMeta: *meta}
	p.SetGroupVersionKind(partialKind(beta))
	return p, nil
}

// Any encodes an object that is not in the store: a Status, a Scale, a TokenRequest. Where the form asks for protobuf and
// the type has none, it is JSON; the content type that is returned says so.
func Any(obj runtime.Object, gvk schema.GroupVersionKind, form Form) (b []byte, contentType string, err error) {
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	if form.Media == Protobuf {
		if b, err = seal(gvk, obj); err == nil {
			return b, form.ContentType(), nil
		}
		form.Media = JSON
	}
	b, err = finish(obj, form)
	return b, form.ContentType(), err
}

func finish(obj any, form Form) ([]byte, error) {
	if form.Media == CBOR {
		return encodeCBOR(obj)
	}
	b, err := encodeJSON(obj)
	if err != nil {
		return nil, err
	}
	return restyle(b, form)
}

func encodeJSON(obj any) ([]byte, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		if b, ok := plain.Append(make([]byte, 0, 4096), u.Object, true); ok && u.Object["kind"] != nil {
			return slices.Clip(append(b, '\n')), nil
		}
	}
	var buffer bytes.Buffer
	buffer.Grow(2048)
	if err := json.NewEncoder(&buffer).Encode(obj); err != nil {
		return nil, fmt.Errorf("encode %T: %w", obj, err)
	}
	return buffer.Bytes(), nil
}

// restyle makes YAML, or indented JSON, which ends without a newline, of JSON.
func restyle(b []byte, form Form) ([]byte, error) {
	if form.Media == YAML {
		return yaml.JSONToYAML(b)
	}
	if !form.Pretty {
		return b, nil
	}
	var buffer bytes.Buffer
	if err := json.Indent(&buffer, bytes.TrimSuffix(b, []byte("\n")), "", "  "); err != nil {
		return nil, err
	}
	return buffer.Bytes(), nil
}

// wrap puts a protobuf body in an envelope.
func wrap(gvk schema.GroupVersionKind, raw []byte) []byte {
	b := make([]byte, 0, len(raw)+96)
	b = appendRaw(appendHead(b, gvk), len(raw))
	return append(append(b, raw...), tail[:]...)
}
