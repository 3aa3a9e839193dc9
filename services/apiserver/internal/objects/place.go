package objects

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/services/apiserver/internal/registry"
)

// validateIn returns what is wrong with an object because of the labels of its namespace. A namespace that there is not has none.
func (s *Server) validateIn(r *request, obj, old registry.Object) field.ErrorList {
	kind := r.res.Kind
	if kind.ValidateIn == nil {
		return nil
	}
	var labels map[string]string
	if res := s.Table.FindKind(corev1.SchemeGroupVersion.WithKind("Namespace")); res != nil {
		if item := s.Cache.For(res.Kind).Get(res.Kind.Key("", r.namespace)); item != nil {
			if namespace, err := item.Object(); err == nil {
				labels = namespace.GetLabels()
			}
		}
	}
	return kind.ValidateIn(obj, old, labels)
}
