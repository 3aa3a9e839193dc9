package device

import (
	"iter"
	"maps"
	"regexp"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/check"
)

var identifier = regexp.MustCompile("^[A-Za-z_][A-Za-z0-9_]*$")

func keys[V any](m map[resourcev1.QualifiedName]V) iter.Seq[resourcev1.QualifiedName] {
	return maps.Keys(m)
}

// validateQualified refuses what is not "id" or "domain/id". Kubernetes lets pass what has more slashes.
func validateQualified(name resourcev1.QualifiedName, path *field.Path) field.ErrorList {
	switch parts := strings.Split(string(name), "/"); len(parts) {
	case 1:
		return validateID(parts[0], path)
	case 2:
		var errs field.ErrorList
		if parts[0] == "" {
			errs = append(errs, field.Invalid(path, "", "the domain must not be empty"))
		} else {
			errs = append(errs, validateDomain(parts[0], path)...)
		}
		if parts[1] == "" {
			return append(errs, field.Invalid(path, "", "the name must not be empty"))
		}
		return append(errs, validateID(parts[1], path)...)
	}
	return nil
}

// validateFullName refuses what is not "domain/id".
func validateFullName(name resourcev1.FullyQualifiedName, path *field.Path) field.ErrorList {
	errs := validateQualified(resourcev1.QualifiedName(name), path)
	if !strings.Contains(string(name), "/") {
		errs = append(errs, field.Invalid(path, name, "a fully qualified name must be a domain and a name separated by a slash"))
	}
	return errs
}

func validateDomain(domain string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(domain) > resourcev1.DeviceMaxDomainLength {
		errs = append(errs, field.TooLong(path, "" /* it is too long to be shown */, resourcev1.DeviceMaxDomainLength))
	}
	return append(errs, check.Each(validation.IsDNS1123Subdomain(strings.ToLower(domain)), domain, path)...)
}

func validateID(id string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(id) > resourcev1.DeviceMaxIDLength {
		errs = append(errs, field.TooLong(path, "" /* it is too long to be shown */, resourcev1.DeviceMaxIDLength))
	}
	if !identifier.MatchString(id) {
		errs = append(errs, field.Invalid(path, id, "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')"))
	}
	return errs
}
