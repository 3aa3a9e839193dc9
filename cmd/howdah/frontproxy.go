package main

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"howdah.dev/gateway"
	"howdah.dev/kit/pki"
)

// frontProxyFlags say which clients are proxies that speak for others, as kube-apiserver's do.
type frontProxyFlags struct {
	caFile                             string
	names, users, uids, groups, extras []string
}

func (p *frontProxyFlags) flags(f *pflag.FlagSet) {
	f.StringVar(&p.caFile, "requestheader-client-ca-file", "", "authorities of front proxies, whose headers are believed; empty believes none")
	f.StringSliceVar(&p.names, "requestheader-allowed-names", nil, "common names of front proxies; empty allows every certificate of the authorities")
	f.StringSliceVar(&p.users, "requestheader-username-headers", nil, "headers with the user name, as X-Remote-User")
	f.StringSliceVar(&p.uids, "requestheader-uid-headers", nil, "headers with the user's uid, as X-Remote-Uid")
	f.StringSliceVar(&p.groups, "requestheader-group-headers", nil, "headers with groups, as X-Remote-Group")
	f.StringSliceVar(&p.extras, "requestheader-extra-headers-prefix", nil, "what headers with extra information begin with, as X-Remote-Extra-")
}

// config returns nil where no proxy is believed.
func (p *frontProxyFlags) config() (*gateway.FrontProxy, error) {
	if p.caFile == "" {
		if len(p.names)+len(p.users)+len(p.uids)+len(p.groups)+len(p.extras) > 0 {
			return nil, errors.New("--requestheader-client-ca-file is required where another requestheader flag is set")
		}
		return nil, nil
	}
	if len(p.users) == 0 {
		return nil, errors.New("--requestheader-username-headers is required with --requestheader-client-ca-file")
	}
	cas, err := pki.LoadBundle(p.caFile)
	if err != nil {
		return nil, fmt.Errorf("--requestheader-client-ca-file: %w", err)
	}
	return &gateway.FrontProxy{
		CAs: cas, AllowedNames: p.names, UsernameHeaders: p.users, UIDHeaders: p.uids, GroupHeaders: p.groups, ExtraPrefixes: p.extras,
	}, nil
}
