package preview

import (
	"fmt"
	"slices"
	"strings"
	"time"

	apiserverinternalv1alpha1 "k8s.io/api/apiserverinternal/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/check"
	"howdah.dev/services/apiserver/internal/kind/column"
	"howdah.dev/services/apiserver/internal/kind/row"
	"howdah.dev/services/apiserver/internal/kind/typed"
	"howdah.dev/services/apiserver/internal/registry"
)

type stored = apiserverinternalv1alpha1.StorageVersion

// storageVersion is what apiservers tell each other of the versions that they store.
func storageVersion(now func() time.Time) *registry.Kind {
	k := row.Of[stored, apiserverinternalv1alpha1.StorageVersionList](apiserverinternalv1alpha1.SchemeGroupVersion, "storageversions")
	k.NeedsRevision = true
	row.SpecStatusUncounted(k, func(s *stored) *apiserverinternalv1alpha1.StorageVersionSpec { return &s.Spec },
		func(s *stored) *apiserverinternalv1alpha1.StorageVersionStatus { return &s.Status }, func(s, _ *stored) field.ErrorList { return validateStored(s) })
	k.NameIsValid = storedName
	docs := apiserverinternalv1alpha1.StorageVersionStatus{}.SwaggerDoc()
	k.Columns = []metav1.TableColumnDefinition{
		column.Name(), column.String("CommonEncodingVersion", docs["commonEncodingVersion"]), column.String("StorageVersions", docs["storageVersions"]), column.Age(),
	}
	k.Cells = typed.Get(func(s *stored) []any {
		const unset = "<unset>"
		versions := make([]string, len(s.Status.StorageVersions))
		for i, v := range s.Status.StorageVersions {
			versions[i] = v.APIServerID + "=" + v.EncodingVersion
		}
		return []any{
			s.Name, column.Or(row.Deref(s.Status.CommonEncodingVersion), unset), column.Or(strings.Join(versions, ","), unset),
			column.Since(now(), s.CreationTimestamp.Time),
		}
	})
	return k
}

// storedName wants <group>.<resource>.
func storedName(name string, _ bool) []string {
	dot := strings.LastIndexByte(name, '.')
	if dot < 0 {
		return []string{"name must be in the form of <group>.<resource>"}
	}
	var problems []string
	for _, p := range validation.IsDNS1123Subdomain(name[:dot]) {
		problems = append(problems, "the group segment "+p)
	}
	for _, p := range validation.IsDNS1035Label(name[dot+1:]) {
		problems = append(problems, "the resource segment "+p)
	}
	return problems
}

func validateStored(s *stored) field.ErrorList {
	path := field.NewPath("status")
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, v := range s.Status.StorageVersions {
		at := path.Child("storageVersions").Index(i)
		if seen[v.APIServerID] {
			errs = append(errs, field.Duplicate(at.Child("apiServerID"), v.APIServerID))
		}
		seen[v.APIServerID] = true
		errs = append(errs, validateServer(&v, at)...)
	}
	errs = append(errs, validateCommon(&s.Status, path.Child("commonEncodingVersion"))...)
	return append(errs, validateStoredConditions(s.Status.Conditions, path)...)
}

func validateServer(v *apiserverinternalv1alpha1.ServerStorageVersion, path *field.Path) field.ErrorList {
	errs := check.Subdomain(v.APIServerID, path.Child("apiServerID"))
	errs = append(errs, check.Each(apiVersion(v.EncodingVersion), v.EncodingVersion, path.Child("encodingVersion"))...)
	for i, d := range v.DecodableVersions {
		errs = append(errs, check.Each(apiVersion(d), d, path.Child("decodableVersions").Index(i))...)
	}
	if !slices.Contains(v.DecodableVersions, v.EncodingVersion) {
		errs = append(errs, field.Invalid(path.Child("decodableVersions"), v.DecodableVersions, "decodableVersions must include encodingVersion "+v.EncodingVersion))
	}
	for i, served := range v.ServedVersions {
		errs = append(errs, check.Each(apiVersion(served), served, path.Child("servedVersions").Index(i))...)
		if !slices.Contains(v.DecodableVersions, served) {
			errs = append(errs, field.Invalid(path.Child("servedVersions").Index(i), served,
				fmt.Sprintf("individual served version : %s must be included in decodableVersions : %s", served, v.DecodableVersions)))
		}
	}
	return errs
}

// validateCommon wants the version that all servers encode, and none where they differ.
func validateCommon(s *apiserverinternalv1alpha1.StorageVersionStatus, path *field.Path) field.ErrorList {
	common := len(s.StorageVersions) > 0
	for _, v := range s.StorageVersions {
		common = common && v.EncodingVersion == s.StorageVersions[0].EncodingVersion
	}
	switch {
	case !common && s.CommonEncodingVersion != nil:
		return field.ErrorList{field.Invalid(path, *s.CommonEncodingVersion,
			"should be nil if servers do not agree on the same encoding version, or if there is no server reporting the supported versions yet")}
	case !common:
		return nil
	case s.CommonEncodingVersion == nil:
		return field.ErrorList{field.Invalid(path, nil, "the common encoding version is "+s.StorageVersions[0].EncodingVersion)}
	case *s.CommonEncodingVersion != s.StorageVersions[0].EncodingVersion:
		return field.ErrorList{field.Invalid(path, *s.CommonEncodingVersion, "the actual common encoding version is "+s.StorageVersions[0].EncodingVersion)}
	}
	return nil
}

// apiVersion says what is wrong with "version" or "group/version".
func apiVersion(text string) []string {
	group, version, both := strings.Cut(text, "/")
	if !both {
		group, version = "", text
	}
	var problems []string
	if both {
		problems = append(problems, segment("group part: ", group, validation.IsDNS1123Subdomain)...)
	}
	return append(problems, segment("version part: ", version, validation.IsDNS1035Label)...)
}

func segment(prefix, text string, valid func(string) []string) []string {
	if text == "" {
		return []string{prefix + "must be non-empty"}
	}
	var problems []string
	for _, p := range valid(text) {
		problems = append(problems, prefix+p)
	}
	return problems
}

func validateStoredConditions(conditions []apiserverinternalv1alpha1.StorageVersionCondition, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	first := map[apiserverinternalv1alpha1.StorageVersionConditionType]int{}
	for i, c := range conditions {
		at := path.Index(i)
		if n, seen := first[c.Type]; seen {
			errs = append(errs, field.Invalid(at.Child("type"), string(c.Type), fmt.Sprintf("the type of the condition is not unique, it also appears in conditions[%d]", n)))
		} else {
			first[c.Type] = i
		}
		errs = append(errs, check.QualifiedName(string(c.Type), at.Child("type"))...)
		errs = append(errs, check.QualifiedName(string(c.Status), at.Child("status"))...)
		if c.Reason == "" {
			errs = append(errs, field.Required(at.Child("reason"), ""))
		}
		if c.Message == "" {
			errs = append(errs, field.Required(at.Child("message"), ""))
		}
	}
	return errs
}
