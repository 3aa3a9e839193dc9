package preview

import (
	"fmt"
	"regexp"

	storagemigrationv1beta1 "k8s.io/api/storagemigration/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/check"
	"howdah.dev/services/apiserver/internal/kind/column"
	"howdah.dev/services/apiserver/internal/kind/row"
	"howdah.dev/services/apiserver/internal/kind/typed"
	"howdah.dev/services/apiserver/internal/registry"
)

type migrating = storagemigrationv1beta1.StorageVersionMigration

// migration asks for all objects of a resource to be stored anew.
func migration() *registry.Kind {
	k := row.Of[migrating, storagemigrationv1beta1.StorageVersionMigrationList](storagemigrationv1beta1.SchemeGroupVersion, "storageversionmigrations")
	k.NeedsRevision, k.Feature = true, featureMigration
	row.SpecStatusUncounted(k, func(m *migrating) *storagemigrationv1beta1.StorageVersionMigrationSpec { return &m.Spec },
		func(m *migrating) *storagemigrationv1beta1.StorageVersionMigrationStatus { return &m.Status }, validateMigrationStatus)
	k.ValidateCreate = typed.Check(validateMigration)
	k.ValidateUpdate = typed.CheckChange(func(m, old *migrating) field.ErrorList {
		errs := validateMigration(m)
		if m.Spec != old.Spec {
			errs = append(errs, immutable(field.NewPath("spec"), m.Spec)...)
		}
		return errs
	})
	k.Columns = []metav1.TableColumnDefinition{
		column.Name(), column.String("Resource", "GroupResource to migrate"), column.String("Status", "Status of the migration"),
	}
	k.Cells = typed.Get(func(m *migrating) []any {
		r := m.Spec.Resource
		return []any{m.Name, (&r).String(), progress(m.Status.Conditions)}
	})
	return k
}

// progress is the one of the conditions that holds, the last first.
func progress(conditions []metav1.Condition) string {
	for _, c := range []storagemigrationv1beta1.MigrationConditionType{
		storagemigrationv1beta1.MigrationSucceeded, storagemigrationv1beta1.MigrationFailed, storagemigrationv1beta1.MigrationRunning,
	} {
		if meta.IsStatusConditionTrue(conditions, string(c)) {
			return string(c)
		}
	}
	return "Unknown"
}

func validateMigration(m *migrating) field.ErrorList {
	at, r := field.NewPath("spec", "resource"), m.Spec.Resource
	var errs field.ErrorList
	if r.Resource == "" {
		errs = append(errs, field.Required(at.Child("resource"), "resource is required to be set"))
	} else {
		errs = append(errs, check.Each(validation.IsDNS1035Label(r.Resource), r.Resource, at.Child("resource"))...)
	}
	if r.Group != "" {
		errs = append(errs, check.Subdomain(r.Group, at.Child("group"))...)
	}
	return errs
}

var revision = regexp.MustCompile(`^(0|[1-9][0-9]*)$`)

func validateMigrationStatus(m, _ *migrating) field.ErrorList {
	at := field.NewPath("status")
	errs := metavalidation.ValidateConditions(m.Status.Conditions, at.Child("conditions"))
	if v := m.Status.ResourceVersion; v != "" && !revision.MatchString(v) {
		errs = append(errs, field.Invalid(at.Child("resourceVersion"), v, fmt.Sprintf("resource version is not well formed: %s", v)))
	}
	if c := m.Status.Conditions; meta.IsStatusConditionTrue(c, string(storagemigrationv1beta1.MigrationSucceeded)) &&
		meta.IsStatusConditionTrue(c, string(storagemigrationv1beta1.MigrationFailed)) {
		errs = append(errs, field.Invalid(at.Child("conditions"), c, "Both success and failed conditions cannot be true at the same time"))
	}
	return errs
}
