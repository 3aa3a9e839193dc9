// Package view shows a write to those who are configured through the API, webhooks and CEL policies: in whatever served version
// their rules name, as objects, as maps or as JSON.
package view

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	kjson "sigs.k8s.io/json"

	"howdah.dev/services/apiserver/internal/admission"
	"howdah.dev/services/apiserver/internal/registry"
)

var scaleGVK = autoscalingv1.SchemeGroupVersion.WithKind("Scale")

// Request is a write and its versions, which are made when somebody asks for them. It is for one goroutine at a time.
type Request struct {
	*admission.Attributes
	table    *registry.Table
	versions map[*registry.Resource]*Version
	others   []*registry.Resource
}

// New returns the write as it stands.
func New(a *admission.Attributes, table *registry.Table) *Request {
	return &Request{Attributes: a, table: table, versions: map[*registry.Resource]*Version{}}
}

// Changed makes the request forget its versions: the object has changed.
func (r *Request) Changed() { clear(r.versions) }

// Where is the namespace of the write. A Namespace is said to be in itself.
func (r *Request) Where() string {
	if r.Is("", "namespaces") {
		return r.Name
	}
	return r.Namespace
}

// Equivalents are the served versions of the same objects, that of the request first.
func (r *Request) Equivalents() []*registry.Resource {
	if r.others != nil {
		return r.others
	}
	r.others = []*registry.Resource{r.Resource}
	kind := r.Resource.Kind
	for _, other := range r.table.Resources() {
		if other == r.Resource || other.GVR == r.Resource.GVR {
			continue
		}
		same := other.Kind == kind
		if kind.Custom != nil {
			same = other.Kind.Custom != nil && other.GVR.GroupResource() == r.Resource.GVR.GroupResource()
		}
		if same {
			r.others = append(r.others, other)
		}
	}
	return r.others
}

// Version is a write in one version.
type Version struct {
	// Resource is what the write is to, in this version; Kind that of Object and Old, which for some subresources is another kind.
	Resource schema.GroupVersionResource
	Kind     schema.GroupVersionKind
	// Object and Old are read-only; nil where there is none.
	Object, Old runtime.Object

	request *Request
	res     *registry.Resource
	whole   bool // Object is the object that the write changes, and not a Scale or the like
	maps    [2]*unstructured.Unstructured
	raws    [2][]byte
	rawErrs [2]error
	hasRaw  [2]bool
}

// As returns the write in a version that Equivalents has.
func (r *Request) As(ctx context.Context, res *registry.Resource) (*Version, error) {
	if v := r.versions[res]; v != nil {
		return v, nil
	}
	v := &Version{Resource: res.GVR, Kind: res.GVK, request: r, res: res}
	if err := v.fill(ctx); err != nil {
		return nil, err
	}
	r.versions[res] = v
	return v, nil
}

func (v *Version) fill(ctx context.Context) (err error) {
	a := v.request.Attributes
	switch {
	case a.Operation == admission.Connect:
		v.Object, v.Kind, err = connectOptions(a)
		return err
	case a.Body != nil:
		if a.Complete != nil {
			if err := a.Complete(); err != nil {
				return err
			}
			a.Complete = nil
		}
		if v.Kind, err = kindOf(a.Body); err != nil {
			return err
		}
		v.Object = a.Body
		return nil
	case a.Subresource == "scale" && a.Resource.Kind.Scale != nil:
		v.Kind = scaleGVK
		v.Object, v.Old = scaleOf(a, a.Object, a.Tracked.Object), scaleOf(a, a.Old, a.Tracked.Old)
		return nil
	}
	v.whole = true
	if v.Object, err = v.convert(ctx, a.Object); err != nil {
		return err
	}
	v.Old, err = v.convert(ctx, a.Old)
	return err
}

// convert returns an object in the version, with its kind set; nil stays nil.
func (v *Version) convert(ctx context.Context, obj registry.Object) (runtime.Object, error) {
	if obj == nil || reflect.ValueOf(obj).IsNil() {
		return nil, nil
	}
	var out registry.Object
	var err error
	if custom := v.res.Kind.Custom; custom != nil {
		out, err = custom.Convert(ctx, obj)
	} else {
		out, err = v.res.FromStored(obj)
	}
	if err != nil {
		return nil, err
	}
	if out.GetObjectKind().GroupVersionKind() != v.res.GVK {
		out = out.DeepCopyObject().(registry.Object)
		out.GetObjectKind().SetGroupVersionKind(v.res.GVK)
	}
	return out, nil
}

