package codec

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/fields"

	"howdah.dev/services/apiserver/internal/hollow"
	"howdah.dev/services/apiserver/internal/registry"
)

// Item is one stored object at one revision. It is shared between all readers: nothing in it may be changed. What is
// computed from it (the decoded object, its encodings) is computed when first asked for, and once.
type Item struct {
	Kind            *registry.Kind
	Key             string
	Namespace, Name string
	Revision        int64
	CreateRevision  int64
	bytes           atomic.Pointer[held]

	decoded atomic.Pointer[decoded]
	used    atomic.Bool   // what was computed, since the last Cool
	labels  atomic.Uint64 // marks of its labels, once they are known; see LabelMarks

	mu    sync.Mutex
	memos []memo
	views []*Item // the same object as other versions of a custom kind see it
}

// decoded is what decoding an item gives.
type decoded struct {
	object registry.Object
	err    error
	// fields returns the selectable fields.
	fields func() fields.Set
}

type memo struct {
	form  memoKey
	bytes []byte
}

// NewItem returns the item of a store entry.
func NewItem(kind *registry.Kind, key string, value []byte, revision, createRevision int64) *Item {
	namespace, name := kind.Split(key)
	i := &Item{
		Kind: kind, Key: key, Namespace: namespace, Name: name,
		Revision: revision, CreateRevision: createRevision,
	}
	i.bytes.Store(&held{envelope: value})
	return i
}

// At returns the same state at another revision: a deleted object is shown at the revision of its deletion.
func (i *Item) At(revision int64) *Item {
	out := &Item{
		Kind: i.Kind, Key: i.Key, Namespace: i.Namespace, Name: i.Name,
		Revision: revision, CreateRevision: i.CreateRevision,
	}
	out.bytes.Store(i.bytes.Load())
	if d := i.decoded.Load(); d != nil && d.err == nil && i.Kind.Custom == nil {
		if obj, ok := shallow(d.object); ok {
			obj.SetResourceVersion(out.revisionText())
			out.decoded.Store(out.newDecoded(obj, nil))
		}
	}
	return out
}

// shallow returns a copy of a typed object whose own fields may be set.
func shallow(obj registry.Object) (registry.Object, bool) {
	from := reflect.ValueOf(obj)
	if from.Kind() != reflect.Pointer || from.Elem().Kind() != reflect.Struct {
		return nil, false
	}
	to := reflect.New(from.Elem().Type())
	to.Elem().Set(from.Elem())
	copied, ok := to.Interface().(registry.Object)
	return copied, ok
}

// Object returns the decoded object with its resourceVersion. The caller must not change it.
func (i *Item) Object() (registry.Object, error) {
	d := i.decode()
	return d.object, d.err
}

func (i *Item) decode() *decoded {
	i.use()
	if d := i.decoded.Load(); d != nil {
		return d
	}
	if i.Kind.Custom != nil { // outside the lock: it may take a webhook
		return i.settle(i.decodeCustom())
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if d := i.decoded.Load(); d != nil {
		return d
	}
	return i.settle(i.decodeBody())
}

func (i *Item) revisionText() string { return strconv.FormatInt(i.Revision, 10) }

func (i *Item) newDecoded(obj registry.Object, err error) *decoded {
	return &decoded{object: obj, err: err, fields: sync.OnceValue(func() fields.Set { return i.Kind.SelectableFields(obj) })}
}

func (i *Item) use() {
	if !i.used.Load() { // most are used again and again: reading shares the cache line
		i.used.Store(true)
	}
}

// Cool forgets what was computed from the item where none of it was used since the last call, but for what a webhook has converted.
func (i *Item) Cool() {
	if i.used.Load() {
		i.used.Store(false)
	} else if i.warm() {
		i.Rest()
	}
}

func (i *Item) warm() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.decoded.Load() != nil || i.memos != nil || slices.ContainsFunc(i.views, func(v *Item) bool { return !v.converted() || v.encoded() })
}

// Trim forgets what was computed from the item; it is computed again when asked for.
func (i *Item) Trim() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.decoded.Store(nil)
	i.memos = nil
	i.views = nil
}

