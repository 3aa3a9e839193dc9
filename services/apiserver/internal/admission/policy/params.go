package policy

import (
	"context"
	"errors"
	"fmt"

	registrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/services/apiserver/internal/registry"
)

// paramKind returns the kind of a policy's parameters, nil where it has none.
func (e *evaluator) paramKind(k *registrationv1.ParamKind) (*registry.Resource, error) {
	if k == nil {
		return nil, nil
	}
	res := e.table.FindKind(schema.FromAPIVersionAndKind(k.APIVersion, k.Kind))
	if res == nil || e.table.Find(res.GVR) == nil {
		return nil, fmt.Errorf("failed to find resource referenced by paramKind: '%v'", schema.FromAPIVersionAndKind(k.APIVersion, k.Kind))
	}
	return res, nil
}

// params returns what a binding refers to. A policy without parameters is evaluated once, with none.
func (e *evaluator) params(ctx context.Context, kind *registry.Resource, ref *registrationv1.ParamRef, namespace string) ([]param, error) {
	if kind == nil || ref == nil {
		return []param{nil}, nil
	}
	switch {
	case !kind.Kind.Namespaced && ref.Namespace != "":
		return nil, errors.New("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
	case !kind.Kind.Namespaced:
		namespace = ""
	case ref.Namespace != "":
		namespace = ref.Namespace
	case namespace == "":
		return nil, errors.New("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources")
	}
	found, err := e.find(ctx, kind, ref, namespace)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 && ref.ParameterNotFoundAction != nil && *ref.ParameterNotFoundAction == registrationv1.DenyAction {
		return nil, errors.New("no params found for policy binding with `Deny` parameterNotFoundAction")
	}
	params := make([]param, len(found))
	for i, obj := range found {
		if params[i], err = asParam(ctx, kind, obj); err != nil {
			return nil, err
		}
	}
	return params, nil
}

func (e *evaluator) find(ctx context.Context, kind *registry.Resource, ref *registrationv1.ParamRef, namespace string) ([]registry.Object, error) {
	group, resource := kind.Kind.GVK.Group, kind.Kind.Resource
	switch {
	case ref.Name != "" && ref.Selector != nil:
		return nil, errors.New("paramRef.name and paramRef.selector are mutually exclusive")
	case ref.Name != "":
		obj, err := e.objects.Get(ctx, group, resource, namespace, ref.Name)
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		return []registry.Object{obj}, nil
	case ref.Selector == nil:
		return nil, errors.New("one of name or selector must be provided")
	}
	selector, err := metav1.LabelSelectorAsSelector(ref.Selector)
	if err != nil {
		return nil, err
	}
	var found []registry.Object
	for _, obj := range e.objects.List(ctx, group, resource, namespace) {
		if selector.Matches(labels.Set(obj.GetLabels())) {
			found = append(found, obj)
		}
	}
	return found, nil
}

// asParam is an object as expressions see it, in the version of the policy's paramKind.
func asParam(ctx context.Context, kind *registry.Resource, obj registry.Object) (param, error) {
	var err error
	if kind.Kind.Custom != nil {
		obj, err = kind.Kind.Custom.Convert(ctx, obj)
	} else {
		obj, err = kind.FromStored(obj)
	}
	if err != nil {
		return nil, err
	}
	if u, ok := obj.(*unstructured.Unstructured); ok {
		return u, nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		return nil, err
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetGroupVersionKind(kind.GVK)
	return u, nil
}
