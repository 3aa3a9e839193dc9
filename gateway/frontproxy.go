package gateway

import (
	"crypto/tls"
	"crypto/x509"
	"sync"

	"howdah.dev/kit/pki"

	"howdah.dev/gateway/internal/identity"
)

// Authorities tells certificates of authorities as they are now: the same pointer until they change.
type Authorities interface{ Now() *pki.Authorities }

// FrontProxy says which clients are proxies that speak for others, by their certificate, and in which headers they name the user.
// Header names and the meaning of empty lists are those of Kubernetes' --requestheader flags.
type FrontProxy struct {
	// CAs signed the proxies' certificates; they make no client certificates of others.
	CAs Authorities
	// AllowedNames are the common names of proxies; empty allows every certificate of the CAs.
	AllowedNames []string
	// UsernameHeaders, UIDHeaders and GroupHeaders, as X-Remote-User; ExtraPrefixes, as X-Remote-Extra-.
	UsernameHeaders, UIDHeaders, GroupHeaders, ExtraPrefixes []string
}

// asking returns the server's configuration, by which clients are asked for a certificate. Which are good is the identifier's to say, whose
// answer is a Status; a handshake that fails tells the client nothing.
func (c Config) asking() *tls.Config {
	if c.TLS == nil {
		return nil
	}
	config := c.TLS.Clone()
	config.ClientAuth = tls.RequestClientCert
	a := asked{base: config.Clone()}
	// What a handshake is given in place of the server's own configuration must offer what that one does.
	a.base.NextProtos = []string{"h2", "http/1.1"}
	if c.Authority != nil {
		a.by = append(a.by, c.Authority)
	}
	if c.ClientCAs != nil {
		a.by = append(a.by, c.ClientCAs)
	}
	if c.FrontProxy != nil {
		a.by = append(a.by, c.FrontProxy.CAs)
	}
	config.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return a.config(), nil }
	return config
}

// asked is what clients are asked for: a certificate of authorities, which may change.
type asked struct {
	base *tls.Config
	by   []Authorities

	mu   sync.Mutex
	of   []*pki.Authorities // with which last was made
	last *tls.Config
}

// config names the authorities as they are now.
func (a *asked) config() *tls.Config {
	a.mu.Lock()
	defer a.mu.Unlock()
	same := a.last != nil
	now := make([]*pki.Authorities, len(a.by))
	for i, by := range a.by {
		now[i] = by.Now()
		same = same && now[i] == a.of[i]
	}
	if same {
		return a.last
	}
	config := a.base.Clone()
	config.ClientCAs = x509.NewCertPool()
	for _, authorities := range now {
		for _, ca := range authorities.Certificates {
			config.ClientCAs.AddCert(ca)
		}
	}
	a.of, a.last = now, config
	return config
}

func (c Config) identifier() identity.Identifier {
	i := identity.Identifier{Expiration: expiration(c.Registerer)}
	if c.Authority != nil {
		i.Clients = poolOf(c.Authority)
	}
	if c.ClientCAs != nil {
		i.Others = poolOf(c.ClientCAs)
	}
	if p := c.FrontProxy; p != nil {
		i.Proxy = &identity.FrontProxy{
			Authorities: poolOf(p.CAs), AllowedNames: p.AllowedNames,
			UsernameHeaders: p.UsernameHeaders, UIDHeaders: p.UIDHeaders, GroupHeaders: p.GroupHeaders, ExtraPrefixes: p.ExtraPrefixes,
		}
	}
	return i
}

func poolOf(a Authorities) func() *x509.CertPool {
	return func() *x509.CertPool { return a.Now().Pool }
}
