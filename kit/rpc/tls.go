package rpc

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// Identity is a role's certificate folder: ca.crt, tls.crt and tls.key. The
// key pair is read again once a minute at most, so that a rotated certificate
// serves without a restart.
type Identity struct {
	dir  string
	pool *x509.CertPool

	mu   sync.Mutex
	pair *tls.Certificate
	read time.Time
}

// LoadIdentity reads a certificate folder and reports what is missing in it.
func LoadIdentity(dir string) (*Identity, error) {
	ca, err := os.ReadFile(filepath.Join(dir, "ca.crt"))
	if err != nil {
		return nil, fmt.Errorf("identity: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(ca) {
		return nil, fmt.Errorf("identity: %s holds no certificate", filepath.Join(dir, "ca.crt"))
	}
	id := &Identity{dir: dir, pool: pool}
	if _, err := id.certificate(); err != nil {
		return nil, err
	}
	return id, nil
}

func (id *Identity) certificate() (*tls.Certificate, error) {
	id.mu.Lock()
	defer id.mu.Unlock()
	if id.pair != nil && time.Since(id.read) < time.Minute {
		return id.pair, nil
	}
	pair, err := tls.LoadX509KeyPair(filepath.Join(id.dir, "tls.crt"), filepath.Join(id.dir, "tls.key"))
	if err != nil {
		if id.pair != nil { // half-written by a rotation; the old pair serves on
			return id.pair, nil
		}
		return nil, fmt.Errorf("identity: %w", err)
	}
	id.pair, id.read = &pair, time.Now()
	return id.pair, nil
}

// Certificate returns the pair as it is now.
func (id *Identity) Certificate() (*tls.Certificate, error) { return id.certificate() }

// Authority returns the PEM of the authority, as it is in the folder now.
func (id *Identity) Authority() ([]byte, error) { return os.ReadFile(filepath.Join(id.dir, "ca.crt")) }

// Server returns the configuration of a server that demands a certificate
// of its callers, signed by the cluster's authority.
func (id *Identity) Server() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		ClientAuth: tls.RequireAndVerifyClientCert,
		ClientCAs:  id.pool,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return id.certificate()
		},
	}
}

// Public returns the configuration of a server that verifies a certificate
// only where a caller presents one: the REST gateway's, whose callers may
// bring a token instead.
func (id *Identity) Public() *tls.Config {
	cfg := id.Server()
	cfg.MinVersion = tls.VersionTLS12
	cfg.ClientAuth = tls.VerifyClientCertIfGiven
	return cfg
}

// Client returns the configuration of a client that expects the server to
// bear serverName in a certificate of the cluster's authority.
func (id *Identity) Client(serverName string) *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		ServerName: serverName,
		RootCAs:    id.pool,
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return id.certificate()
		},
	}
}

// ClientOrganization returns a client configuration for servers whose
// address is not in their certificate (nodes): the chain is verified, and
// the certificate must bear the organization.
func (id *Identity) ClientOrganization(organization string) *tls.Config {
	return id.clientVerifying(func(leaf *x509.Certificate) error {
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
	return id.clientVerifying(func(*x509.Certificate) error { return nil })
}

// clientVerifying replaces the check of the server's name, and nothing else,
// by accept.
func (id *Identity) clientVerifying(accept func(leaf *x509.Certificate) error) *tls.Config {
	cfg := id.Client("")
	cfg.InsecureSkipVerify = true // VerifyConnection does all but the name
	cfg.VerifyConnection = func(state tls.ConnectionState) error {
		if len(state.PeerCertificates) == 0 {
			return errors.New("the server presented no certificate")
		}
		intermediates := x509.NewCertPool()
		for _, c := range state.PeerCertificates[1:] {
			intermediates.AddCert(c)
		}
		leaf := state.PeerCertificates[0]
		// A node that has joined has the certificate of a client alone: the signer of nodes gives no other, and who it is says that as well.
		usages := []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
		if _, err := leaf.Verify(x509.VerifyOptions{Roots: id.pool, Intermediates: intermediates, KeyUsages: usages}); err != nil {
			return err
		}
		return accept(leaf)
	}
	return cfg
}
