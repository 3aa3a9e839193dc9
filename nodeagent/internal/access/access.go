// Package access decides who may ask the node's HTTPS endpoint for what, as a kubelet does: a client certificate or a token says who
// it is, and the API server whether that user may.
package access

import (
	"context"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/utils/clock"
)

// How long answers of the API server count, and how many of them are kept. The times are the kubelet's defaults.
const (
	tokenTTL     = 2 * time.Minute
	allowedTTL   = 5 * time.Minute
	deniedTTL    = 30 * time.Second
	maxAnswers   = 1024
	maxToken     = 16 << 10 // bytes; longer ones are nobody's
	reviewWithin = 10 * time.Second
)

// ownPrefix begins the names of the cluster's own programs.
const ownPrefix = "howdah:"

// Groups that every caller is in, and the user who has not said who it is.
const (
	authenticated   = "system:authenticated"
	unauthenticated = "system:unauthenticated"
	anonymous       = "system:anonymous"
)

// User is who makes a request.
type User struct {
	Name, UID string
	Groups    []string
	Extra     map[string][]string
	certified bool // by a certificate of the cluster's authority, not by what some token says
}

// Reviewer asks the API server.
type Reviewer interface {
	ReviewToken(ctx context.Context, token string) (authenticationv1.TokenReviewStatus, error)
	ReviewAccess(ctx context.Context, spec authorizationv1.SubjectAccessReviewSpec) (authorizationv1.SubjectAccessReviewStatus, error)
}

// Config of a Guard.
type Config struct {
	NodeName string
	// Authorities returns those that sign the certificates of clients, as they are now.
	Authorities func() *x509.CertPool
	// Others, which may be nil, returns those that sign certificates of clients, too, but of none of the cluster's own.
	Others func() *x509.CertPool
	// Trusted is the organization in the certificates of those who may do everything without being asked about: the API servers.
	Trusted string
	// Anonymous lets requests of nobody through to the decision whether system:anonymous may; otherwise they are refused.
	Anonymous bool
	Reviewer  Reviewer
	Clock     clock.Clock
	// Decided, which may be nil, counts: "allowed", "forbidden", "unauthenticated" or "error".
	Decided func(outcome string)
}

// Guard stands before a handler. It is safe for concurrent use.
type Guard struct {
	cfg    Config
	tokens *cache.LRUExpireCache // by hash: *User, nil for a token that is nobody's
	access *cache.LRUExpireCache // by what was asked: bool
}

// New returns a Guard.
func New(cfg Config) *Guard {
	if cfg.Decided == nil {
		cfg.Decided = func(string) {}
	}
	return &Guard{cfg: cfg, tokens: cache.NewLRUExpireCacheWithClock(maxAnswers, cfg.Clock), access: cache.NewLRUExpireCacheWithClock(maxAnswers, cfg.Clock)}
}

// Protect returns a handler that lets only those through to next who may. The texts of refusals are the kubelet's.
func (g *Guard) Protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, err := g.authenticate(r)
		if err != nil {
			slog.WarnContext(r.Context(), "authenticate a caller of the node", "node", g.cfg.NodeName, "err", err)
		}
		if user == nil {
			g.cfg.Decided("unauthenticated")
			if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
				w.Header().Set("Connection", "close") // it is the connection's certificate: the next one may show another
			}
			http.Error(w, "Unauthorized", http.StatusUnauthorized)
			return
		}
		if g.cfg.Trusted != "" && user.certified && slices.Contains(user.Groups, g.cfg.Trusted) {
			g.cfg.Decided("allowed")
			next.ServeHTTP(w, r)
			return
		}
		verb, subresources := verbs[r.Method], Subresources(r.URL.Path)
		for _, subresource := range subresources {
			allowed, err := g.allowed(r.Context(), user, verb, subresource)
			if err != nil {
				g.cfg.Decided("error")
				slog.WarnContext(r.Context(), "authorize a caller of the node", "node", g.cfg.NodeName, "user", user.Name, "err", err)
				http.Error(w, fmt.Sprintf("Authorization error (user=%s, verb=%s, resource=nodes, subresource=%s)", user.Name, verb, subresource), http.StatusInternalServerError)
				return
			}
			if allowed {
				g.cfg.Decided("allowed")
				next.ServeHTTP(w, r)
				return
			}
		}
		g.cfg.Decided("forbidden")
		http.Error(w, fmt.Sprintf("Forbidden (user=%s, verb=%s, resource=nodes, subresource(s)=%v)", user.Name, verb, subresources), http.StatusForbidden)
	})
}
