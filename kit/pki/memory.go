package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"fmt"
)

// Memory is a PKI that is never written down: for tests, and for a
// standalone control plane that starts anew each time.
type Memory struct {
	*Authority
	// TokenKey signs service-account tokens.
	TokenKey *ecdsa.PrivateKey

	options Options
	pairs   map[string]Pair
}

// NewMemory makes the same certificates as Init.
func NewMemory(options Options) (*Memory, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	authority, err := NewAuthority(options.Now())
	if err != nil {
		return nil, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("token key: %w", err)
	}
	m := &Memory{Authority: authority, TokenKey: key, options: options, pairs: map[string]Pair{}}
	for name, subject := range options.subjects() {
		if m.pairs[name], err = authority.Issue(subject, options.Now()); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// Pair returns the certificate of a role or node, and false where there is none.
func (m *Memory) Pair(name string) (Pair, bool) {
	pair, ok := m.pairs[name]
	return pair, ok
}

// Public returns the TLS configuration of a role's server that verifies a
// client certificate where one is presented: the REST gateway's.
func (m *Memory) Public(role string) (*tls.Config, error) {
	certificate, err := m.certificate(role)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:   tls.VersionTLS12,
		Certificates: []tls.Certificate{certificate},
		ClientCAs:    m.Pool(),
		ClientAuth:   tls.VerifyClientCertIfGiven,
	}, nil
}

// Client returns the TLS configuration of a role's client.
func (m *Memory) Client(role string) (*tls.Config, error) {
	certificate, err := m.certificate(role)
	if err != nil {
		return nil, err
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificate}, RootCAs: m.Pool()}, nil
}

// Kubeconfig returns a kubeconfig of a role or node for the gateway at server.
func (m *Memory) Kubeconfig(name, server string) ([]byte, error) {
	pair, ok := m.pairs[name]
	if !ok {
		return nil, fmt.Errorf("no certificate for %q", name)
	}
	return Kubeconfig(server, m.PEM(), m.options.subjects()[name].CommonName, pair)
}

func (m *Memory) certificate(name string) (tls.Certificate, error) {
	pair, ok := m.pairs[name]
	if !ok {
		return tls.Certificate{}, fmt.Errorf("no certificate for %q", name)
	}
	return tls.X509KeyPair(pair.Certificate, pair.Key)
}
