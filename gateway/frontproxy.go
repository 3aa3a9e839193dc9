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

// admitted returns the configuration with the proxies' authorities beside the clients'.
func (p *FrontProxy) admitted(config *tls.Config) *tls.Config {
	config = config.Clone()
	pool := x509.NewCertPool()
	if config.ClientCAs != nil {
		pool = config.ClientCAs.Clone()
	}
	for _, ca := range p.CAs {
		pool.AddCert(ca)
	}
	config.ClientCAs = pool
	return config
}

// asking returns the server's configuration, by which clients are asked for a certificate. Which are good is the identifier's to say, whose
// answer is a Status; a handshake that fails tells the client nothing.
func (c Config) asking() *tls.Config {
	if c.TLS == nil {
		return nil
	}
	config := c.TLS.Clone()
	if c.FrontProxy != nil {
		config = c.FrontProxy.admitted(config)
	}
	config.ClientAuth = tls.RequestClientCert
	return config
}

func (c Config) identifier() identity.Identifier {
	i := identity.Identifier{Expiration: expiration(c.Registerer)}
	if c.TLS != nil {
		i.Clients = c.TLS.ClientCAs
	}
	if p := c.FrontProxy; p != nil {
		authorities := x509.NewCertPool()
		for _, ca := range p.CAs {
			authorities.AddCert(ca)
		}
		i.Proxy = &identity.FrontProxy{
			Authorities: authorities, AllowedNames: p.AllowedNames,
			UsernameHeaders: p.UsernameHeaders, UIDHeaders: p.UIDHeaders, GroupHeaders: p.GroupHeaders, ExtraPrefixes: p.ExtraPrefixes,
		}
	}
	return i
}
