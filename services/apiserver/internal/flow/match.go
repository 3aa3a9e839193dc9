package flow

import (
	"cmp"
	"hash/fnv"
	"slices"
	"strings"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"

	"howdah.dev/services/apiserver/internal/authn"
)

// Request is what a request is judged by.
type Request struct {
	User *authn.User
	Verb string
	// Path is set where no resource is asked for.
	Path string
	// Group, Resource ("pods", "pods/status") and Namespace are what is asked for; Namespace is empty for what has none, and for
	// all of them.
	Group, Resource, Namespace string
	// Version and Name are told, not judged.
	Version, Name string
	// Width is how many seats it wants while it runs, before its level bounds them.
	Width int
	// Uncounted says of a watch that writes need not reckon with it: it is of the pods of one node, or told for others that are counted.
	Uncounted bool
}

// watched is what a watch is of, or what a write changes.
func (r *Request) watched() Watched {
	resource, _, _ := strings.Cut(r.Resource, "/")
	return Watched{Group: r.Group, Resource: resource, Namespace: r.Namespace, Name: r.Name}
}

// writes reports whether Kubernetes counts the request among those that write.
func (r *Request) writes() bool { return r.Verb != "get" && r.Verb != "list" && r.Verb != "watch" }

// told reports whether watches may be told of what the request does. A token changes nothing.
func (r *Request) told() bool {
	switch r.Verb {
	case "create", "update", "patch", "delete":
		return r.Path == "" && !(r.Group == "" && r.Resource == "serviceaccounts/token")
	}
	return false
}

// matches reports whether a schema's rules are for the request.
func matches(spec *flowcontrolv1.FlowSchemaSpec, r *Request) bool {
	for i := range spec.Rules {
		rule := &spec.Rules[i]
		if subjectIn(rule.Subjects, r.User) && (r.Path == "" && resourceIn(rule.ResourceRules, r) || r.Path != "" && pathIn(rule.NonResourceRules, r)) {
			return true
		}
	}
	return false
}

const all = "*"

func subjectIn(subjects []flowcontrolv1.Subject, u *authn.User) bool {
	for i := range subjects {
		s := &subjects[i]
		switch {
		case s.User != nil:
			if s.User.Name == all || s.User.Name == u.Name {
				return true
			}
		case s.Group != nil:
			if s.Group.Name == all || u.In(s.Group.Name) {
				return true
			}
		case s.ServiceAccount != nil:
			namespace, name, ok := accountOf(u.Name)
			if ok && namespace == s.ServiceAccount.Namespace && (s.ServiceAccount.Name == all || s.ServiceAccount.Name == name) {
				return true
			}
		}
	}
	return false
}

func accountOf(user string) (namespace, name string, ok bool) {
	rest, ok := strings.CutPrefix(user, "system:serviceaccount:")
	if !ok {
		return "", "", false
	}
	return strings.Cut(rest, ":")
}

func in(list []string, value string) bool {
	return len(list) > 0 && (list[0] == all || slices.Contains(list, value))
}

func resourceIn(rules []flowcontrolv1.ResourcePolicyRule, r *Request) bool {
	for i := range rules {
		rule := &rules[i]
		if !in(rule.Verbs, r.Verb) || !in(rule.APIGroups, r.Group) || !in(rule.Resources, r.Resource) {
			continue
		}
		if r.Namespace == "" && rule.ClusterScope || r.Namespace != "" && in(rule.Namespaces, r.Namespace) {
			return true
		}
	}
	return false
}

func pathIn(rules []flowcontrolv1.NonResourcePolicyRule, r *Request) bool {
	for i := range rules {
		if !in(rules[i].Verbs, r.Verb) {
			continue
		}
		for _, url := range rules[i].NonResourceURLs {
			prefix, wild := strings.CutSuffix(url, all)
			if url == r.Path || wild && strings.HasPrefix(r.Path, prefix) {
				return true
			}
		}
	}
	return false
}

// order sorts schemas as they are asked: by precedence, then by name.
func order(schemas []*flowcontrolv1.FlowSchema) {
	slices.SortFunc(schemas, func(a, b *flowcontrolv1.FlowSchema) int {
		return cmp.Or(cmp.Compare(a.Spec.MatchingPrecedence, b.Spec.MatchingPrecedence), cmp.Compare(a.Name, b.Name))
	})
}

// flowHash tells the flows of a schema from each other.
func flowHash(schema *flowcontrolv1.FlowSchema, r *Request) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(schema.Name))
	_, _ = h.Write([]byte{0})
	if d := schema.Spec.DistinguisherMethod; d != nil {
		switch d.Type {
		case flowcontrolv1.FlowDistinguisherMethodByUserType:
			_, _ = h.Write([]byte(r.User.Name))
		case flowcontrolv1.FlowDistinguisherMethodByNamespaceType:
			_, _ = h.Write([]byte(r.Namespace))
		}
	}
	// The hand reads the lower digits first, where this hash is weakest.
	x := h.Sum64()
	x ^= x >> 32
	x *= 0x9e3779b97f4a7c15
	return x ^ x>>29
}
