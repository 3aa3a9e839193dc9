package api

import (
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"

	"howdah.dev/kit/object"
)

// Any is an object of any kind as JSON has it. Items of lists say no kind: what New has set is kept then.
type Any struct{ unstructured.Unstructured }

// KindOf is the kind with which objects of any kind are read.
func KindOf(gvk schema.GroupVersionKind, resource string, namespaced bool) object.Kind[*Any] {
	return object.CustomKind(gvk, resource, namespaced, func() *Any {
		a := &Any{}
		a.SetGroupVersionKind(gvk)
		return a
	})
}

// UnmarshalJSON implements json.Unmarshaler.
func (a *Any) UnmarshalJSON(data []byte) error {
	read := map[string]any{}
	if err := json.Unmarshal(data, &read); err != nil {
		return err
	}
	if _, ok := read["kind"]; !ok && a.Object != nil {
		maps.Copy(read, map[string]any{"apiVersion": a.GetAPIVersion(), "kind": a.GetKind()})
	}
	a.Object = read
	return nil
}

// DeepCopyObject implements runtime.Object.
func (a *Any) DeepCopyObject() runtime.Object { return &Any{*a.DeepCopy()} }

// ID is the object's.
func (a *Any) ID() ID {
	return ID{GVK: a.GroupVersionKind(), Namespace: a.GetNamespace(), Name: a.GetName()}
}

// Deleting reports whether the object is being deleted.
func (a *Any) Deleting() bool { return a.GetDeletionTimestamp() != nil }