func kindOf(obj runtime.Object) (schema.GroupVersionKind, error) {
	if gvk := obj.GetObjectKind().GroupVersionKind(); !gvk.Empty() {
		return gvk, nil
	}
	gvks, _, err := scheme.Scheme.ObjectKinds(obj)
	if err != nil {
		return schema.GroupVersionKind{}, fmt.Errorf("kind of a request's body: %w", err)
	}
	return gvks[0], nil
}

func scaleOf(a *admission.Attributes, obj registry.Object, managed []metav1.ManagedFieldsEntry) runtime.Object {
	if obj == nil || reflect.ValueOf(obj).IsNil() {
		return nil
	}
	spec, status, selector := a.Resource.Kind.Scale.Get(obj)
	return &autoscalingv1.Scale{
		TypeMeta: metav1.TypeMeta{APIVersion: scaleGVK.GroupVersion().String(), Kind: scaleGVK.Kind},
		ObjectMeta: metav1.ObjectMeta{
			Name: obj.GetName(), Namespace: obj.GetNamespace(), UID: obj.GetUID(), ResourceVersion: obj.GetResourceVersion(),
			CreationTimestamp: obj.GetCreationTimestamp(), ManagedFields: managed,
		},
		Spec: autoscalingv1.ScaleSpec{Replicas: spec}, Status: autoscalingv1.ScaleStatus{Replicas: status, Selector: selector},
	}
}

// side chooses the object or the old one.
func (v *Version) side(old bool) (int, runtime.Object) {
	if old {
		return 1, v.Old
	}
	return 0, v.Object
}

// Map returns the object, or the old one, as a map that shares what it can with it: read-only. nil where there is none.
func (v *Version) Map(old bool) (*unstructured.Unstructured, error) {
	i, obj := v.side(old)
	if obj == nil || v.maps[i] != nil {
		return v.maps[i], nil
	}
	if u, ok := obj.(*unstructured.Unstructured); ok {
		v.maps[i] = u
		return u, nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, fmt.Errorf("%s as a map: %w", v.Kind, err)
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(v.Kind)
	v.maps[i] = u
	return u, nil
}

// JSON returns the object, or the old one, as JSON; nil where there is none.
func (v *Version) JSON(old bool) ([]byte, error) {
	i, obj := v.side(old)
	if obj == nil || v.hasRaw[i] {
		return v.raws[i], v.rawErrs[i]
	}
	v.hasRaw[i] = true
	if obj.GetObjectKind().GroupVersionKind() != v.Kind {
		obj = obj.DeepCopyObject()
		obj.GetObjectKind().SetGroupVersionKind(v.Kind)
	}
	v.raws[i], v.rawErrs[i] = json.Marshal(obj)
	return v.raws[i], v.rawErrs[i]
}

// Mutable reports whether Replace can change the write.
func (v *Version) Mutable() bool {
	return v.Object != nil && (v.whole || v.Kind == scaleGVK || v.posted())
}

// posted reports whether the object is a body that is posted to another.
func (v *Version) posted() bool { return v.request.Body != nil }

// Replace makes the write one of another object, given as JSON of the version. It reports whether that changes anything.
func (v *Version) Replace(ctx context.Context, data []byte) (bool, error) {
	a := v.request.Attributes
	if v.posted() {
		return v.replaceBody(data)
	}
	if !v.whole {
		scale := &autoscalingv1.Scale{}
		if err := json.Unmarshal(data, scale); err != nil {
			return false, err
		}
		was, _, _ := a.Resource.Kind.Scale.Get(a.Object)
		if scale.Spec.Replicas == was {
			return false, nil
		}
		if err := a.Resource.Kind.Scale.Set(a.Object, scale.Spec.Replicas); err != nil {
			return false, err
		}
		v.request.Changed()
		return true, nil
	}
	made, err := v.decode(data)
	if err != nil {
		return false, err
	}
	stored, err := v.stored(ctx, made)
	if err != nil {
		return false, err
	}
	if stored.GetNamespace() == "" {
		stored.SetNamespace(a.Object.GetNamespace())
	}
	if stored.GetNamespace() != a.Object.GetNamespace() {
		return false, apierrors.NewBadRequest("the namespace of the provided object does not match the namespace sent on the request")
	}
	if sameManagers(stored.GetManagedFields(), a.Object.GetManagedFields()) { // however they are written
		stored.SetManagedFields(a.Object.GetManagedFields())
	}
	if reflect.DeepEqual(stored, a.Object) {
		return false, nil
	}
	reflect.ValueOf(a.Object).Elem().Set(reflect.ValueOf(stored).Elem())
	v.request.Changed()
	return true, nil
}

// sameManagers compares managed fields, whose fields may be spaced differently.
func sameManagers(a, b []metav1.ManagedFieldsEntry) bool {
	return slices.EqualFunc(a, b, func(x, y metav1.ManagedFieldsEntry) bool {
		return x.Time.Equal(y.Time) && x.Manager == y.Manager && x.Operation == y.Operation && x.APIVersion == y.APIVersion && x.FieldsType == y.FieldsType &&
			x.Subresource == y.Subresource && bytes.Equal(fieldsOf(&x), fieldsOf(&y))
	})
}

// fieldsOf are the fields of an entry without spaces.
func fieldsOf(e *metav1.ManagedFieldsEntry) []byte {
	if e.FieldsV1 == nil {
		return nil
	}
	return compact(e.FieldsV1.GetRawBytes())
}

func compact(data []byte) []byte {
	var out bytes.Buffer
	if json.Compact(&out, data) != nil {
		return data
	}
	return out.Bytes()
}

// replaceBody makes the body another one of the same kind.
func (v *Version) replaceBody(data []byte) (bool, error) {
	body := reflect.ValueOf(v.request.Body).Elem()
	made := reflect.New(body.Type())
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, made.Interface()); err != nil {
		return false, err
	}
	if reflect.DeepEqual(made.Elem().Interface(), body.Interface()) {
		return false, nil
	}
	body.Set(made.Elem())
	v.request.Changed()
	return true, nil
}