// Rest is Trim of an item that is the newest of its object: what a webhook has converted is kept, since the webhook may be away when it is asked for.
func (i *Item) Rest() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.decoded.Store(nil)
	i.memos = nil
	i.views = slices.DeleteFunc(slices.Clone(i.views), func(v *Item) bool { return !v.converted() })
	for _, v := range i.views {
		v.mu.Lock()
		v.memos = nil
		v.mu.Unlock()
	}
}

// encoded reports whether encodings of the item are kept.
func (i *Item) encoded() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.memos != nil
}

// converted reports whether the item is what a webhook has made of the stored object.
func (i *Item) converted() bool {
	return i.Kind.Custom != nil && i.Kind.Custom.Remote() && i.decoded.Load() != nil
}

// Copy returns a decoded object that the caller may change.
func (i *Item) Copy() (registry.Object, error) {
	obj, err := i.Object()
	if err != nil {
		return nil, err
	}
	return obj.DeepCopyObject().(registry.Object), nil
}

// memo returns what is kept for the key, or nil.
func (i *Item) memo(key memoKey) []byte {
	i.use()
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, m := range i.memos {
		if m.form == key {
			return m.bytes
		}
	}
	return nil
}

// memoize returns the bytes that make made the first time for the key.
func (i *Item) memoize(key memoKey, make func() ([]byte, error)) ([]byte, error) {
	if known := i.memo(key); known != nil {
		return known, nil
	}
	// Made outside the lock: two readers may both make it, which costs less than making readers of
	// other encodings wait.
	b, err := make()
	if err != nil {
		return nil, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, m := range i.memos {
		if m.form == key {
			return m.bytes, nil
		}
	}
	i.memos = append(i.memos, memo{key, b})
	return b, nil
}

// Encode returns the stored form of an object of the kind's storage version, without its resourceVersion. What that form does not
// keep, empty lists and maps, the object has not afterwards either: it is answered as it will be read.
func Encode(ctx context.Context, kind *registry.Kind, obj registry.Object) ([]byte, error) {
	if kind.Custom != nil {
		return kind.Custom.Encode(ctx, obj)
	}
	hollow.Drop(obj)
	revision := obj.GetResourceVersion()
	obj.SetResourceVersion("")
	b, err := seal(kind.GVK, obj)
	obj.SetResourceVersion(revision)
	return b, err
}

// Decode returns the object of stored bytes, without a resourceVersion.
func Decode(kind *registry.Kind, value []byte) (registry.Object, error) {
	raw, err := bodyOf(value)
	return decodeBody(kind, raw, err)
}

// decodeBody decodes what was found in an envelope, or fails with what finding it failed with.
func decodeBody(kind *registry.Kind, raw []byte, err error) (registry.Object, error) {
	if err != nil {
		return nil, fmt.Errorf("stored %s: %w", kind.GVK.Kind, err)
	}
	obj := kind.New()
	m, ok := obj.(message)
	if !ok {
		return nil, fmt.Errorf("stored %s: %w", kind.GVK.Kind, errNoProtobuf)
	}
	if err := m.Unmarshal(raw); err != nil {
		return nil, fmt.Errorf("stored %s: %w", kind.GVK.Kind, err)
	}
	obj.GetObjectKind().SetGroupVersionKind(kind.GVK)
	if kind.Restore != nil {
		kind.Restore(obj)
	}
	return obj, nil
}

// NewDecodedItem returns an item whose object is known already. The item owns the object from here on. Revision 0 leaves
// the object's resourceVersion as it is.
func NewDecodedItem(kind *registry.Kind, key string, value []byte, obj registry.Object, revision, createRevision int64) *Item {
	i := NewItem(kind, key, value, revision, createRevision)
	if revision > 0 {
		obj.SetResourceVersion(strconv.FormatInt(revision, 10))
	} else {
		i.Revision, _ = strconv.ParseInt(obj.GetResourceVersion(), 10, 64)
	}
	obj.GetObjectKind().SetGroupVersionKind(kind.GVK)
	i.share(obj)
	i.decoded.Store(i.newDecoded(obj, nil))
	return i
}

func (i *Item) share(obj registry.Object) {
	if i.Kind.Share == nil {
		return
	}
	if encoded, err := i.held().body(); err == nil {
		i.Kind.Share(obj, encoded)
	}
}
