package authn

import (
	"context"
	"fmt"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"k8s.io/apimachinery/pkg/util/validation"
)

// nodeNameKey is the extra information of a service account that names the node which its token is bound to.
const nodeNameKey = "authentication.kubernetes.io/node-name"

// mode is a way to become somebody else. Constrained impersonation has a mode for each sort of user, whose verbs are
// impersonate:<mode> on whom to become, and impersonate-on:<mode>:<verb> on what the request is about. The older way, by the
// verb impersonate, is the last one.
type mode struct {
	name   string
	parts  []Access
	groups []string // of whom the caller becomes, where it names none
	// refusal says why the last of the parts is never allowed; "" where it may be.
	refusal string
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
				m.parts[i].Verb = "impersonate:" + m.name
			}
			m.parts = slices.Insert(m.parts, 0, target)
			all = append(all, m)
		}
	}
	legacy := mode{name: "legacy", parts: w.parts()}
	if namespace, _, ok := SplitServiceAccountName(w.name); ok {
		legacy.groups = ServiceAccountGroups(namespace)
	}
	return append(all, legacy)
}

func (w *wanted) constrained(caller *User) []mode {
	alone := w.uid == "" && len(w.groups) == 0 && len(w.extra) == 0
	if node, ok := strings.CutPrefix(w.name, NodeUserPrefix); ok && node != "" {
		if !alone {
			return nil
		}
		arbitrary := mode{name: "arbitrary-node", groups: []string{NodesGroup}, parts: []Access{identity("nodes", "", "", node)}}
		if caller.onNode(node) {
			own := mode{name: "associated-node", groups: arbitrary.groups, parts: []Access{identity("nodes", "", "", "*")}}
			return []mode{own, arbitrary}
		}
		return []mode{arbitrary}
	}
	if namespace, name, ok := SplitServiceAccountName(w.name); ok {
		if !alone {
			return nil
		}
		return []mode{{name: "serviceaccount", groups: ServiceAccountGroups(namespace), parts: []Access{identity("serviceaccounts", "", namespace, name)}}}
	}
	return []mode{w.userInfo()}
}

// userInfo is the mode for whoever is neither a node nor a service account.
func (w *wanted) userInfo() mode {
	m := mode{name: "user-info", parts: []Access{identity("users", "", "", w.name)}}
	if w.uid != "" {
		m.parts = append(m.parts, identity("uids", "", "", w.uid))
	}
	for _, group := range w.groups {
		m.parts = append(m.parts, identity("groups", "", "", group))
		if group == MastersGroup {
			m.refusal = "impersonating the system:masters group is not allowed"
			return m
		}
	}
	for _, e := range w.extra {
		if errs := checkExtraKey(e[0]); len(errs) > 0 {
			m.parts = append(m.parts, identity("userextras", "", "", ""))
			m.refusal = "impersonating an invalid key in extra is not allowed: " + errs.ToAggregate().Error()
			return m
		}
		m.parts = append(m.parts, identity("userextras", e[0], "", e[1]))
	}
	return m
}

// onNode reports whether the user is a service account whose token is bound to the node.
func (u *User) onNode(node string) bool {
	_, _, account := SplitServiceAccountName(u.Name)
	return account && slices.Equal(u.Extra[nodeNameKey], []string{node})
}

func checkExtraKey(key string) field.ErrorList {
	path := field.NewPath("extra", "key")
	if errs := validation.IsDomainPrefixedPath(path, key); len(errs) > 0 {
		return errs
	}
	return nil
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
