package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"

	"howdah.dev/kit/pki"
)

// tlsFlags say how a server speaks TLS and which certificate it shows, as kube-apiserver's and a kubelet's do.
type tlsFlags struct {
	least     string
	suites    []string
	cert, key string
	more      []cliflag.NamedCertKey
}

func (t *tlsFlags) flags(f *pflag.FlagSet) {
	f.StringVar(&t.least, "tls-min-version", "", "least version of TLS: "+strings.Join(cliflag.TLSPossibleVersions(), ", ")+"; VersionTLS12 where empty")
	f.StringSliceVar(&t.suites, "tls-cipher-suites", nil, "cipher suites of TLS 1.2, by their names in Go's crypto/tls; Go's own where empty. Those of TLS 1.3 are always on")
	f.StringVar(&t.cert, "tls-cert-file", "", "certificate that clients are shown in place of the one by the cluster's authority, and with it those that lead to its authority; it is read again when it changes")
	f.StringVar(&t.key, "tls-private-key-file", "", "key of --tls-cert-file")
}

// byName adds the flag of certificates that are chosen by the name that a client asks for.
func (t *tlsFlags) byName(f *pflag.FlagSet) {
	f.Var(cliflag.NewNamedCertKeyArray(&t.more), "tls-sni-cert-key", "CERTIFICATE,KEY or CERTIFICATE,KEY:NAME,…: another certificate, for clients that ask for one of these names (*.example.com, too), or of those in it; may be given several times, and names go before those in certificates")
}

// server returns a server's configuration with what the flags change in it.
func (t *tlsFlags) server(base *tls.Config) (*tls.Config, error) {
	var problems []error
	out := base.Clone()
	if t.least != "" {
		least, err := cliflag.TLSVersion(t.least)
		out.MinVersion, problems = least, append(problems, wrapFlag("tls-min-version", err))
	}
	if len(t.suites) > 0 {
		suites, err := cliflag.TLSCipherSuites(t.suites)
		out.CipherSuites, problems = suites, append(problems, wrapFlag("tls-cipher-suites", err))
	}
	if (t.cert == "") != (t.key == "") {
		problems = append(problems, errors.New("--tls-cert-file and --tls-private-key-file go together"))
	} else if t.cert != "" {
		pair, err := pki.LoadKeyPair(t.cert, t.key)
		problems = append(problems, wrapFlag("tls-cert-file", err))
		out.Certificates, out.GetCertificate = nil, func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return pair.Certificate(), nil }
	}
	var named []namedPair
	for _, m := range t.more {
		pair, err := pki.LoadKeyPair(m.CertFile, m.KeyFile)
		named, problems = append(named, namedPair{m.Names, pair}), append(problems, wrapFlag("tls-sni-cert-key", err))
	}
	if otherwise := out.GetCertificate; len(named) > 0 {
		out.GetCertificate = func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			if c := choose(named, hello.ServerName); c != nil {
				return c, nil
			}
			return otherwise(hello)
		}
	}
	return out, errors.Join(problems...)
}

func wrapFlag(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("--%s: %w", name, err)
}

// namedPair is a certificate for names: those of its own where there are none.
type namedPair struct {
	names []string
	pair  *pki.KeyPair
}

// choose finds the certificate for a name: first where the name was given as it is, then where a pattern was, then in certificates without names.
func choose(from []namedPair, name string) *tls.Certificate {
	if name == "" {
		return nil
	}
	name = strings.ToLower(strings.TrimSuffix(name, "."))
	_, parent, _ := strings.Cut(name, ".")
	for _, wanted := range []string{name, "*." + parent} {
		for _, n := range from {
			for _, given := range n.names {
				if strings.EqualFold(given, wanted) {
					return n.pair.Certificate()
				}
			}
		}
	}
	for _, n := range from {
		if len(n.names) > 0 {
			continue
		}
		if c := n.pair.Certificate(); c.Leaf.VerifyHostname(name) == nil {
			return c
		}
	}
	return nil
}
