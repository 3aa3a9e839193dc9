package access

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// authenticate says who makes a request; nil is nobody who may go on, and the error, where there is one, why. A certificate counts
// before a token, and what cannot be verified does not keep the next from being looked at.
func (g *Guard) authenticate(r *http.Request) (*User, error) {
	var problems error
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		user, err := g.certified(r.TLS.PeerCertificates)
		if err == nil {
			return user, nil
		}
		problems = err
	}
	if token, ok := bearer(r); ok {
		user, err := g.token(r.Context(), token)
		if user != nil {
			return user, nil
		}
		if err != nil {
			problems = errors.Join(problems, err)
		}
		return nil, problems // who brings a token that does not do is not taken for nobody
	}
	if problems == nil && g.cfg.Anonymous {
		return &User{Name: anonymous, Groups: []string{unauthenticated}}, nil
	}
	return nil, problems
}

// certified is the user of a client certificate that an authority of the cluster has signed, or one of the others. Those give no name that is the cluster's own.
func (g *Guard) certified(chain []*x509.Certificate) (*User, error) {
	leaf := chain[0]
	if leaf.Subject.CommonName == "" {
		return nil, errors.New("the client certificate names nobody")
	}
	user := &User{Name: leaf.Subject.CommonName, Groups: joined(leaf.Subject.Organization), certified: true}
	err := g.verify(chain, g.cfg.Authorities())
	if err != nil && g.cfg.Others != nil && !strings.HasPrefix(user.Name, ownPrefix) && g.verify(chain, g.cfg.Others()) == nil {
		user.certified = false
		return user, nil
	}
	if err != nil {
		return nil, fmt.Errorf("client certificate of %q: %w", user.Name, err)
	}
	return user, nil
}

// verify says what is wrong with a certificate, to those who believe the authorities.
func (g *Guard) verify(chain []*x509.Certificate, authorities *x509.CertPool) error {
	options := x509.VerifyOptions{
		Roots: authorities, Intermediates: x509.NewCertPool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, CurrentTime: g.cfg.Clock.Now(),
	}
	for _, c := range chain[1:] {
		options.Intermediates.AddCert(c)
	}
	_, err := chain[0].Verify(options)
	return err
}

// joined adds the group of all who have said who they are.
func joined(groups []string) []string {
	if slices.Contains(groups, authenticated) {
		return groups
	}
	return append(slices.Clone(groups), authenticated)
}

// bearer is the token of a request.
func bearer(r *http.Request) (string, bool) {
	scheme, token, _ := strings.Cut(strings.TrimSpace(r.Header.Get("Authorization")), " ")
	token = strings.TrimSpace(token)
	return token, strings.EqualFold(scheme, "bearer") && token != ""
}

// token is the user of a token, as the API server says, or has said a short while ago; nil for a token that is nobody's.
func (g *Guard) token(ctx context.Context, token string) (*User, error) {
	if len(token) > maxToken {
		return nil, errors.New("the token is too long")
	}
	key := sha256.Sum256([]byte(token)) // a token is not kept
	if known, ok := g.tokens.Get(key); ok {
		return known.(*User), nil
	}
	ctx, cancel := context.WithTimeout(ctx, reviewWithin)
	defer cancel()
	answer, err := g.cfg.Reviewer.ReviewToken(ctx, token)
	if err != nil {
		return nil, fmt.Errorf("review a token: %w", err)
	}
	var user *User
	if answer.Authenticated {
		user = &User{Name: answer.User.Username, UID: answer.User.UID, Groups: joined(answer.User.Groups), Extra: map[string][]string{}}
		for name, values := range answer.User.Extra {
			user.Extra[name] = values
		}
	}
	g.tokens.Add(key, user, tokenTTL)
	return user, nil
}
