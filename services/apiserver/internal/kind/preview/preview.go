// Package preview has the kinds that have no stable version yet: alpha and beta versions, which are not served unless they are
// switched on.
package preview

import (
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/services/apiserver/internal/registry"
)

// Kinds returns the kinds; now is the clock.
func Kinds(now func() time.Time) []*registry.Kind {
	return []*registry.Kind{
		leaseCandidate(now), storageVersion(now), migration(), trustBundle(), podCertificateRequest(now),
		workload(now), podGroup(now),
	}
}

// The feature gates that kinds go by, with Kubernetes' names.
const (
	featureTrustBundle    = "ClusterTrustBundle"
	featureMigration      = "StorageVersionMigrator"
	featurePodCertificate = "PodCertificateRequest"
	featureWorkload       = "GenericWorkload"
)

// immutable refuses a change, showing value.
func immutable(path *field.Path, value any) field.ErrorList {
	return field.ErrorList{field.Invalid(path, value, "field is immutable")}
}
