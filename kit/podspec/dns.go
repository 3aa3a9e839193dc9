package podspec

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/check"
)

// What a resolver's configuration may hold.
const (
	maxNameservers = 3
	maxSearches    = 32
	maxSearchChars = 2048
)

func validateDNSConfig(spec *corev1.PodSpec, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	c := spec.DNSConfig
	if spec.DNSPolicy == corev1.DNSNone {
		if c == nil {
			return append(errs, field.Required(at, fmt.Sprintf("must provide `dnsConfig` when `dnsPolicy` is %s", corev1.DNSNone)))
		}
		if len(c.Nameservers) == 0 {
			return append(errs, field.Required(at.Child("nameservers"),
				fmt.Sprintf("must provide at least one DNS nameserver when `dnsPolicy` is %s", corev1.DNSNone)))
		}
	}
	if c == nil {
		return errs
	}
	if len(c.Nameservers) > maxNameservers {
		errs = append(errs, field.Invalid(at.Child("nameservers"), c.Nameservers, fmt.Sprintf("must not have more than %v nameservers", maxNameservers)))
	}
	for i, ip := range c.Nameservers {
		errs = append(errs, validation.IsValidIPForLegacyField(at.Child("nameservers").Index(i), ip, true, nil)...)
	}
	if len(c.Searches) > maxSearches {
		errs = append(errs, field.Invalid(at.Child("searches"), c.Searches, fmt.Sprintf("must not have more than %v search paths", maxSearches)))
	}
	if len(strings.Join(c.Searches, " ")) > maxSearchChars {
		errs = append(errs, field.Invalid(at.Child("searches"), c.Searches,
			fmt.Sprintf("must not have more than %v characters (including spaces) in the search list", maxSearchChars)))
	}
	for i, s := range c.Searches {
		// A lone dot is the root; names in it may be absolute and have underscores.
		if s != "." {
			name := strings.TrimSuffix(s, ".")
			errs = append(errs, check.Each(validation.IsDNS1123SubdomainWithUnderscore(name), name, at.Child("searches").Index(i))...)
		}
	}
	for i, o := range c.Options {
		if o.Name == "" {
			errs = append(errs, field.Required(at.Child("options").Index(i), "must not be empty"))
		}
	}
	return errs
}

func validateHostAliases(aliases []corev1.HostAlias, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, a := range aliases {
		at := path.Index(i)
		errs = append(errs, validation.IsValidIPForLegacyField(at.Child("ip"), a.IP, true, nil)...)
		for j, name := range a.Hostnames {
			errs = append(errs, check.Subdomain(name, at.Child("hostnames").Index(j))...)
		}
	}
	return errs
}
