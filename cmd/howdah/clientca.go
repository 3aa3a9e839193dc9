package main

import (
	"fmt"

	"github.com/spf13/pflag"

	"howdah.dev/gateway"
	"howdah.dev/kit/pki"
)

// clientCAFlag names authorities that sign certificates of users beside the cluster's own, as kube-apiserver's flag does.
type clientCAFlag struct{ file string }

func (c *clientCAFlag) flags(f *pflag.FlagSet, usage string) {
	f.StringVar(&c.file, "client-ca-file", "", usage)
}

// bundle is the file, which is read again when it changes; nil where none is named.
func (c *clientCAFlag) bundle() (*pki.Bundle, error) {
	if c.file == "" {
		return nil, nil
	}
	b, err := pki.LoadBundle(c.file)
	if err != nil {
		return nil, fmt.Errorf("--client-ca-file: %w", err)
	}
	return b, nil
}

// authorities are the file's; nil where none is named.
func (c *clientCAFlag) authorities() (gateway.Authorities, error) {
	b, err := c.bundle()
	if b == nil {
		return nil, err
	}
	return b, nil
}
