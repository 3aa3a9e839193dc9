// Package rbac decides by roles and their bindings, from memory.
package rbac

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"howdah.dev/services/apiserver/internal/authz"
)

// Allowed reports whether one of the rules allows what is asked for.
func Allowed(rules []rbacv1.PolicyRule, a *authz.Attributes) bool {
	for i := range rules {
		if allows(&rules[i], a) {
			return true
		}
	}
	return false
}

// allows reports whether the rule allows what is asked for.
func allows(rule *rbacv1.PolicyRule, a *authz.Attributes) bool {
	if !has(rule.Verbs, a.Verb) {
		return false
	}
	if a.ForPath() {
		return slices.ContainsFunc(rule.NonResourceURLs, func(url string) bool { return pathCovers(url, a.Path) })
	}
	return has(rule.APIGroups, a.Group) && resourceIn(rule.Resources, a.Resource, a.Subresource) &&
		(len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, a.Name))
}

func has(list []string, want string) bool {
	for _, s := range list {
		if s == want || s == rbacv1.VerbAll {
			return true
		}
	}
	return false
}

// resourceIn reports whether a list names the resource: in full, as "*", or, for a subresource, as "*/scale".
func resourceIn(list []string, resource, subresource string) bool {
	for _, r := range list {
		if r == rbacv1.ResourceAll {
			return true
		}
		if subresource == "" {
			if r == resource {
				return true
			}
			continue
		}
		main, sub, ok := strings.Cut(r, "/")
		if ok && sub == subresource && (main == resource || main == "*") {
			return true
		}
	}
	return false
}

// pathCovers reports whether a rule's URL is the path, or a prefix of it that ends with a star.
func pathCovers(url, path string) bool {
	if prefix, star := strings.CutSuffix(url, "*"); star {
		return strings.HasPrefix(path, prefix)
	}
	return url == path
}
