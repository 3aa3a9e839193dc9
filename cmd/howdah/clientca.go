package main

import (
	"crypto/x509"
	"fmt"
	"os"

	"github.com/spf13/pflag"
	"k8s.io/client-go/util/cert"
)

// clientCAFlag names authorities that sign certificates of users beside the cluster's own, as kube-apiserver's flag does.
type clientCAFlag struct{ file string }

func (c *clientCAFlag) flags(f *pflag.FlagSet, usage string) {
	f.StringVar(&c.file, "client-ca-file", "", usage)
}

// certificates are the authorities; none where no file is named.
func (c *clientCAFlag) certificates() ([]*x509.Certificate, error) {
	if c.file == "" {
		return nil, nil
	}
	certificates, err := cert.CertsFromFile(c.file)
	if err != nil {
		return nil, fmt.Errorf("--client-ca-file: %w", err)
	}
	return certificates, nil
}

// pem is the file's text.
func (c *clientCAFlag) pem() ([]byte, error) {
	if _, err := c.certificates(); c.file == "" || err != nil {
		return nil, err
	}
	text, err := os.ReadFile(c.file)
	if err != nil {
		return nil, fmt.Errorf("--client-ca-file: %w", err)
	}
	return text, nil
}
