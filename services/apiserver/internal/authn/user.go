// Package authn finds out who a request speaks for.
package authn

import (
	"context"
	"slices"
)

// Well-known names.
const (
	AnonymousUser        = "system:anonymous"
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
