package deployment

import (
	"maps"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
)

// apps/v1 has no spec.rollbackTo: what the oldest versions say there is kept in
// this annotation, as Kubernetes keeps it, and the Deployment controller acts on it.
const rollbackAnnotation = appsv1.DeprecatedRollbackTo

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
