package custom

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	structuralschema "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"

	"howdah.dev/services/apiserver/internal/plain"
	"howdah.dev/services/apiserver/internal/registry"
)

// Decode implements registry.Custom.
func (v *version) Decode(ctx context.Context, values [][]byte) ([]registry.Object, []error) {
	objects, errs := make([]registry.Object, len(values)), make([]error, len(values))
	var foreign []*unstructured.Unstructured
	var places []int
	for n, value := range values {
		u, err := v.read1(value)
		if err != nil {
			errs[n] = err
			continue
		}
		if v.raw || u.GetAPIVersion() == v.gvk().GroupVersion().String() {
			objects[n] = u
			continue
		}
		foreign, places = append(foreign, u), append(places, n)
	}
	if len(foreign) == 0 {
		return objects, errs
	}
	converted, err := v.convert(ctx, foreign, true)
	for i, n := range places {
		if err != nil {
			errs[n] = err
			continue
		}
		objects[n] = converted[i]
	}
	return objects, errs
}

// read1 reads a stored value in the version that it is stored in, and applies that version's schema as it is now.
func (v *version) read1(value []byte) (*unstructured.Unstructured, error) {
	object, ok := plain.Decode(value)
	if !ok {
		if err := kjson.UnmarshalCaseSensitivePreserveInts(value, &object); err != nil {
			return nil, fmt.Errorf("stored %s: %w", v.names.Kind, err)
		}
	}
	u := &unstructured.Unstructured{Object: object}
	gv, err := schema.ParseGroupVersion(u.GetAPIVersion())
	if err != nil {
		return nil, fmt.Errorf("stored %s: %w", v.names.Kind, err)
	}
	from := v.versions[gv.Version]
	if from == nil {
		// The version is not in the definition any more, although objects are stored in it.
		return nil, Failed(fmt.Errorf("request to convert CR from an invalid group/version: %s", gv))
	}
	c, err := from.schema()
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	switch d := c.shape.object(u.Object); {
	case d&unpruned != 0:
		v.cut(u, c.structural)
		fallthrough
	case d&undefaulted != 0:
		defaulting.Default(u.Object, c.structural)
	}
	return u, nil
}

// Failed is the answer to a request whose object cannot be converted: a 500 that gives no reason but the text.
func Failed(err error) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusInternalServerError, Message: err.Error()}}
}

// cut drops what a schema does not know, and nulls where it allows none.
func (v *version) cut(u *unstructured.Unstructured, s *structuralschema.Structural) {
	if v.preserve || s == nil {
		return
	}
	apiVersion, kind, meta := u.Object["apiVersion"], u.Object["kind"], u.Object["metadata"]
	pruning.Prune(u.Object, s, true)
	defaulting.PruneNonNullableNullsWithoutDefaults(u.Object, s)
	u.Object["apiVersion"], u.Object["kind"], u.Object["metadata"] = apiVersion, kind, meta
}

// convert returns objects of other versions in this one, without what its schema does not know if they are to be cut. None of them is changed.
func (v *version) convert(ctx context.Context, in []*unstructured.Unstructured, cut bool) ([]*unstructured.Unstructured, error) {
	c, err := v.schema()
	if err != nil {
		return nil, apierrors.NewInternalError(err)
	}
	out := make([]*unstructured.Unstructured, len(in))
	if v.converter == nil {
		for n, u := range in {
			out[n] = &unstructured.Unstructured{Object: maps.Clone(u.Object)}
			if !v.preserve && cut { // what is cut below must not be cut from the original
				out[n] = u.DeepCopy()
			}
			out[n].SetGroupVersionKind(v.gvk())
		}
	} else if out, err = v.converter.Convert(ctx, in, v.gvk().GroupVersion()); err != nil {
		return nil, err
	}
	for _, u := range out {
		if cut {
			v.cut(u, c.structural)
		}
	}
	return out, nil
}

// Convert implements registry.Custom.
func (v *version) Convert(ctx context.Context, obj registry.Object) (registry.Object, error) {
	return v.convertOne(ctx, obj, true)
}

// ConvertWhole implements registry.Custom.
func (v *version) ConvertWhole(ctx context.Context, obj registry.Object, to schema.GroupVersionKind) (registry.Object, error) {
	other := v.versions[to.Version]
	if other == nil || other.gvk() != to {
		return nil, fmt.Errorf("%s has no version %s", v.gvk().GroupKind(), to)
	}
	return other.convertOne(ctx, obj, false)
}

