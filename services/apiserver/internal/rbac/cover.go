package rbac

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"howdah.dev/services/apiserver/internal/authz"
)

// Missing returns the part of the wanted rules that the held ones do not cover, compacted as Kubernetes does: rules about resources
// that differ only by verb are one, with a verb as often as it was wanted, and rules about URLs stay apart.
func Missing(held, wanted []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	var missing []rbacv1.PolicyRule
	at := map[string]int{}
	for _, atom := range split(wanted) {
		if slices.ContainsFunc(held, func(h rbacv1.PolicyRule) bool { return covers(&h, &atom) }) {
			continue
		}
		if len(atom.NonResourceURLs) == 0 {
			rest := atom
			rest.Verbs = nil
			key := Describe(rest)
			if i, seen := at[key]; seen {
				missing[i].Verbs = append(missing[i].Verbs, atom.Verbs[0])
				continue
			}
			at[key] = len(missing)
		}
		missing = append(missing, atom)
	}
	return missing
}

// split takes rules apart into rules of one verb, one group and one resource, or one verb and one URL.
func split(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	var atoms []rbacv1.PolicyRule
	for _, r := range rules {
		for _, verb := range r.Verbs {
			for _, url := range r.NonResourceURLs {
				atoms = append(atoms, rbacv1.PolicyRule{Verbs: []string{verb}, NonResourceURLs: []string{url}})
			}
			for _, group := range r.APIGroups {
				for _, resource := range r.Resources {
					atom := rbacv1.PolicyRule{Verbs: []string{verb}, APIGroups: []string{group}, Resources: []string{resource}}
					if len(r.ResourceNames) == 0 {
						atoms = append(atoms, atom)
					}
					for _, name := range r.ResourceNames {
						atom.ResourceNames = []string{name}
						atoms = append(atoms, atom)
					}
				}
			}
		}
	}
	return atoms
}

// covers reports whether a rule allows all that an atom does.
func covers(held, atom *rbacv1.PolicyRule) bool {
	if !has(held.Verbs, atom.Verbs[0]) {
		return false
	}
	if len(atom.NonResourceURLs) > 0 {
		return slices.ContainsFunc(held.NonResourceURLs, func(url string) bool { return pathCovers(url, atom.NonResourceURLs[0]) })
	}
	if !has(held.APIGroups, atom.APIGroups[0]) {
		return false
	}
	resource, sub, _ := strings.Cut(atom.Resources[0], "/")
	if !resourceIn(held.Resources, resource, sub) && !slices.Contains(held.Resources, atom.Resources[0]) {
		return false
	}
	if len(held.ResourceNames) == 0 {
		return true
	}
	return len(atom.ResourceNames) > 0 && slices.Contains(held.ResourceNames, atom.ResourceNames[0])
}

// Describe is a rule as Kubernetes writes it in refusals.
func Describe(r rbacv1.PolicyRule) string {
	var parts []string
	for _, p := range []struct {
		name   string
		values []string
	}{
		{"APIGroups", r.APIGroups}, {"Resources", r.Resources}, {"NonResourceURLs", r.NonResourceURLs},
		{"ResourceNames", r.ResourceNames}, {"Verbs", r.Verbs},
	} {
		if len(p.values) > 0 {
			parts = append(parts, fmt.Sprintf("%s:%q", p.name, p.values))
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}

// Escalation is the refusal of a user who would grant more than what they hold.
type Escalation struct {
	User    string
	Groups  []string
	Missing []rbacv1.PolicyRule
	// Unknown are roles that the user is bound to and that do not exist.
	Unknown error
}

// Error has Kubernetes' text.
func (e *Escalation) Error() string {
	lines := make([]string, 0, len(e.Missing))
	for _, m := range e.Missing {
		lines = append(lines, Describe(m))
	}
	sort.Strings(lines)
	text := fmt.Sprintf("user %q (groups=%q) is attempting to grant RBAC permissions not currently held:\n%s",
		e.User, e.Groups, strings.Join(lines, "\n"))
	if e.Unknown != nil {
		text += fmt.Sprintf("; resolution errors: [%v]", e.Unknown)
	}
	return text
}

var _ authz.Authorizer = Authorizer{}
