// Package check has the validations that several kinds share and that
// apimachinery does not have. Each returns Kubernetes' texts.
package check

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"
)

// Texts that many fields share.
const (
	Negative    = "must be greater than or equal to 0"
	NotPositive = "must be greater than zero"
	Immutable   = "field is immutable"
)

// NonNegative refuses numbers below 0.
func NonNegative[N int32 | int64](n N, path *field.Path) field.ErrorList {
	if n < 0 {
		return field.ErrorList{field.Invalid(path, int64(n), Negative)}
	}
	return nil
}

// Positive refuses numbers below 1.
func Positive[N int32 | int64](n N, path *field.Path) field.ErrorList {
	if n <= 0 {
		return field.ErrorList{field.Invalid(path, n, NotPositive)}
	}
	return nil
}

// OneOf refuses what is not in allowed; the message lists allowed sorted.
func OneOf[T ~string](value T, path *field.Path, allowed ...T) field.ErrorList {
	if slices.Contains(allowed, value) {
		return nil
	}
	slices.Sort(allowed)
	return field.ErrorList{field.NotSupported(path, value, allowed)}
}

// Listed is OneOf whose message lists allowed in the order given, as Kubernetes does for some fields.
func Listed[T ~string](value T, path *field.Path, allowed ...T) field.ErrorList {
	if slices.Contains(allowed, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, value, allowed)}
}

// ListedChoice is Listed for a field that must be set.
func ListedChoice[T ~string](value T, path *field.Path, allowed ...T) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	return Listed(value, path, allowed...)
}

// Choice is OneOf for a field that must be set.
func Choice[T ~string](value T, path *field.Path, allowed ...T) field.ErrorList {
	if value == "" {
		return field.ErrorList{field.Required(path, "")}
	}
	return OneOf(value, path, allowed...)
}

// Each makes an Invalid error of every message about one value.
func Each(messages []string, value any, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, m := range messages {
		errs = append(errs, field.Invalid(path, value, m))
	}
	return errs
}

// Label refuses what is not a lower-case RFC 1123 label.
func Label(value string, path *field.Path) field.ErrorList {
	return Each(validation.IsDNS1123Label(value), value, path)
}

// Subdomain refuses what is not a lower-case RFC 1123 subdomain.
func Subdomain(value string, path *field.Path) field.ErrorList {
	return Each(validation.IsDNS1123Subdomain(value), value, path)
}

// QualifiedName refuses what is not [prefix/]name, as label keys are. Errors tell a value of a type of its own as JSON, as Kubernetes' do.
func QualifiedName[T ~string](value T, path *field.Path) field.ErrorList {
	return Each(validation.IsQualifiedName(string(value)), value, path)
}

// Port refuses numbers outside 1 to 65535.
func Port(port int32, path *field.Path) field.ErrorList {
	return Each(validation.IsValidPortNum(int(port)), port, path)
}

// Same refuses a change of a field.
func Same(value, old any, path *field.Path) field.ErrorList {
	if equality.Semantic.DeepEqual(value, old) {
		return nil
	}
	return field.ErrorList{field.Invalid(path, value, Immutable)}
}

// NoBacksteps refuses paths with ".." among their elements.
func NoBacksteps(p string, path *field.Path) field.ErrorList {
	if slices.Contains(strings.Split(p, "/"), "..") {
		return field.ErrorList{field.Invalid(path, p, "must not contain '..'")}
	}
	return nil
}

// RelativePath refuses absolute paths, and those with ".." among their elements.
func RelativePath(p string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if strings.HasPrefix(p, "/") {
		errs = append(errs, field.Invalid(path, p, "must be a relative path"))
	}
	return append(errs, NoBacksteps(p, path)...)
}

// FilePath is RelativePath for a name of a file in a volume, which must not
// start with "..", as the volume's own files do.
func FilePath(p string, path *field.Path) field.ErrorList {
	errs := RelativePath(p, path)
	if strings.HasPrefix(p, "..") && !strings.HasPrefix(p, "../") {
		errs = append(errs, field.Invalid(path, p, "must not start with '..'"))
	}
	return errs
}

// PublicIP refuses addresses that no endpoint may have: unspecified, loopback,
// link-local.
func PublicIP(address string, path *field.Path) field.ErrorList {
	ip := netutils.ParseIPSloppy(address) // older versions took leading zeros
	if ip == nil {
		return field.ErrorList{field.Invalid(path, address, "must be a valid IP address")}
	}
	var errs field.ErrorList
	for _, c := range []struct {
		is   bool
		what string
	}{
		{ip.IsUnspecified(), "may not be unspecified (" + address + ")"},
		{ip.IsLoopback(), "may not be in the loopback range (127.0.0.0/8, ::1/128)"},
		{ip.IsLinkLocalUnicast(), "may not be in the link-local range (169.254.0.0/16, fe80::/10)"},
		{ip.IsLinkLocalMulticast(), "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"},
	} {
		if c.is {
			errs = append(errs, field.Invalid(path, address, c.what))
		}
	}
	return errs
}

// Finalizer refuses what is neither one of Kubernetes' own finalizers nor named with a domain.
func Finalizer(name string, path *field.Path) field.ErrorList {
	errs := QualifiedName(name, path)
	if !strings.Contains(name, "/") && !slices.Contains([]string{"kubernetes", "orphan", "foregroundDeletion"}, name) {
		errs = append(errs, field.Invalid(path, name, "name is neither a standard finalizer name nor is it fully qualified"))
	}
	return errs
}

// Selectors are the options of a check of selectors: where one of old has a label value that is not valid, others may have some, too.
func Selectors(old ...*metav1.LabelSelector) metavalidation.LabelSelectorValidationOptions {
	return metavalidation.LabelSelectorValidationOptions{AllowInvalidLabelValueInSelector: slices.ContainsFunc(old, func(s *metav1.LabelSelector) bool {
		return len(metavalidation.ValidateLabelSelector(s, metavalidation.LabelSelectorValidationOptions{}, nil)) > 0
	})}
}
