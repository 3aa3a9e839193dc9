package deployment

import (
	"maps"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"

	"howdah.dev/services/apiserver/internal/registry"
)

// apps/v1 has no spec.rollbackTo: what the oldest versions say there is kept in
// this annotation, as Kubernetes keeps it, and the Deployment controller acts on it.
const rollbackAnnotation = appsv1.DeprecatedRollbackTo

// rollback finds the revision to roll back to in an object of a version that has such a field; nil: nothing is said.
type rollback[T registry.Object] struct {
	get func(T) *int64
	set func(obj T, revision int64)
}

// keptIn makes a version keep its field in the annotation.
func (r rollback[T]) keptIn(v registry.Version) registry.Version {
	toStored, fromStored, fill := v.ToStored, v.FromStored, v.Default
	v.ToStored = func(in registry.Object) (registry.Object, error) {
		out, err := toStored(in)
		if revision := r.get(in.(T)); err == nil && revision != nil {
			keepRollback(out.(*appsv1.Deployment), *revision)
		}
		return out, err
	}
	v.FromStored = func(in registry.Object) (registry.Object, error) {
		out, err := fromStored(in)
		if revision, annotations, ok := takeRollback(in.(*appsv1.Deployment)); err == nil && ok {
			out.SetAnnotations(annotations)
			r.set(out.(T), revision)
		}
		return out, err
	}
	// The defaults are set in the stored form, which has no such field.
	v.Default = func(obj registry.Object) {
		revision := r.get(obj.(T))
		if fill(obj); revision != nil {
			r.set(obj.(T), *revision)
		}
	}
	return v
}

func keepRollback(d *appsv1.Deployment, revision int64) {
	d.Annotations = maps.Clone(d.Annotations)
	if d.Annotations == nil {
		d.Annotations = map[string]string{}
	}
	d.Annotations[rollbackAnnotation] = strconv.FormatInt(revision, 10)
}

// takeRollback returns the revision and the annotations without it.
func takeRollback(d *appsv1.Deployment) (revision int64, rest map[string]string, ok bool) {
	revision, err := strconv.ParseInt(d.Annotations[rollbackAnnotation], 10, 64)
	if err != nil {
		return 0, d.Annotations, false
	}
	rest = maps.Clone(d.Annotations)
	delete(rest, rollbackAnnotation)
	if len(rest) == 0 {
		rest = nil
	}
	return revision, rest, true
}
