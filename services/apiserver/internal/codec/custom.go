package codec

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	kjson "sigs.k8s.io/json"

	"howdah.dev/services/apiserver/internal/plain"
	"howdah.dev/services/apiserver/internal/registry"
)

// decodeTimeout bounds a conversion that nobody waits for with a deadline of their own.
const decodeTimeout = 30 * time.Second

// maxViews is how many versions of a custom object are kept decoded.
const maxViews = 4

// In returns the item as a kind sees it: a custom kind has several versions, each a kind, which share their stored objects.
func (i *Item) In(kind *registry.Kind) *Item {
	if i.Kind == kind || kind.Custom == nil {
		return i
	}
	i.use()
	i.mu.Lock()
	defer i.mu.Unlock()
	stale := -1
	for n, v := range i.views {
		if v.Kind == kind {
			return v
		}
		if v.Kind.GVK == kind.GVK {
			stale = n
		}
	}
	view := &Item{
		Kind: kind, Key: i.Key, Namespace: i.Namespace, Name: i.Name,
		Revision: i.Revision, CreateRevision: i.CreateRevision,
	}
	view.bytes.Store(i.bytes.Load())
	if len(i.views) >= maxViews && stale < 0 {
		stale = 0
	}
	if stale >= 0 { // it is of a schema that has passed
		i.views = slices.Delete(slices.Clone(i.views), stale, stale+1)
	}
	i.views = append(i.views, view)
	return view
}

// Load returns the items as the kind sees them. What takes a webhook to convert is converted in one call.
func Load(ctx context.Context, kind *registry.Kind, items []*Item) []*Item {
	if kind.Custom == nil || len(items) == 0 {
		return items
	}
	views := make([]*Item, len(items))
	var missing []*Item
	for n, i := range items {
		views[n] = i.In(kind)
		if kind.Custom.Remote() && views[n].decoded.Load() == nil {
			missing = append(missing, views[n])
		}
	}
	if len(missing) == 0 {
		return views
	}
	values := make([][]byte, len(missing))
	for n, i := range missing {
		values[n] = i.Value()
	}
	objects, errs := kind.Custom.Decode(ctx, values)
	for n, i := range missing {
		i.settle(objects[n], errs[n])
	}
	return views
}

// LoadOne is Load for one item; nil stays nil.
func LoadOne(ctx context.Context, kind *registry.Kind, item *Item) *Item {
	if item == nil || kind.Custom == nil {
		return item
	}
	return Load(ctx, kind, []*Item{item})[0]
}

// decodeCustom decodes an item of a custom kind that was not loaded.
func (i *Item) decodeCustom() (registry.Object, error) {
	ctx, cancel := context.WithTimeout(context.Background(), decodeTimeout)
	defer cancel()
	objects, errs := i.Kind.Custom.Decode(ctx, [][]byte{i.Value()})
	return objects[0], errs[0]
}

// settle keeps what decoding the item gave. A conversion that failed is tried again by the next reader.
func (i *Item) settle(obj registry.Object, err error) *decoded {
	if err == nil {
		obj.SetResourceVersion(i.revisionText())
		i.share(obj)
	}
	d := i.newDecoded(obj, err)
	if err == nil || i.Kind.Custom == nil {
		i.decoded.Store(d)
	}
	return d
}

// NoProtobuf is the 406 of a custom object that is asked for as protobuf.
func NoProtobuf() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusNotAcceptable, Reason: metav1.StatusReasonNotAcceptable,
		Message: "only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf",
	}}
}

// For is the form in which a kind's objects are answered: custom objects have no protobuf form, so that the most wanted of what else is accepted is taken.
func (f Form) For(kind *registry.Kind, accept, pretty string, offer Offer) (Form, error) {
	if kind.Custom == nil || f.Media != Protobuf || f.As != Whole {
		return f, nil
	}
	plain := Form{Pretty: truth(pretty), Include: f.Include}
	for _, c := range parseAccept(accept) {
		if other, ok := c.form(plain, offer); ok && (other.Media != Protobuf || other.As != Whole) {
			return other, nil
		}
	}
	return f, NoProtobuf()
}

// decodeMap reads the JSON of a custom object; problems are its duplicate fields, where they are asked for.
func decodeMap(data []byte, u *unstructured.Unstructured, strict bool) (problems []error, err error) {
	object, ok := plain.Decode(data)
	switch {
	case ok:
	case strict:
		problems, err = kjson.UnmarshalStrict(data, &object)
	default:
		err = kjson.UnmarshalCaseSensitivePreserveInts(data, &object)
	}
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"apiVersion", "kind"} {
		if value, ok := object[name]; ok {
			if _, ok := value.(string); !ok {
				return nil, fmt.Errorf("json: cannot unmarshal %s into Go struct field .%s of type string", jsonName(value), name)
			}
		}
	}
	if meta, ok := object["metadata"]; ok && meta != nil {
		if _, ok := meta.(map[string]any); !ok {
			return nil, fmt.Errorf("json: cannot unmarshal %s into Go value of type v1.ObjectMeta", jsonName(meta))
		}
	}
	u.Object = object
	return problems, nil
}

// jsonName is what errors of decoding call the type of a JSON value.
func jsonName(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	case string:
		return "string"
	case bool:
		return "bool"
	}
	return "number"
}

// fit drops what the schema does not know, and names it where that is asked for.
func fit(kind *registry.Kind, obj runtime.Object, report bool) ([]error, error) {
	if kind == nil || kind.Custom == nil {
		return nil, nil
	}
	u, ok := obj.(registry.Object)
	if !ok {
		return nil, nil
	}
	unknown, err := kind.Custom.Fit(u, report)
	if err != nil {
		return nil, err
	}
	problems := make([]error, 0, len(unknown))
	for _, path := range unknown {
		problems = append(problems, fmt.Errorf("unknown field %q", path))
	}
	return problems, nil
}

// Meta returns the metadata of an object. That of a custom object is a copy.
func Meta(obj registry.Object) (*metav1.ObjectMeta, error) {
	if u, ok := obj.(*unstructured.Unstructured); ok {
		content, _ := u.Object["metadata"].(map[string]any)
		meta := &metav1.ObjectMeta{}
		return meta, runtime.DefaultUnstructuredConverter.FromUnstructured(content, meta)
	}
	holder, ok := obj.(metav1.ObjectMetaAccessor)
	if !ok {
		return nil, fmt.Errorf("%T has no metadata", obj)
	}
	meta, ok := holder.GetObjectMeta().(*metav1.ObjectMeta)
	if !ok {
		return nil, fmt.Errorf("%T has no plain metadata", obj)
	}
	return meta, nil
}
