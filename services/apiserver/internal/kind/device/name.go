package device

import (
	"iter"
	"maps"
	"regexp"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/services/apiserver/internal/kind/check"
)

var identifier = regexp.MustCompile("^[A-Za-z_][A-Za-z0-9_]*$")

func keys[V any](m map[resourcev1.QualifiedName]V) iter.Seq[resourcev1.QualifiedName] {
	return maps.Keys(m)
}

// validateQualified refuses what is not "id" or "domain/id".
func validateQualified(name resourcev1.QualifiedName, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "name required")}
	}
	domain, id, full := strings.Cut(string(name), "/")
	if !full {
		return validateID(domain, path)
	}
	if strings.Contains(id, "/") {
		return field.ErrorList{field.Invalid(path, name, "must not contain more than one slash")}
	}
	return append(validateDomain(domain, path), validateID(id, path)...)
}

// validateFullName refuses what is not "domain/id".
func validateFullName(name resourcev1.FullyQualifiedName, path *field.Path) field.ErrorList {
	errs := validateQualified(resourcev1.QualifiedName(name), path)
	if name != "" && !strings.Contains(string(name), "/") {
		errs = append(errs, field.Invalid(path, name, "must include a domain"))
	}
	return errs
}

func validateDomain(domain string, path *field.Path) field.ErrorList {
	if domain == "" {
		return field.ErrorList{field.Required(path, "the domain must not be empty")}
	}
	var errs field.ErrorList
	if len(domain) > resourcev1.DeviceMaxDomainLength {
		errs = append(errs, field.TooLong(path, "" /* it is too long to be shown */, resourcev1.DeviceMaxDomainLength))
	}
	return append(errs, check.Subdomain(domain, path)...)
}

func validateID(id string, path *field.Path) field.ErrorList {
	if id == "" {
		return field.ErrorList{field.Required(path, "the name must not be empty")}
	}
	var errs field.ErrorList
	if len(id) > resourcev1.DeviceMaxIDLength {
		errs = append(errs, field.TooLong(path, "" /* it is too long to be shown */, resourcev1.DeviceMaxIDLength))
	}
	if !identifier.MatchString(id) {
		errs = append(errs, field.Invalid(path, id, "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')"))
	}
	return errs
}
