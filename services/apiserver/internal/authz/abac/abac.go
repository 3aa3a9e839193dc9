// Package abac decides by the policies of a file: a JSON object a line, in Kubernetes' legacy format.
package abac

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"howdah.dev/services/apiserver/internal/authn"
	"howdah.dev/services/apiserver/internal/authz"
)

// policy is what one line allows. "*" stands for all.
type policy struct {
	User            string `json:"user"`
	Group           string `json:"group"`
	Readonly        bool   `json:"readonly"`
	APIGroup        string `json:"apiGroup"`
	Resource        string `json:"resource"`
	Namespace       string `json:"namespace"`
	NonResourcePath string `json:"nonResourcePath"`
}

// Policies allow what one of them allows, and have no opinion on the rest.
type Policies []policy

// Load reads a file. Lines without an apiVersion are the oldest form, in which what is left out stands for all.
func Load(path string) (Policies, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	var all Policies
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		p, err := parse([]byte(text))
		if err != nil {
			return nil, fmt.Errorf("error reading policy file %s, line %d: %s: %w", path, n, text, err)
		}
		all = append(all, p)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("error reading policy file %s: %w", path, err)
	}
	return all, nil
}

func parse(line []byte) (policy, error) {
	var versioned struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Spec       policy `json:"spec"`
	}
	if err := json.Unmarshal(line, &versioned); err != nil {
		return policy{}, err
	}
	switch {
	case versioned.APIVersion == "" && versioned.Kind == "":
		var p policy
		err := json.Unmarshal(line, &p)
		return oldest(p), err
	case versioned.APIVersion != "abac.authorization.kubernetes.io/v1beta1" || versioned.Kind != "Policy":
		return policy{}, fmt.Errorf("unrecognized object %s %s", versioned.APIVersion, versioned.Kind)
	}
	return everybody(versioned.Spec), nil
}

// everybody says by their group what "*" says.
func everybody(p policy) policy {
	if p.User == "*" || p.Group == "*" {
		p.User, p.Group = "", authn.AuthenticatedGroup
	}
	return p
}

func oldest(p policy) policy {
	if p.User == "" && p.Group == "" {
		p.Group = authn.AuthenticatedGroup
	}
	p = everybody(p)
	p.NonResourcePath = ""
	if p.Namespace == "" && p.Resource == "" {
		p.NonResourcePath = "*"
	}
	if p.Namespace == "" {
		p.Namespace = "*"
	}
	if p.Resource == "" {
		p.Resource = "*"
	}
	p.APIGroup = "*"
	return p
}

// Authorize implements authz.Authorizer.
func (all Policies) Authorize(_ context.Context, a *authz.Attributes) (authz.Decision, string, error) {
	for i := range all {
		if all[i].allows(a) {
			return authz.Allow, "", nil
		}
	}
	return authz.NoOpinion, "No policy matched.", nil
}

// RulesFor implements authz.Lister.
func (all Policies) RulesFor(_ context.Context, user *authn.User, namespace string) (rules []rbacv1.PolicyRule, _ bool, _ error) {
	for i := range all {
		p := &all[i]
		if !p.concerns(user) {
			continue
		}
		verbs := []string{"*"}
		if p.Readonly {
			verbs = []string{"get", "list", "watch"}
		}
		if p.Resource != "" && matches(p.Namespace, namespace) {
			rules = append(rules, rbacv1.PolicyRule{Verbs: verbs, APIGroups: []string{p.APIGroup}, Resources: []string{p.Resource}})
		}
		if p.NonResourcePath != "" {
			rules = append(rules, rbacv1.PolicyRule{Verbs: verbs, NonResourceURLs: []string{p.NonResourcePath}})
		}
	}
	return rules, false, nil
}

func (p *policy) allows(a *authz.Attributes) bool {
	if !p.concerns(a.User) || p.Readonly && a.Verb != "get" && a.Verb != "list" && a.Verb != "watch" {
		return false
	}
	if a.ForPath() {
		prefix, star := strings.CutSuffix(p.NonResourcePath, "*")
		return p.NonResourcePath == a.Path || star && strings.HasPrefix(a.Path, prefix)
	}
	return matches(p.Namespace, a.Namespace) && matches(p.Resource, a.Resource) && matches(p.APIGroup, a.Group)
}

// concerns reports whether the user is the one, and in the group, that the policy names; one that names nobody concerns nobody.
func (p *policy) concerns(u *authn.User) bool {
	return (p.User != "" || p.Group != "") && (p.User == "" || p.User == u.Name) && (p.Group == "" || slices.Contains(u.Groups, p.Group))
}

func matches(want, is string) bool { return want == "*" || want == is }
