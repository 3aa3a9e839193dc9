package kind

import (
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/check"
	"howdah.dev/services/apiserver/internal/kind/column"
	"howdah.dev/services/apiserver/internal/kind/typed"
	"howdah.dev/services/apiserver/internal/registry"
)

func lease(now func() time.Time) *registry.Kind {
	return &registry.Kind{
		GVK:      coordinationv1.SchemeGroupVersion.WithKind("Lease"),
		Resource: "leases", Singular: "lease", Namespaced: true,
		New:     func() registry.Object { return &coordinationv1.Lease{} },
		NewList: func() runtime.Object { return &coordinationv1.LeaseList{} },

		CreateOnUpdate: true,
		NeedsRevision:  true,
		PrepareCreate:  typed.Do(func(l *coordinationv1.Lease) { dropElection(l, nil) }),
		PrepareUpdate:  typed.Change(dropElection),
		Validate:       typed.Check(validateLease),

		Columns: []metav1.TableColumnDefinition{
			column.Name(),
			column.String("Holder", coordinationv1.LeaseSpec{}.SwaggerDoc()["holderIdentity"]),
			column.Age(),
		},
		Cells: typed.Get(func(l *coordinationv1.Lease) []any {
			holder := ""
			if l.Spec.HolderIdentity != nil {
				holder = *l.Spec.HolderIdentity
			}
			return []any{l.Name, holder, column.Since(now(), l.CreationTimestamp.Time)}
		}),
	}
}

// dropElection drops each field of the feature CoordinatedLeaderElection, which is off by default, from leases that did not have it.
func dropElection(l, old *coordinationv1.Lease) {
	if old == nil || old.Spec.Strategy == nil {
		l.Spec.Strategy = nil
	}
	if old == nil || old.Spec.PreferredHolder == nil {
		l.Spec.PreferredHolder = nil
	}
}

func validateLease(l *coordinationv1.Lease) field.ErrorList {
	var errs field.ErrorList
	spec := field.NewPath("spec")
	if d := l.Spec.LeaseDurationSeconds; d != nil && *d <= 0 {
		errs = append(errs, field.Invalid(spec.Child("leaseDurationSeconds"), *d, "must be greater than 0"))
	}
	if n := l.Spec.LeaseTransitions; n != nil && *n < 0 {
		errs = append(errs, field.Invalid(spec.Child("leaseTransitions"), *n, "must be greater than or equal to 0"))
	}
	if s := l.Spec.Strategy; s != nil {
		path := spec.Child("strategy")
		if *s != coordinationv1.OldestEmulationVersion {
			errs = append(errs, check.QualifiedName(string(*s), path)...)
		}
	}
	if p := l.Spec.PreferredHolder; p != nil && *p != "" && (l.Spec.Strategy == nil || *l.Spec.Strategy == "") {
		errs = append(errs, field.Forbidden(spec.Child("preferredHolder"), "may only be specified if `strategy` is defined"))
	}
	return errs
}
