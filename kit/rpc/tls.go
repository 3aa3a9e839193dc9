package rpc

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"howdah.dev/kit/pki"
)

// Identity is a role's certificate folder: ca.crt, tls.crt and tls.key. They
// are read again every five seconds at most, so that what was rotated serves,
// and is believed, without a restart.
type Identity struct {
	authorities *pki.Bundle
	pair        *pki.KeyPair
}

// LoadIdentity reads a certificate folder and reports what is missing in it.
func LoadIdentity(dir string) (*Identity, error) {
	authorities, err := pki.LoadBundle(filepath.Join(dir, "ca.crt"))
	if err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	pair, err := pki.LoadKeyPair(filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key"))
	if err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	return &Identity{authorities: authorities, pair: pair}, nil
}

// Certificate returns the pair as it is now.
func (id *Identity) Certificate() *tls.Certificate { return id.pair.Certificate() }

// Authorities returns those of the cluster, which may change: while one is
// replaced, the folder has both.
func (id *Identity) Authorities() *pki.Bundle { return id.authorities }

// Server returns the configuration of a server that demands a certificate
// of its callers, signed by the cluster's authority.
func (id *Identity) Server() *tls.Config {
	base := &tls.Config{
		MinVersion: tls.VersionTLS13,
		ClientAuth: tls.RequireAndVerifyClientCert,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return id.pair.Certificate(), nil
		},
	}
	cfg := base.Clone()
	cfg.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		now := base.Clone()
		now.ClientCAs = id.authorities.Now().Pool
		return now, nil
	}
	return cfg
}

// Public returns the configuration of a server whose callers may bring a
// token in place of a certificate, and which judges by Authorities those
// that they show: a handshake that fails would tell them nothing.
func (id *Identity) Public() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		ClientAuth: tls.RequestClientCert,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return id.pair.Certificate(), nil
		},
	}
}

// Client returns the configuration of a client that expects the server to
// bear serverName in a certificate of the cluster's authority.
func (id *Identity) Client(serverName string) *tls.Config {
	return id.clientVerifying(serverName, func(leaf *x509.Certificate) error { return leaf.VerifyHostname(serverName) })
}

// ClientOrganization returns a client configuration for servers whose
// address is not in their certificate (nodes): the chain is verified, and
// the certificate must bear the organization.
func (id *Identity) ClientOrganization(organization string) *tls.Config {
	return id.clientVerifying("", func(leaf *x509.Certificate) error {
		if !slices.Contains(leaf.Subject.Organization, organization) {
			return fmt.Errorf("the server's certificate is not of %s", organization)
		}
		return nil
	})
}

// ClientAnyName returns a client configuration that accepts every
// certificate of the cluster's authority, whoever bears it: for a role that
// asks after its own health.
func (id *Identity) ClientAnyName() *tls.Config {
	return id.clientVerifying("", func(*x509.Certificate) error { return nil })
}

// clientVerifying verifies the server's chain by the authorities as they are
// at each handshake, which crypto/tls, given a pool once, could not; accept
// is the check of the server's name.
func (id *Identity) clientVerifying(serverName string, accept func(leaf *x509.Certificate) error) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		ServerName: serverName,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return id.pair.Certificate(), nil
		},
		InsecureSkipVerify: true, // VerifyConnection does it
		VerifyConnection: func(state tls.ConnectionState) error {
			if len(state.PeerCertificates) == 0 {
				return errors.New("the server presented no certificate")
			}
			intermediates := x509.NewCertPool()
			for _, c := range state.PeerCertificates[1:] {
				intermediates.AddCert(c)
			}
			leaf := state.PeerCertificates[0]
			if _, err := leaf.Verify(x509.VerifyOptions{Roots: id.authorities.Now().Pool, Intermediates: intermediates, KeyUsages: usagesFor(serverName)}); err != nil {
				return err
			}
			return accept(leaf)
		},
	}
}

// usagesFor are what a server's certificate may be for: a role's, which has a name to expect, for servers. A node that has joined has the certificate of a client
// alone: the signer of nodes gives no other, and who it is says that as well.
func usagesFor(serverName string) []x509.ExtKeyUsage {
	if serverName != "" {
		return []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	}
	return []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
}
