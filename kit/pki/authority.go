// Package pki makes the certificates by which the mesh knows itself: one
// authority, a key pair a role and a node, the key that signs service-account
// tokens, and kubeconfigs for those who come over REST.
package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"
)

const (
	authorityLifetime = 10 * 365 * 24 * time.Hour
	leafLifetime      = 365 * 24 * time.Hour
	// renewBefore is how long before its end a certificate is replaced.
	renewBefore = 30 * 24 * time.Hour
	// backdate lets a certificate serve on machines whose clock is behind.
	backdate = 5 * time.Minute
)

// Authority signs the cluster's certificates.
type Authority struct {
	Certificate *x509.Certificate
	// Others are trusted beside it, while it takes their place or one of them takes its own.
	Others []*x509.Certificate
	key    *ecdsa.PrivateKey
}

// NewAuthority makes a self-signed authority with a fresh P-256 key.
func NewAuthority(now time.Time) (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("authority key: %w", err)
	}
	return signSelf(key, now)
}

// signSelf issues the authority's own certificate. A renewal keeps key and
// subject, so that every certificate signed before still verifies.
func signSelf(key *ecdsa.PrivateKey, now time.Time) (*Authority, error) {
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: "howdah-ca"},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(authorityLifetime),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign | x509.KeyUsageDigitalSignature,
		BasicConstraintsValid: true,
		IsCA:                  true,
		DNSNames:              []string{"howdah-ca"},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("sign authority: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("sign authority: %w", err)
	}
	return &Authority{Certificate: cert, key: key}, nil
}

// PEM returns the authority's certificate, and after it those of the others.
func (a *Authority) PEM() []byte {
	text := encodeCertificate(a.Certificate.Raw)
	for _, other := range a.Others {
		text = append(text, encodeCertificate(other.Raw)...)
	}
	return text
}

// KeyPEM returns the authority's key.
func (a *Authority) KeyPEM() ([]byte, error) { return EncodeKey(a.key) }

// Pool returns a pool that holds the authority alone.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.Certificate)
	return pool
}

// Issue makes a fresh P-256 key and a certificate of a year for it.
func (a *Authority) Issue(s Subject, now time.Time) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("key of %s: %w", s.CommonName, err)
	}
	serial, err := newSerial()
	if err != nil {
		return Pair{}, err
	}
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: s.CommonName, Organization: s.Organizations},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(leafLifetime),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           s.usages(),
		BasicConstraintsValid: true,
	}
	template.DNSNames, template.IPAddresses = s.names()
	der, err := x509.CreateCertificate(rand.Reader, template, a.Certificate, &key.PublicKey, a.key)
	if err != nil {
		return Pair{}, fmt.Errorf("sign %s: %w", s.CommonName, err)
	}
	keyPEM, err := EncodeKey(key)
	if err != nil {
		return Pair{}, err
	}
	return Pair{Certificate: encodeCertificate(der), Key: keyPEM}, nil
}

// Subject is who a certificate speaks for and where it may be presented.
type Subject struct {
	CommonName    string   // the user's name
	Organizations []string // the user's groups
	Hosts         []string // DNS names and IP addresses; with any, it is a server certificate
	Client        bool     // may authenticate a client
}

func (s Subject) usages() []x509.ExtKeyUsage {
	var usages []x509.ExtKeyUsage
	if len(s.Hosts) > 0 {
		usages = append(usages, x509.ExtKeyUsageServerAuth)
	}
	if s.Client {
		usages = append(usages, x509.ExtKeyUsageClientAuth)
	}
	return usages
}

// names splits the hosts into DNS names and addresses, each once.
func (s Subject) names() (dns []string, ips []net.IP) {
	seen := map[string]bool{}
	for _, host := range s.Hosts {
		if host == "" || seen[host] {
			continue
		}
		seen[host] = true
		if ip := net.ParseIP(host); ip != nil {
			ips = append(ips, ip)
		} else {
			dns = append(dns, host)
		}
	}
	return dns, ips
}

// Pair is a certificate and its key, PEM-encoded.
type Pair struct {
	Certificate []byte
	Key         []byte
}

func newSerial() (*big.Int, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("serial number: %w", err)
	}
	return serial.Add(serial, big.NewInt(1)), nil
}

func encodeCertificate(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// EncodeKey returns a key in PEM form, as SEC 1 has it.
func EncodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, fmt.Errorf("encode key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}), nil
}

// DecodeKey reads what EncodeKey has made.
func DecodeKey(data []byte) (*ecdsa.PrivateKey, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "EC PRIVATE KEY" {
		return nil, errors.New("no EC private key in PEM form")
	}
	return x509.ParseECPrivateKey(block.Bytes)
}

func decodeCertificate(data []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(data)
	if block == nil || block.Type != "CERTIFICATE" {
		return nil, errors.New("no certificate in PEM form")
	}
	return x509.ParseCertificate(block.Bytes)
}