func (v *version) convertOne(ctx context.Context, obj registry.Object, cut bool) (registry.Object, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("%T is no custom object", obj)
	}
	if u.GetAPIVersion() == v.gvk().GroupVersion().String() {
		return u, nil
	}
	out, err := v.convert(ctx, []*unstructured.Unstructured{u}, cut)
	if err != nil {
		return nil, err
	}
	return out[0], nil
}

// Encode implements registry.Custom.
func (v *version) Encode(ctx context.Context, obj registry.Object) ([]byte, error) {
	stored, err := v.versions[v.storage].Convert(ctx, obj)
	if err != nil {
		return nil, err
	}
	u, ok := stored.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("%T is no custom object", stored)
	}
	content := u.Object
	if meta, ok := content["metadata"].(map[string]any); ok && meta["resourceVersion"] != nil {
		meta = maps.Clone(meta)
		delete(meta, "resourceVersion")
		content = maps.Clone(content)
		content["metadata"] = meta
	}
	if b, ok := plain.Append(make([]byte, 0, 4096), content, false); ok {
		return slices.Clip(b), nil
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(content); err != nil {
		return nil, fmt.Errorf("encode %s: %w", v.names.Kind, err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Fit implements registry.Custom.
func (v *version) Fit(obj registry.Object, report bool) ([]string, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("%T is no custom object", obj)
	}
	c, err := v.schema()
	if err != nil {
		return nil, err
	}
	if c.shape.object(u.Object)&unpruned == 0 && settled(u.Object["metadata"]) {
		return nil, nil
	}
	return v.refit(c, u, report)
}

// refit is Fit of an object with something to drop, or with metadata that are to be brought into their form.
func (v *version) refit(c *compiled, u *unstructured.Unstructured, report bool) ([]string, error) {
	kind, apiVersion := u.Object["kind"], u.Object["apiVersion"]
	meta, hasMeta, unknown, err := objectmeta.GetObjectMetaWithOptions(u.Object, objectmeta.ObjectMetaOptions{ReturnUnknownFieldPaths: report})
	if err != nil {
		return nil, err
	}
	if !v.preserve {
		unknown = append(unknown, pruning.PruneWithOptions(u.Object, c.structural, true, structuralschema.UnknownFieldPathOptions{TrackUnknownFieldPaths: report})...)
		defaulting.PruneNonNullableNullsWithoutDefaults(u.Object, c.structural)
	}
	problem, more := objectmeta.CoerceWithOptions(nil, u.Object, c.structural, false, objectmeta.CoerceOptions{ReturnUnknownFieldPaths: report})
	if problem != nil {
		return nil, errors.New(problem.Error())
	}
	u.Object["kind"], u.Object["apiVersion"] = kind, apiVersion
	if hasMeta {
		if err := objectmeta.SetObjectMeta(u.Object, meta); err != nil {
			return nil, err
		}
	}
	return append(unknown, more...), nil
}

// Sound implements registry.Custom.
func (v *version) Sound(obj registry.Object) bool {
	c, err := v.schema()
	return err == nil && c.shape.object(content(obj))&(unpruned|undefaulted) == 0
}

// Settle implements registry.Custom.
func (v *version) Settle(obj registry.Object) (registry.Object, error) {
	u, ok := obj.(*unstructured.Unstructured)
	if !ok || settled(u.Object["metadata"]) {
		return obj, nil
	}
	meta, has, _, err := objectmeta.GetObjectMetaWithOptions(u.Object, objectmeta.ObjectMetaOptions{DropMalformedFields: true})
	if err != nil || !has {
		return obj, err
	}
	out := &unstructured.Unstructured{Object: maps.Clone(u.Object)}
	return out, objectmeta.SetObjectMeta(out.Object, meta)
}

// fill sets defaults.
func (v *version) fill(obj registry.Object) {
	u, ok := obj.(*unstructured.Unstructured)
	if c, err := v.schema(); ok && err == nil && c.shape.object(u.Object)&(unpruned|undefaulted) != 0 {
		defaulting.Default(u.Object, c.structural)
	}
}