// Check fails where JSON is not strictly an object of the version: of another form, or with fields that the kind does not have. Custom
// kinds may have what they do not know.
func (v *Version) Check(data []byte) error {
	var obj any = v.res.New()
	_, custom := obj.(*unstructured.Unstructured)
	switch {
	case v.posted():
		obj = reflect.New(reflect.TypeOf(v.request.Body).Elem()).Interface()
	case custom || !v.whole:
		return nil
	}
	unknown, err := kjson.UnmarshalStrict(data, obj)
	if err == nil && len(unknown) > 0 {
		err = runtime.NewStrictDecodingError(unknown)
	}
	return err
}

// decode reads an object of the version. What the schema of a custom one does not know, or nulls that it does not allow, stay in it, so that
// those who validate see them; they go when it is read.
func (v *Version) decode(data []byte) (registry.Object, error) {
	if err := v.sameKind(data); err != nil {
		return nil, err
	}
	obj := v.res.New()
	if u, ok := obj.(*unstructured.Unstructured); ok {
		if err := u.UnmarshalJSON(data); err != nil {
			return nil, err
		}
		return v.res.Kind.Custom.Settle(u)
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(data, obj); err != nil {
		return nil, err
	}
	obj.GetObjectKind().SetGroupVersionKind(v.res.GVK)
	return obj, nil
}

// sameKind refuses what is of another kind than the version's, in Kubernetes' words, which are about its Go types.
func (v *Version) sameKind(data []byte) error {
	if v.begins(data) {
		return nil
	}
	var is metav1.TypeMeta
	if err := json.Unmarshal(data, &is); err != nil {
		return nil // of which decoding tells
	}
	gvk := is.GroupVersionKind()
	if gvk == v.res.GVK {
		return nil
	}
	other, err := scheme.Scheme.New(gvk)
	if err != nil {
		return fmt.Errorf("no kind %q is registered for version %q in scheme \"pkg/runtime/scheme.go:111\"", gvk.Kind, gvk.GroupVersion())
	}
	if err := json.Unmarshal(data, other); err != nil {
		return err
	}
	internal, _, _ := strings.Cut(v.res.GVK.Group, ".")
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError,
		Message: fmt.Sprintf("converting (%s) to (%s.%s): unknown conversion", strings.TrimPrefix(fmt.Sprintf("%T", other), "*"), cmp.Or(internal, "core"), v.res.GVK.Kind),
	}}
}

// begins reports whether an object begins as JSON makes it of the version's: what only has other fields changed since does.
func (v *Version) begins(data []byte) bool {
	rest, ok := bytes.CutPrefix(data, []byte(`{"kind":"`+v.res.GVK.Kind+`",`))
	return ok && bytes.HasPrefix(rest, []byte(`"apiVersion":"`+v.res.GVK.GroupVersion().String()+`",`))
}

// stored is an object of the version as the request has it, defaulted.
func (v *Version) stored(ctx context.Context, obj registry.Object) (registry.Object, error) {
	v.res.Default(obj)
	kind := v.request.Resource.Kind
	if kind.Custom != nil {
		return kind.Custom.Convert(ctx, obj)
	}
	out, err := v.res.ToStored(obj)
	if err != nil {
		return nil, err
	}
	out.GetObjectKind().SetGroupVersionKind(kind.GVK)
	return out, nil
}
