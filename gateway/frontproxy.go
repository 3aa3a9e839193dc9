package gateway

import (
	"crypto/tls"
	"crypto/x509"

	"howdah.dev/gateway/internal/identity"
)

// FrontProxy says which clients are proxies that speak for others, by their certificate, and in which headers they name the user.
// Header names and the meaning of empty lists are those of Kubernetes' --requestheader flags.
type FrontProxy struct {
	// CAs signed the proxies' certificates; they make no client certificates of others.
	CAs []*x509.Certificate
	// AllowedNames are the common names of proxies; empty allows every certificate of the CAs.
	AllowedNames []string
	// UsernameHeaders, UIDHeaders and GroupHeaders, as X-Remote-User; ExtraPrefixes, as X-Remote-Extra-.
	UsernameHeaders, UIDHeaders, GroupHeaders, ExtraPrefixes []string
}

// withAuthorities returns a pool with further authorities, and leaves the given one, which may be nil, as it is.
func withAuthorities(pool *x509.CertPool, more []*x509.Certificate) *x509.CertPool {
	switch {
	case len(more) == 0:
		return pool
	case pool == nil:
		pool = x509.NewCertPool()
	default:
		pool = pool.Clone()
	}
	for _, ca := range more {
		pool.AddCert(ca)
	}
	return pool
}

// asking returns the server's configuration, by which clients are asked for a certificate. Which are good is the identifier's to say, whose
// answer is a Status; a handshake that fails tells the client nothing.
func (c Config) asking() *tls.Config {
	if c.TLS == nil {
		return nil
	}
	config := c.TLS.Clone()
	config.ClientCAs = withAuthorities(config.ClientCAs, c.ClientCAs)
	if c.FrontProxy != nil {
		config.ClientCAs = withAuthorities(config.ClientCAs, c.FrontProxy.CAs)
	}
	config.ClientAuth = tls.RequestClientCert
	return config
}

func (c Config) identifier() identity.Identifier {
	i := identity.Identifier{Expiration: expiration(c.Registerer)}
	if c.TLS != nil {
		i.Clients = c.TLS.ClientCAs
	}
	if len(c.ClientCAs) > 0 {
		i.Others = withAuthorities(nil, c.ClientCAs)
	}
	if p := c.FrontProxy; p != nil {
		i.Proxy = &identity.FrontProxy{
			Authorities: withAuthorities(nil, p.CAs), AllowedNames: p.AllowedNames,
			UsernameHeaders: p.UsernameHeaders, UIDHeaders: p.UIDHeaders, GroupHeaders: p.GroupHeaders, ExtraPrefixes: p.ExtraPrefixes,
		}
	}
	return i
}
