package preview

import (
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	coordinationv1beta1 "k8s.io/api/coordination/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/version"

	"howdah.dev/kit/check"
	"howdah.dev/services/apiserver/internal/kind/column"
	"howdah.dev/services/apiserver/internal/kind/row"
	"howdah.dev/services/apiserver/internal/kind/typed"
	"howdah.dev/services/apiserver/internal/registry"
)

type candidate = coordinationv1beta1.LeaseCandidate

// leaseCandidate is what stands for election to a Lease.
func leaseCandidate(now func() time.Time) *registry.Kind {
	k := row.Of[candidate, coordinationv1beta1.LeaseCandidateList](coordinationv1beta1.SchemeGroupVersion, "leasecandidates")
	k.Namespaced, k.CreateOnUpdate, k.NeedsRevision = true, true, true
	k.NameIsValid = func(name string, _ bool) []string { return validation.IsConfigMapKey(name) }
	k.Deprecated = "coordination.k8s.io/v1beta1 LeaseCandidate is deprecated in v1.36+, unavailable in v1.39+"
	k.ValidateCreate = typed.Check(validateCandidate)
	k.ValidateUpdate = typed.CheckChange(func(c, old *candidate) field.ErrorList {
		errs := validateCandidate(c)
		if c.Spec.LeaseName != old.Spec.LeaseName {
			errs = append(errs, immutable(field.NewPath("spec", "leaseName"), c.Spec.LeaseName)...)
		}
		return errs
	})
	docs := coordinationv1beta1.LeaseCandidateSpec{}.SwaggerDoc()
	k.Columns = []metav1.TableColumnDefinition{
		column.Name(), column.String("LeaseName", docs["leaseName"]), column.String("BinaryVersion", ""),
		column.String("EmulationVersion", ""), column.Age(),
	}
	k.Cells = typed.Get(func(c *candidate) []any {
		return []any{c.Name, c.Spec.LeaseName, c.Spec.BinaryVersion, c.Spec.EmulationVersion, column.Since(now(), c.CreationTimestamp.Time)}
	})
	return k
}

func validateCandidate(c *candidate) field.ErrorList {
	spec, at := &c.Spec, field.NewPath("spec")
	var errs field.ErrorList
	if spec.LeaseName == "" {
		errs = append(errs, field.Required(at.Child("leaseName"), ""))
	}
	zero := version.MustParseSemantic("0.0.0")
	read := func(text, name string) *version.Version {
		if text == "" {
			return zero
		}
		v, err := version.ParseSemantic(text)
		if err != nil || strings.HasPrefix(text, "v") {
			errs = append(errs, field.Invalid(at.Child(name), text, "must be a valid semantic version"))
			return zero
		}
		return v
	}
	emulated := read(spec.EmulationVersion, "emulationVersion")
	if spec.BinaryVersion == "" {
		errs = append(errs, field.Required(at.Child("binaryVersion"), ""))
	}
	binary := read(spec.BinaryVersion, "binaryVersion")
	if spec.BinaryVersion != "" && binary.LessThan(emulated) {
		errs = append(errs, field.Invalid(at.Child("binaryVersion"), spec.BinaryVersion, "must be greater than or equal to `emulationVersion`"))
	}
	switch {
	case spec.Strategy == "":
		errs = append(errs, field.Required(at.Child("strategy"), ""))
	case spec.Strategy == coordinationv1.OldestEmulationVersion:
		if !zero.LessThan(emulated) {
			errs = append(errs, field.Required(at.Child("emulationVersion"), "must be specified when `strategy` is 'OldestEmulationVersion'"))
		}
	case strings.Contains(string(spec.Strategy), "/"):
		errs = append(errs, check.QualifiedName(string(spec.Strategy), at.Child("strategy", "strategy"))...)
	default:
		errs = append(errs, field.NotSupported(at.Child("strategy", "strategy"), spec.Strategy, []coordinationv1.CoordinatedLeaseStrategy{coordinationv1.OldestEmulationVersion}))
	}
	return errs
}
