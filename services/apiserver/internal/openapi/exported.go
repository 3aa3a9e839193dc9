package openapi

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

const metaModel = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"

// Meta returns the OpenAPI 3 models of object metadata, by name.
func (d *Documents) Meta() map[string]*spec.Schema {
	return pointers(d.models().reachable(map[string]bool{metaModel: true}, 3))
}

// Others returns the OpenAPI 3 models of the kinds that client-go has no types of, and of Scales and Bindings, whose fields it does not
// describe, with all that they refer to, by name.
func (d *Documents) Others() map[string]*spec.Schema {
	m, roots := d.models(), map[string]bool{}
	for gvk, name := range m.kinds {
		if !scheme.Scheme.Recognizes(gvk) || gvk == scaleGVK || gvk == corev1.SchemeGroupVersion.WithKind("Binding") {
			roots[name] = true
		}
	}
	return pointers(m.reachable(roots, 3))
}

func pointers(in map[string]spec.Schema) map[string]*spec.Schema {
	out := make(map[string]*spec.Schema, len(in))
	for name, s := range in {
		out[name] = &s
	}
	return out
}
