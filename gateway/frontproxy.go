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
	if config == nil {
		return nil
	}
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

// frontProxy is built from the configuration before the proxies' authorities were let in.
func (c Config) frontProxy(clients *x509.CertPool) *identity.FrontProxy {
	p := c.FrontProxy
	if p == nil {
		return nil
	}
	return &identity.FrontProxy{
		CAs: p.CAs, Clients: clients, AllowedNames: p.AllowedNames,
		UsernameHeaders: p.UsernameHeaders, UIDHeaders: p.UIDHeaders, GroupHeaders: p.GroupHeaders, ExtraPrefixes: p.ExtraPrefixes,
	}
}
