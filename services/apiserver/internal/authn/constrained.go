package authn

import (
	"context"
	"fmt"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// NodeNameKey is the extra information of a service account that names the node which its token is bound to.
const NodeNameKey = "authentication.kubernetes.io/node-name"

// mode is a way to become somebody else. Constrained impersonation has a mode for each sort of user, whose verbs are
// impersonate:<mode> on whom to become, and impersonate-on:<mode>:<verb> on what the request is about. The older way, by the
// verb impersonate, is the last one.
type mode struct {
	name   string
	parts  []part
	groups []string // of whom the caller becomes, where it names none
}

const legacyMode = "legacy"

// verb is what the caller must be allowed to do to whom it becomes; "" for the older way.
func (m mode) verb() string {
	if m.name == legacyMode {
		return ""
	}
	return "impersonate:" + m.name
}

// part is what a mode takes.
type part struct {
	Access
	// refusal says why nobody may have it; "" where one may.
	refusal string
	// covers is how many of the next parts it stands for; where it is not allowed, they count.
	covers int
}

// modes are the ways that are open for what is wanted, in the order in which they are tried.
func (w *wanted) modes(ctx context.Context, caller *User) []mode {
	var all []mode
	if on, ok := asked(ctx); ok {
		for _, m := range w.constrained(caller) {
			// First what is to be done, so that one who may never do it as somebody else learns nothing of users.
			target := on
			target.Verb = "impersonate-on:" + m.name + ":" + on.Verb
			for i := range m.parts {
				m.parts[i].Verb = m.verb()
			}
			m.parts = slices.Insert(m.parts, 0, part{Access: target})
			all = append(all, m)
		}
	}
	legacy := mode{name: legacyMode, parts: w.parts()}
	if namespace, _, ok := SplitServiceAccountName(w.name); ok {
		legacy.groups = ServiceAccountGroups(namespace)
	}
	return append(all, legacy)
}

func (w *wanted) constrained(caller *User) []mode {
	alone := w.uid == "" && len(w.groups) == 0 && len(w.extra) == 0
	if node, ok := nodeName(w.name); ok {
		if !alone {
			return nil
		}
		arbitrary := mode{name: "arbitrary-node", groups: []string{NodesGroup}, parts: []part{{Access: identity("nodes", "", "", node)}}}
		if caller.onNode(node) {
			own := mode{name: "associated-node", groups: arbitrary.groups, parts: []part{{Access: identity("nodes", "", "", "*")}}}
			return []mode{own, arbitrary}
		}
		return []mode{arbitrary}
	}
	if namespace, name, ok := SplitServiceAccountName(w.name); ok {
		if !alone {
			return nil
		}
		return []mode{{name: "serviceaccount", groups: ServiceAccountGroups(namespace), parts: []part{{Access: identity("serviceaccounts", "", namespace, name)}}}}
	}
	return []mode{w.userInfo()}
}

// userInfo is the mode for whoever is neither a node nor a service account.
func (w *wanted) userInfo() mode {
	m := mode{name: "user-info", parts: []part{{Access: identity("users", "", "", w.name)}}}
	if w.uid != "" {
		m.parts = append(m.parts, part{Access: identity("uids", "", "", w.uid)})
	}
	m.parts = append(m.parts, w.groupParts()...)
	m.parts = append(m.parts, w.extraParts()...)
	return m
}

// many is from how many groups or values of extra on it is asked first whether the caller may have all.
const many = 4

func (w *wanted) groupParts() (all []part) {
	switch {
	case slices.Contains(w.groups, ""):
		return []part{{Access: identity("groups", "", "", ""), refusal: "impersonating the empty string group is not allowed"}}
	case slices.Contains(w.groups, MastersGroup):
		return []part{{Access: identity("groups", "", "", MastersGroup), refusal: "impersonating the system:masters group is not allowed"}}
	case len(w.groups) >= many:
		all = append(all, part{Access: identity("groups", "", "", "*"), covers: len(w.groups)})
	}
	for _, group := range w.groups {
		all = append(all, part{Access: identity("groups", "", "", group)})
	}
	return all
}

func (w *wanted) extraParts() (all []part) {
	for _, e := range w.extra {
		if refusal := extraRefusal(e[0], e[1]); refusal != "" {
			return []part{{Access: identity("userextras", "", "", ""), refusal: refusal}}
		}
	}
	if len(w.extra) >= many {
		all = append(all, part{Access: identity("userextras", "*", "", "*"), covers: len(w.extra)})
	}
	for _, e := range w.extra {
		all = append(all, part{Access: identity("userextras", e[0], "", e[1])})
	}
	return all
}

// extraRefusal says why nobody may have such extra information; "" where one may.
func extraRefusal(key, value string) string {
	errs := validation.IsDomainPrefixedPath(field.NewPath("extra", "key"), key)
	switch {
	case key == "":
		return "impersonating the empty string key in extra is not allowed"
	case len(errs) > 0:
		return "impersonating an invalid key in extra is not allowed: " + errs.ToAggregate().Error()
	case key != strings.ToLower(key):
		return fmt.Sprintf("impersonating a non-lowercase key in extra is not allowed: %q", key)
	case value == "":
		return "impersonating the empty string value in extra is not allowed"
	}
	return ""
}

// nodeName returns the node whose user name it is.
func nodeName(user string) (node string, ok bool) {
	node, ok = strings.CutPrefix(user, NodeUserPrefix)
	return node, ok && len(apivalidation.NameIsDNSSubdomain(node, false)) == 0
}

// onNode reports whether the user is a service account whose token is bound to the node.
func (u *User) onNode(node string) bool {
	_, _, account := SplitServiceAccountName(u.Name)
	return account && slices.Equal(u.Extra[NodeNameKey], []string{node})
}

// identity is a part of a user, as roles name it.
func identity(resource, subresource, namespace, name string) Access {
	gv := authenticationv1.SchemeGroupVersion
	return Access{Group: gv.Group, Version: gv.Version, Resource: resource, Subresource: subresource, Namespace: namespace, Name: name}
}

// shown is the user as Kubernetes' error shows it.
func (w *wanted) shown() string {
	var extra map[string][]string
	for _, e := range w.extra {
		if extra == nil {
			extra = map[string][]string{}
		}
		extra[e[0]] = append(extra[e[0]], e[1])
	}
	return fmt.Sprintf("&user.DefaultInfo{Name:%#v, UID:%#v, Groups:%#v, Extra:%#v}", w.name, w.uid, w.groups, extra)
}
