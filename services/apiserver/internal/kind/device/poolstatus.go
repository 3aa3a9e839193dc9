package device

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	resourcev1alpha3 "k8s.io/api/resource/v1alpha3"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validate/content"
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

type poolRequest = resourcev1alpha3.ResourcePoolStatusRequest

// The most pools that a request may want.
const mostPools = 1000

// poolStatusRequest asks how many devices there are, and are free. It has no stable version.
func poolStatusRequest(now func() time.Time) *registry.Kind {
	k := row.Of[poolRequest, resourcev1alpha3.ResourcePoolStatusRequestList](resourcev1alpha3.SchemeGroupVersion, "resourcepoolstatusrequests")
	k.NeedsRevision, k.ReturnDeleted = true, true
	row.SpecStatusUncounted(k, func(r *poolRequest) *resourcev1alpha3.ResourcePoolStatusRequestSpec { return &r.Spec },
		func(r *poolRequest) **resourcev1alpha3.ResourcePoolStatusRequestStatus { return &r.Status }, validatePoolStatus)
	k.Default = typed.Do(func(r *poolRequest) { row.Set(&r.Spec.Limit, resourcev1alpha3.ResourcePoolStatusRequestLimitDefault) })
	k.ValidateCreate = typed.Check(validatePoolRequest)
	k.ValidateUpdate = typed.CheckChange(func(r, old *poolRequest) field.ErrorList {
		if !equality.Semantic.DeepEqual(r.Spec, old.Spec) {
			return field.ErrorList{field.Invalid(field.NewPath("spec"), nil, "field is immutable")}
		}
		return nil
	})
	of := func(what string) string { return "Total number of " + what + " devices across all pools." }
	k.Columns = []metav1.TableColumnDefinition{
		column.Name(), column.String("Driver", "The driver to query pools for."), column.String("Total", "Total number of devices across all pools."),
		column.String("Available", strings.Replace(of("available"), "Total n", "N", 1)), column.String("Allocated", strings.Replace(of("allocated"), "Total n", "N", 1)),
		column.String("Unavailable", strings.Replace(of("unavailable"), "Total n", "N", 1)),
		column.String("Errors", "Number of pools with validation errors."), column.Integer("Pools", "Total number of matching pools."),
		column.String("Status", "Processing status."), column.String("Completed", "Time since the observation completed."),
	}
	k.Cells = typed.Get(func(r *poolRequest) []any { return poolCells(r, now()) })
	return k
}

func poolCells(r *poolRequest, now time.Time) []any {
	const unknown = "-"
	if r.Status == nil {
		return []any{r.Name, r.Spec.Driver, unknown, unknown, unknown, unknown, unknown, int64(0), "Pending", column.None}
	}
	var total, available, allocated, unavailable int64
	broken := 0
	for _, p := range r.Status.Pools {
		total += int64(row.Deref(p.TotalDevices))
		available += int64(row.Deref(p.AvailableDevices))
		allocated += int64(row.Deref(p.AllocatedDevices))
		unavailable += int64(row.Deref(p.UnavailableDevices))
		if p.ValidationError != nil {
			broken++
		}
	}
	state, done := "Pending", column.None
	for _, c := range []string{resourcev1alpha3.ResourcePoolStatusRequestConditionComplete, resourcev1alpha3.ResourcePoolStatusRequestConditionFailed} {
		if found := meta.FindStatusCondition(r.Status.Conditions, c); found != nil && found.Status == metav1.ConditionTrue {
			state, done = c, column.Since(now, found.LastTransitionTime.Time)
		}
	}
	number := func(n int64) string { return strconv.FormatInt(n, 10) }
	return []any{
		r.Name, r.Spec.Driver, number(total), number(available), number(allocated), number(unavailable), strconv.Itoa(broken),
		int64(row.Deref(r.Status.PoolCount)), state, done,
	}
}

func validatePoolRequest(r *poolRequest) field.ErrorList {
	path := field.NewPath("spec")
	errs := caseless(r.Spec.Driver, path.Child("driver"))
	if p := r.Spec.PoolName; p != nil {
		errs = append(errs, segments(*p, path.Child("poolName"))...)
	}
	limit := row.Deref(r.Spec.Limit)
	if limit < 1 {
		errs = append(errs, field.Invalid(path.Child("limit"), limit, "must be greater than or equal to 1"))
	}
	if limit > mostPools {
		errs = append(errs, field.Invalid(path.Child("limit"), limit, fmt.Sprintf("must be less than or equal to %d", mostPools)))
	}
	return errs
}

// caseless wants a subdomain in any case.
func caseless(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	return check.Each(content.IsDNS1123SubdomainCaseless(name), name, path)
}

// segments wants subdomains with slashes between them.
func segments(name string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, part := range strings.Split(name, "/") {
		if part == "" {
			errs = append(errs, field.Invalid(path, name, fmt.Sprintf("segment %d: must not be empty", i)))
			continue
		}
		for _, problem := range validation.IsDNS1123Subdomain(part) {
			errs = append(errs, field.Invalid(path, name, fmt.Sprintf("segment %d: %s", i, problem)))
		}
	}
	return errs
}

func validatePoolStatus(r, _ *poolRequest) field.ErrorList {
	s, path := r.Status, field.NewPath("status")
	if s == nil {
		return nil
	}
	natural := func(n *int32, at *field.Path) field.ErrorList {
		if n != nil && *n < 0 {
			return field.ErrorList{field.Invalid(at, *n, "must be greater than or equal to 0")}
		}
		return nil
	}
	var errs field.ErrorList
	if s.PoolCount == nil {
		errs = append(errs, field.Required(path.Child("poolCount"), ""))
	}
	errs = append(errs, natural(s.PoolCount, path.Child("poolCount"))...)
	for i, p := range s.Pools {
		at := path.Child("pools").Index(i)
		errs = append(errs, caseless(p.Driver, at.Child("driver"))...)
		if p.PoolName == "" {
			errs = append(errs, field.Required(at.Child("poolName"), ""))
		} else {
			errs = append(errs, segments(p.PoolName, at.Child("poolName"))...)
		}
		if p.Generation == 0 {
			errs = append(errs, field.Required(at.Child("generation"), ""))
		}
		errs = append(errs, natural(p.ResourceSliceCount, at.Child("resourceSliceCount"))...)
		errs = append(errs, natural(p.TotalDevices, at.Child("totalDevices"))...)
		errs = append(errs, natural(p.AllocatedDevices, at.Child("allocatedDevices"))...)
		errs = append(errs, natural(p.AvailableDevices, at.Child("availableDevices"))...)
		errs = append(errs, natural(p.UnavailableDevices, at.Child("unavailableDevices"))...)
		if n := p.NodeName; n != nil {
			errs = append(errs, check.Subdomain(*n, at.Child("nodeName"))...)
		}
	}
	errs = append(errs, metavalidation.ValidateConditions(s.Conditions, path.Child("conditions"))...)
	seen := map[string]bool{}
	for i, c := range s.Conditions {
		if seen[c.Type] {
			errs = append(errs, field.Duplicate(path.Child("conditions").Index(i), c))
		}
		seen[c.Type] = true
	}
	return errs
}
