package pki

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/tools/clientcmd"
)

// The authority that will sign, once everybody trusts it.
const (
	nextKey         = authorityRole + "/next.key"
	nextCertificate = authorityRole + "/next.crt"
)

// AddAuthority is the first of three steps that replace the authority of a folder that Init has made: it makes the next one, and has it trusted beside the one
// that signs. Each step may be taken again, and leaves a folder that serves; between them everybody needs the time to read it.
func AddAuthority(dir string, now time.Time) error {
	d, a, err := openAuthority(dir, now)
	if err != nil {
		return err
	}
	next, err := d.next()
	if errors.Is(err, fs.ErrNotExist) {
		next, err = d.makeNext(now)
	}
	if err != nil {
		return err
	}
	if next.key.Equal(a.key) {
		return errors.New("the authority that was added signs already: what is left of switching to it is to be done first")
	}
	if !slices.ContainsFunc(a.Others, next.Certificate.Equal) {
		a.Others = append(a.Others, next.Certificate)
	}
	return errors.Join(d.writeAuthority(a), d.distribute(a))
}

// SwitchAuthority is the second step: the authority that was added signs from now on, and all certificates are made anew by it. The one before is trusted still.
func SwitchAuthority(dir string, now time.Time) (renewed []string, err error) {
	d, a, err := openAuthority(dir, now)
	if err != nil {
		return nil, err
	}
	next, err := d.next()
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("no authority was added that could take the place of the one that signs")
	}
	if err != nil {
		return nil, err
	}
	if !next.key.Equal(a.key) {
		if !slices.ContainsFunc(a.Others, next.Certificate.Equal) {
			return nil, errors.New("the authority that was added is not trusted yet: it is to be added again")
		}
		next.Others = append([]*x509.Certificate{a.Certificate}, slices.DeleteFunc(a.Others, next.Certificate.Equal)...)
		if err := d.writeAuthority(next); err != nil {
			return nil, err
		}
	}
	if renewed, err = Renew(dir, nil, now); err != nil {
		return renewed, err
	}
	if err := d.replaceSigningKey(next); err != nil {
		return renewed, err
	}
	return renewed, errors.Join(os.Remove(filepath.Join(dir, nextCertificate)), os.Remove(filepath.Join(dir, nextKey)))
}

// RetireAuthorities is the third step: the authority that signs is the only one that is trusted. It answers how many are not any more. A certificate by one of
// those in the folder keeps it from being done.
func RetireAuthorities(dir string, now time.Time) (retired int, err error) {
	d, a, err := openAuthority(dir, now)
	if err != nil {
		return 0, err
	}
	if _, err := d.next(); !errors.Is(err, fs.ErrNotExist) {
		return 0, errors.New("an authority was added that does not sign yet")
	}
	all, err := List(dir)
	if err != nil {
		return 0, err
	}
	var left []string
	for _, e := range all {
		if !e.Root && e.Certificate.CheckSignatureFrom(a.Certificate) != nil {
			left = append(left, e.Role)
		}
	}
	if len(left) > 0 {
		return 0, fmt.Errorf("certificates of another authority are to be renewed first: %s", strings.Join(left, ", "))
	}
	retired = len(a.Others)
	a.Others = nil
	return retired, errors.Join(d.writeAuthority(a), d.distribute(a))
}

// openAuthority opens a folder with the authority's key.
func openAuthority(dir string, now time.Time) (folder, *Authority, error) {
	d := folder{path: dir}
	var err error
	if d.owner, err = ownerOf(filepath.Join(dir, authorityRole, "ca.key")); err != nil {
		return d, nil, fmt.Errorf("the authority is replaced where its key is: %w", err)
	}
	a, err := d.authority(now)
	return d, a, err
}

func (d folder) next() (*Authority, error) {
	text, err := d.read(nextKey)
	if err != nil {
		return nil, err
	}
	key, err := DecodeKey(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", nextKey, err)
	}
	certificate, err := readCertificate(filepath.Join(d.path, nextCertificate))
	if err != nil {
		return nil, err
	}
	if !key.PublicKey.Equal(certificate.PublicKey) {
		return nil, fmt.Errorf("%s is not the key of %s", nextKey, nextCertificate)
	}
	return &Authority{Certificate: certificate, key: key}, nil
}

// makeNext writes the key last: as long as it is not there, there is no next authority.
func (d folder) makeNext(now time.Time) (*Authority, error) {
	next, err := NewAuthority(now)
	if err != nil {
		return nil, err
	}
	key, err := next.KeyPEM()
	if err != nil {
		return nil, err
	}
	if err := d.write(nextCertificate, next.PEM(), 0o644); err != nil {
		return nil, err
	}
	return next, d.write(nextKey, key, 0o600)
}

// distribute gives all roles and nodes the authorities to trust.
func (d folder) distribute(a *Authority) error {
	folders, err := os.ReadDir(d.path)
	if err != nil {
		return err
	}
	for _, f := range folders {
		if !f.IsDir() || f.Name() == authorityRole {
			continue
		}
		owner, err := ownerOf(filepath.Join(d.path, f.Name(), "tls.key"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		of := folder{path: d.path, owner: owner}
		if err := errors.Join(of.write(filepath.Join(f.Name(), "ca.crt"), a.PEM(), 0o644), of.trustInKubeconfig(f.Name(), a)); err != nil {
			return err
		}
	}
	return nil
}

// trustInKubeconfig has a role's kubeconfig, if it has one, trust the authorities.
func (d folder) trustInKubeconfig(role string, a *Authority) error {
	path := filepath.Join(role, "kubeconfig")
	text, err := d.read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	config, err := clientcmd.Load(text)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, cluster := range config.Clusters {
		cluster.CertificateAuthorityData = a.PEM()
	}
	if text, err = clientcmd.Write(*config); err != nil {
		return err
	}
	return d.write(path, text, 0o600)
}

// replaceSigningKey gives the authority's key to the controllers, which sign requests by it, where they have one.
func (d folder) replaceSigningKey(a *Authority) error {
	const path = "controllers/ca.key"
	owner, err := ownerOf(filepath.Join(d.path, path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	key, err := a.KeyPEM()
	if err != nil {
		return err
	}
	return folder{path: d.path, owner: owner}.write(path, key, 0o600)
}
