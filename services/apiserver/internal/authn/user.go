// Package authn finds out who a request speaks for.
package authn

import (
	"context"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/validation"
)

// Well-known names.
const (
	AnonymousUser        = "system:anonymous"
	UnauthenticatedGroup = "system:unauthenticated"
	GatewayGroup         = "howdah:gateways"
	ServiceGroup         = "howdah:services"
	MastersGroup         = "system:masters"
	NodesGroup           = "system:nodes"
	AuthenticatedGroup   = "system:authenticated"
	ServiceAccountsGroup = "system:serviceaccounts"
	NodeUserPrefix       = "system:node:"
	serviceAccountPrefix = "system:serviceaccount:"
)

// User is who a request speaks for.
type User struct {
	Name   string
	UID    string
	Groups []string
	Extra  map[string][]string
	// Impersonator is who acts as this user; nil where it acts for itself.
	Impersonator *User
	// Constraint is the verb by which it may, where that is one of constrained impersonation.
	Constraint string
	// Warnings are what the caller is to be told of its credential.
	Warnings []string
}

// In reports whether the user is in the group.
func (u *User) In(group string) bool { return slices.Contains(u.Groups, group) }

// Node returns the name of the node that the user is, or "".
func (u *User) Node() string {
	if !u.In(NodesGroup) || len(u.Name) <= len(NodeUserPrefix) || u.Name[:len(NodeUserPrefix)] != NodeUserPrefix {
		return ""
	}
	return u.Name[len(NodeUserPrefix):]
}

type userKey struct{}

// WithUser returns a context that carries the user.
func WithUser(ctx context.Context, u *User) context.Context {
	return context.WithValue(ctx, userKey{}, u)
}

// From returns the user of a context, or nil.
func From(ctx context.Context) *User {
	u, _ := ctx.Value(userKey{}).(*User)
	return u
}

// ServiceAccountName is the user name of a service account.
func ServiceAccountName(namespace, name string) string {
	return serviceAccountPrefix + namespace + ":" + name
}

// SplitServiceAccountName returns the namespace and name of a service account's user name.
func SplitServiceAccountName(user string) (namespace, name string, ok bool) {
	rest, ok := strings.CutPrefix(user, serviceAccountPrefix)
	if !ok {
		return "", "", false
	}
	namespace, name, ok = strings.Cut(rest, ":")
	if !ok || len(validation.ValidateNamespaceName(namespace, false)) > 0 || len(validation.ValidateServiceAccountName(name, false)) > 0 {
		return "", "", false
	}
	return namespace, name, true
}

// ServiceAccountGroups are the groups of every service account of the namespace.
func ServiceAccountGroups(namespace string) []string {
	return []string{ServiceAccountsGroup, ServiceAccountsGroup + ":" + namespace}
}
