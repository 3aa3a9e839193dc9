package rpc

import (
	"context"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
)

// User is who a certificate speaks for: its common name and organizations.
type User struct {
	Name   string
	Groups []string
}

// In reports whether the user is in the group.
func (u User) In(group string) bool {
	for _, g := range u.Groups {
		if g == group {
			return true
		}
	}
	return false
}

type userKey struct{}

// WithUser returns a context whose Peer is user. In-memory connections,
// which have no certificates, set it through InMemory.
func WithUser(ctx context.Context, user User) context.Context {
	return context.WithValue(ctx, userKey{}, user)
}

// Peer returns who is at the other end of the call's connection. ok is false
// where the connection bears no verified certificate.
func Peer(ctx context.Context) (user User, ok bool) {
	if u, ok := ctx.Value(userKey{}).(User); ok {
		return u, true
	}
	p, ok := peer.FromContext(ctx)
	if !ok {
		return User{}, false
	}
	switch info := p.AuthInfo.(type) {
	case memoryAuth:
		return info.user, true
	case credentials.TLSInfo:
		if len(info.State.VerifiedChains) == 0 {
			return User{}, false
		}
		subject := info.State.PeerCertificates[0].Subject
		return User{Name: subject.CommonName, Groups: subject.Organization}, true
	}
	return User{}, false
}
