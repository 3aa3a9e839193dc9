package codec

import (
	"encoding/json"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/services/apiserver/internal/registry"
)

// chunk is the size at which a piece of a list is handed on, in bytes. Pieces are at most this plus one object.
const chunk = 256 << 10

// bufferKept is the largest buffer that is used again, in bytes.
const bufferKept = 4 * chunk

// buffers are what lists were put together in: they would be half of what a short list leaves to the garbage collector.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// List writes the list of the items, in the version and form that is asked for, piece by piece to emit, which must not
// keep the piece. Items are not encoded again: their bytes are put one behind the other.
func List(res *registry.Resource, items []*Item, meta metav1.ListMeta, form Form, emit func([]byte) error) error {
	buffer := buffers.Get().(*[]byte)
	w := &writer{b: (*buffer)[:0], emit: emit, whole: form.Media == YAML || form.Pretty}
	defer func() {
		if cap(w.b) <= bufferKept {
			*buffer = w.b[:0]
			buffers.Put(buffer)
		}
	}()
	if err := list(w, res, items, meta, form); err != nil {
		return err
	}
	if !w.whole {
		return w.flush()
	}
	var err error
	if w.b, err = restyle(w.b, form); err != nil {
		return err
	}
	return w.flush()
}

func list(w *writer, res *registry.Resource, items []*Item, meta metav1.ListMeta, form Form) error {
	if form.As == Table {
		return tableList(w, res, items, meta, form)
	}
	gvk := res.GVK.GroupVersion().WithKind(res.ListKind)
	if form.As == PartialMetadata {
		gvk = partialKind(form.Beta)
		gvk.Kind = "PartialObjectMetadataList"
	}
	switch form.Media {
	case Protobuf:
		return protobufList(w, res, gvk, items, meta, form)
	case CBOR:
		return cborList(w, res, gvk, items, meta, form)
	}
	return jsonList(w, res, gvk, items, meta, form)
}

// customListMeta is the metadata of a list of custom objects, which always has a token, and as a map has its keys in order.
type customListMeta struct {
	Continue           string `json:"continue"`
	RemainingItemCount *int64 `json:"remainingItemCount,omitempty"`
	ResourceVersion    string `json:"resourceVersion,omitempty"`
}

// listMeta is how a list shows its metadata.
func listMeta(meta metav1.ListMeta, custom bool) any {
	if custom {
		return customListMeta{meta.Continue, meta.RemainingItemCount, meta.ResourceVersion}
	}
	return meta
}

// jsonListEnds are what stands before a list's items and behind them. A list of custom objects is a map, whose keys are in order.
func jsonListEnds(gvk schema.GroupVersionKind, meta metav1.ListMeta, custom bool) (head, tail []byte, err error) {
	if !custom {
		head, err = json.Marshal(struct {
			Kind       string          `json:"kind"`
			APIVersion string          `json:"apiVersion"`
			Metadata   metav1.ListMeta `json:"metadata"`
		}{gvk.Kind, gvk.GroupVersion().String(), meta})
		if err != nil {
			return nil, nil, err
		}
		return append(head[:len(head)-1], `,"items":`...), []byte("}\n"), nil
	}
	if head, err = json.Marshal(map[string]string{"apiVersion": gvk.GroupVersion().String()}); err != nil {
		return nil, nil, err
	}
	tail, err = json.Marshal(struct {
		Kind     string `json:"kind"`
		Metadata any    `json:"metadata"`
	}{gvk.Kind, listMeta(meta, true)})
	if err != nil {
		return nil, nil, err
	}
	tail[0] = ','
	return append(head[:len(head)-1], `,"items":`...), append(tail, '\n'), nil
}

func jsonList(w *writer, res *registry.Resource, gvk schema.GroupVersionKind, items []*Item, meta metav1.ListMeta, form Form) error {
	head, tail, err := jsonListEnds(gvk, meta, res.Kind.Custom != nil && form.As == Whole)
	if err != nil {
		return err
	}
	w.b = append(w.b, head...)
	if len(items) == 0 && form.As == PartialMetadata { // as Kubernetes answers it
		w.b = append(append(w.b, "null"...), tail...)
		return nil
	}
	w.b = append(w.b, '[')
	// Items of a typed list do not repeat their kind: it is cut off each one's front.
	front, err := json.Marshal(metav1.TypeMeta{Kind: res.GVK.Kind, APIVersion: res.GVK.GroupVersion().String()})
	if err != nil {
		return err
	}
	w.room(len(items) * 512)
	for n, item := range items {
		var b []byte
		if form.As == PartialMetadata {
			b, err = item.partialJSON(form.Beta)
		} else {
			b, err = item.json(res)
		}
		if err != nil {
			return err
		}
		if n > 0 {
			w.b = append(w.b, ',')
		}
		if form.As == PartialMetadata || res.Kind.Custom != nil { // custom objects keep their kind
			w.b = append(w.b, b[:len(b)-1]...)
		} else {
			w.b = append(append(w.b, '{'), b[len(front):len(b)-1]...)
		}
		if err := w.full(); err != nil {
			return err
		}
	}
	w.b = append(append(w.b, ']'), tail...)
	return nil
}

func protobufList(w *writer, res *registry.Resource, gvk schema.GroupVersionKind, items []*Item, meta metav1.ListMeta, form Form) error {
	type body struct {
		raw      []byte
		revision int64 // of the suffix; 0 is none
	}
	head := make([]byte, meta.Size())
	if _, err := meta.MarshalToSizedBuffer(head); err != nil {
		return err
	}
	bodies := make([]body, len(items))
	size := 1 + varintSize(len(head)) + len(head)
	for n, item := range items {
		var err error
		suffix := false
		if form.As == PartialMetadata {
			bodies[n].raw, err = item.partialRaw()
		} else {
			bodies[n].raw, suffix, err = item.raw(res)
		}
		if err != nil {
			return err
		}
		length := len(bodies[n].raw)
		if suffix {
			bodies[n].revision = item.Revision
			length += revisionSuffixSize(item.Revision)
		}
		size += 1 + varintSize(length) + length
	}
	w.room(size)
	w.b = appendRaw(appendHead(w.b, gvk), size)
	w.b = append(appendVarint(append(w.b, 1<<3|2), uint64(len(head))), head...)
	for _, b := range bodies {
		length := len(b.raw)
		if b.revision > 0 {
			length += revisionSuffixSize(b.revision)
		}
		w.b = append(appendVarint(append(w.b, 2<<3|2), uint64(length)), b.raw...)
		if b.revision > 0 {
			w.b = revisionSuffix(w.b, b.revision)
		}
		if err := w.full(); err != nil {
			return err
		}
	}
	w.b = append(w.b, tail[:]...)
	return nil
}

// writer gathers bytes and hands them on by the chunk, or holds all of them where the whole is needed at the end.
type writer struct {
	b     []byte
	whole bool
	emit  func([]byte) error
}

// room makes room for about so many bytes to come, but no more than are handed on at once.
func (w *writer) room(size int) {
	w.b = slices.Grow(w.b, min(size, chunk+chunk/8))
}

func (w *writer) full() error {
	if w.whole || len(w.b) < chunk {
		return nil
	}
	return w.flush()
}

func (w *writer) flush() error {
	for rest := w.b; len(rest) > 0; {
		n := min(len(rest), 2*chunk)
		if err := w.emit(rest[:n]); err != nil {
			return err
		}
		rest = rest[n:]
	}
	w.b = w.b[:0]
	return nil
}
