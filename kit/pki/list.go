package pki

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/cert"
)

// authorityRole is the folder of the authority.
const authorityRole = "ca"

// Entry is a certificate of a folder that Init has made, or of a single role's.
type Entry struct {
	Role        string
	Certificate *x509.Certificate
	// Authority is what Certificate is of, as the role has it: nil for an authority itself, and where it is of another one.
	Authority *x509.Certificate
	// Root says that it is an authority itself: that which signs, or one that is trusted beside it.
	Root bool
}

// List reads the certificates of a folder: those of all roles and nodes in the order of their names, and the authorities last.
func List(dir string) ([]Entry, error) {
	if one, err := entry(dir, filepath.Base(filepath.Clean(dir))); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return []Entry{one}, err
	}
	folders, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []Entry
	var problems []error
	for _, f := range folders {
		if !f.IsDir() || f.Name() == authorityRole {
			continue
		}
		one, err := entry(filepath.Join(dir, f.Name()), f.Name())
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			problems = append(problems, err)
		default:
			out = append(out, one)
		}
	}
	roots, err := readAuthorities(filepath.Join(dir, authorityRole, "ca.crt"))
	if err != nil {
		problems = append(problems, err)
	}
	for _, root := range roots {
		out = append(out, Entry{Role: authorityRole, Certificate: root, Root: true})
	}
	if len(out) == 0 && len(problems) == 0 {
		return nil, fmt.Errorf("%s holds no certificates of howdah pki", dir)
	}
	return out, errors.Join(problems...)
}

func entry(dir, role string) (Entry, error) {
	certificate, err := readCertificate(filepath.Join(dir, "tls.crt"))
	if err != nil {
		return Entry{}, err
	}
	out := Entry{Role: role, Certificate: certificate}
	authorities, err := readAuthorities(filepath.Join(dir, "ca.crt"))
	if err != nil {
		return Entry{}, err
	}
	for _, ca := range authorities {
		if certificate.CheckSignatureFrom(ca) == nil {
			out.Authority = ca
			break
		}
	}
	return out, nil
}

// readAuthorities reads all certificates of a file; there are none where it is not there.
func readAuthorities(path string) ([]*x509.Certificate, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	certificates, err := cert.ParseCertsPEM(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return certificates, nil
}

func readCertificate(path string) (*x509.Certificate, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	certificate, err := decodeCertificate(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return certificate, nil
}

// Renew replaces certificates of a folder that Init has made, with fresh keys, though they may be good for long: those of the roles and nodes that are named, or of
// all where none is. Subjects, names and owners stay; so does the authority's key. A role's kubeconfig is made anew, for the server that it had.
func Renew(dir string, roles []string, now time.Time) (renewed []string, err error) {
	there, err := List(dir)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(dir, authorityRole, "ca.key")); err != nil {
		return nil, fmt.Errorf("certificates are renewed where the authority's key is: %w", err)
	}
	by := map[string]Entry{}
	for _, e := range there {
		if !e.Root {
			by[e.Role] = e
			if len(roles) == 0 {
				renewed = append(renewed, e.Role)
			}
		}
	}
	if len(roles) > 0 {
		renewed = slices.Compact(slices.Sorted(slices.Values(roles)))
	}
	for _, role := range renewed {
		if _, ok := by[role]; !ok {
			return nil, fmt.Errorf("%s has no certificate of %q", dir, role)
		}
	}
	d := folder{path: dir}
	if d.owner, err = ownerOf(filepath.Join(dir, authorityRole, "ca.key")); err != nil {
		return nil, err
	}
	authority, err := d.authority(now)
	if err != nil {
		return nil, err
	}
	for i, role := range renewed {
		if err := renew(dir, role, by[role].Certificate, authority, now); err != nil {
			return renewed[:i], fmt.Errorf("renew %s: %w", role, err)
		}
	}
	return renewed, nil
}

func renew(dir, role string, old *x509.Certificate, authority *Authority, now time.Time) error {
	owner, err := ownerOf(filepath.Join(dir, role, "tls.key"))
	if err != nil {
		return err
	}
	d := folder{path: dir, owner: owner}
	pair, err := authority.Issue(subjectOf(old), now)
	if err != nil {
		return err
	}
	err = errors.Join(
		d.write(filepath.Join(role, "ca.crt"), authority.PEM(), 0o644),
		d.write(filepath.Join(role, "tls.key"), pair.Key, 0o600), d.write(filepath.Join(role, "tls.crt"), pair.Certificate, 0o644),
	)
	if err != nil {
		return err
	}
	config, err := clientcmd.LoadFromFile(filepath.Join(dir, role, "kubeconfig"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	context, ok := config.Contexts[config.CurrentContext]
	if !ok || config.Clusters[context.Cluster] == nil {
		return errors.New("its kubeconfig names no server")
	}
	text, err := Kubeconfig(config.Clusters[context.Cluster].Server, authority.PEM(), old.Subject.CommonName, pair)
	if err != nil {
		return err
	}
	return d.write(filepath.Join(role, "kubeconfig"), text, 0o600)
}

// subjectOf is what a certificate says.
func subjectOf(c *x509.Certificate) Subject {
	return Subject{
		CommonName: c.Subject.CommonName, Organizations: c.Subject.Organization, Hosts: slices.Concat(c.DNSNames, text(c.IPAddresses)),
		Client: slices.Contains(c.ExtKeyUsage, x509.ExtKeyUsageClientAuth),
	}
}

// ownerOf is whose a file is.
func ownerOf(path string) (*Owner, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil, fmt.Errorf("%s: whose it is cannot be told here", path)
	}
	return &Owner{UID: int(stat.Uid), GID: int(stat.Gid)}, nil
}
