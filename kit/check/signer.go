package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// longestSigner is a domain, a slash, and what a name may be long besides.
const longestSigner = 571

// Signer refuses what is not the name of a signer of certificates: a domain of two parts at least, a slash and a path.
func Signer(name string, path *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	parts := strings.Split(name, "/")
	if len(parts) != 2 {
		return field.ErrorList{field.Invalid(path, name, "must be a fully qualified domain and path of the form 'example.com/signer-name'")}
	}
	errs := validateSegments(parts[0], validation.IsDNS1123Label, path)
	if n := strings.Count(parts[0], ".") + 1; n < 2 {
		errs = append(errs, field.Invalid(path, parts[0], "should be a domain with at least two segments separated by dots"))
	}
	if len(parts[0]) > validation.DNS1123SubdomainMaxLength {
		errs = append(errs, field.TooLong(path, parts[0], validation.DNS1123SubdomainMaxLength))
	}
	errs = append(errs, validateSegments(parts[1], validation.IsDNS1123Subdomain, path)...)
	if len(name) > longestSigner {
		errs = append(errs, field.TooLong(path, name, longestSigner))
	}
	return errs
}

// OwnSigner reports whether the signer is one of Kubernetes' own, whose certificates live shorter than those of others may.
func OwnSigner(name string) bool {
	domain, _, _ := strings.Cut(name, "/")
	return domain == "kubernetes.io" || strings.HasSuffix(domain, ".kubernetes.io")
}

// mostAnnotations is the size of keys and values together, in bytes.
const mostAnnotations = 256 << 10

// UserAnnotations checks what a signer is told of a pod: annotations whose keys all have a domain before them.
func UserAnnotations(annotations map[string]string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	size := 0
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		errs = append(errs, validation.IsDomainPrefixedKey(path, strings.ToLower(key))...) // small and capital letters are the same here
		size += len(key) + len(annotations[key])
	}
	if size > mostAnnotations {
		errs = append(errs, field.TooLong(path, "", mostAnnotations))
	}
	return errs
}

// validateSegments checks what dots separate, up to the first that is wrong.
func validateSegments(text string, valid func(string) []string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for segment := range strings.SplitSeq(text, ".") {
		for _, problem := range valid(segment) {
			errs = append(errs, field.Invalid(path, text, fmt.Sprintf("validating label %q: %s", segment, problem)))
		}
		if len(errs) > 0 {
			break
		}
	}
	return errs
}
