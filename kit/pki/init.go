package pki

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/client-go/util/cert"
)

// Init fills dir with the cluster's certificates:
//
//	ca/{ca.crt,ca.key}
//	<role or node>/{ca.crt,tls.crt,tls.key}
//	apiserver/{sa.key,sa.pub,encryption.yaml}
//	controllers/ca.key, by which they sign CertificateSigningRequests
//	admin/kubeconfig dns/kubeconfig
//
// What is there and valid is kept; a certificate that ends within 30 days,
// or whose subject or names have changed, is replaced. The token-signing key,
// the authority's key and the key of what is encrypted in the database are never replaced. A file that does not parse
// where a key must be kept is an error, never overwritten.
func Init(dir string, options Options) error {
	options, err := options.withDefaults()
	if err != nil {
		return err
	}
	d := folder{path: dir, owner: options.Owner}
	authority, err := d.authority(options.Now())
	if err != nil {
		return err
	}
	subjects := options.subjects()
	for _, name := range slices.Sorted(maps.Keys(subjects)) {
		of := d
		if owner, ok := options.Owners[name]; ok {
			of.owner = &owner
		}
		pair, err := of.pair(authority, name, subjects[name], options.Now())
		if err != nil {
			return err
		}
		server := map[string]string{"admin": options.AdminServer, "dns": options.MeshServer}[name]
		if server == "" {
			continue
		}
		kubeconfig, err := Kubeconfig(server, authority.PEM(), subjects[name].CommonName, pair)
		if err != nil {
			return err
		}
		if err := d.write(filepath.Join(name, "kubeconfig"), kubeconfig, 0o600); err != nil {
			return err
		}
	}
	return errors.Join(d.tokenKey("apiserver"), d.encryption("apiserver"), options.signingKey(d, authority))
}

// signingKey gives the controllers the authority's key.
func (options Options) signingKey(d folder, a *Authority) error {
	if owner, ok := options.Owners["controllers"]; ok {
		d.owner = &owner
	}
	key, err := a.KeyPEM()
	if err != nil {
		return err
	}
	return d.write("controllers/ca.key", key, 0o600)
}

// folder is where the files live and whose they are.
type folder struct {
	path  string
	owner *Owner
}

func (d folder) authority(now time.Time) (*Authority, error) {
	keyPEM, err := d.read("ca/ca.key")
	if errors.Is(err, fs.ErrNotExist) {
		a, err := NewAuthority(now)
		if err != nil {
			return nil, err
		}
		return a, d.writeAuthority(a)
	}
	if err != nil {
		return nil, err
	}
	key, err := DecodeKey(keyPEM)
	if err != nil {
		return nil, fmt.Errorf("ca/ca.key: %w", err)
	}
	a, err := d.certified(key)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err == nil && now.Add(renewBefore).Before(a.Certificate.NotAfter) {
		return a, nil
	}
	renewed, err := signSelf(key, now)
	if err != nil {
		return nil, err
	}
	if a != nil {
		renewed.Others = a.Others
	}
	return renewed, d.writeAuthority(renewed)
}

// certified reads the certificate of the authority's key, and those that are trusted beside it.
func (d folder) certified(key *ecdsa.PrivateKey) (*Authority, error) {
	text, err := d.read("ca/ca.crt")
	if err != nil {
		return nil, err
	}
	certificates, err := cert.ParseCertsPEM(text)
	if err != nil {
		return nil, fmt.Errorf("ca/ca.crt: %w", err)
	}
	a := &Authority{key: key}
	for _, c := range certificates {
		if a.Certificate == nil && key.PublicKey.Equal(c.PublicKey) {
			a.Certificate = c
		} else {
			a.Others = append(a.Others, c)
		}
	}
	if a.Certificate == nil {
		return nil, errors.New("ca/ca.key is not the key of ca/ca.crt")
	}
	return a, nil
}

func (d folder) writeAuthority(a *Authority) error {
	key, err := EncodeKey(a.key)
	if err != nil {
		return err
	}
	return errors.Join(d.write("ca/ca.key", key, 0o600), d.write("ca/ca.crt", a.PEM(), 0o644))
}

// pair returns the folder's certificate, made anew where it does not do.
func (d folder) pair(a *Authority, name string, s Subject, now time.Time) (Pair, error) {
	if err := d.write(filepath.Join(name, "ca.crt"), a.PEM(), 0o644); err != nil {
		return Pair{}, err
	}
	crt, key := filepath.Join(name, "tls.crt"), filepath.Join(name, "tls.key")
	var (
		pair Pair
		err  error
	)
	if pair.Certificate, err = d.read(crt); err == nil {
		pair.Key, err = d.read(key)
	}
	switch {
	case err == nil:
		why := a.check(pair, s, now)
		if why == nil {
			return pair, nil
		}
		slog.Info("certificate replaced", "role", name, "reason", why.Error())
	case !errors.Is(err, fs.ErrNotExist):
		return Pair{}, err
	}
	if pair, err = a.Issue(s, now); err != nil {
		return Pair{}, err
	}
	return pair, errors.Join(d.write(key, pair.Key, 0o600), d.write(crt, pair.Certificate, 0o644))
}

// tokenKey makes the key that signs service-account tokens. It is kept for
// ever: replacing it would log every pod out.
func (d folder) tokenKey(role string) error {
	path := filepath.Join(role, "sa.key")
	data, err := d.read(path)
	var key *ecdsa.PrivateKey
	switch {
	case err == nil:
		if key, err = DecodeKey(data); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	case errors.Is(err, fs.ErrNotExist):
		if key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
			return fmt.Errorf("token key: %w", err)
		}
		if data, err = EncodeKey(key); err != nil {
			return err
		}
		if err := d.write(path, data, 0o600); err != nil {
			return err
		}
	default:
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
	if err != nil {
		return fmt.Errorf("token key: %w", err)
	}
	return d.write(filepath.Join(role, "sa.pub"), pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}), 0o644)
}

func (d folder) read(name string) ([]byte, error) {
	return os.ReadFile(filepath.Join(d.path, name))
}
