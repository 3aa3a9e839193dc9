package initialize

import (
	"context"
	"net"
	"net/url"

	"howdah.dev/kit/pki"
)

func certsPhase() Phase {
	return Phase{
		Name: "certs", Short: "Make the cluster's authority, the keys of its tokens, and a certificate for each role",
		Run: func(_ context.Context, e *Env) error {
			e.say("[certs] certificates and keys in %s; what is there and valid is kept", e.Folder.PKI())
			if err := e.Folder.save(e.Init, e.Cluster); err != nil { // before there are keys: by it howdah reset knows that they are howdah init's
				return err
			}
			return pki.Init(e.Folder.PKI(), e.pkiOptions())
		},
		Tell: func(e *Env) string { return "make certificates and keys in " + e.Folder.PKI() },
	}
}

// pkiOptions are those that howdah standalone has of its settings, so that it keeps what is made here.
func (e *Env) pkiOptions() pki.Options {
	host, _, _ := net.SplitHostPort(e.local(e.Cluster.Ports.API))
	return pki.Options{
		AdminServer: "https://" + e.local(e.Cluster.Ports.API), Now: e.Clock.Now,
		Hosts: map[string][]string{"gateway": append([]string{host, e.endpointHost()}, e.names()...)},
	}
}

// names are those by which clients know the gateway of this machine.
func (e *Env) names() []string {
	names := []string{e.Init.LocalEndpoint.AdvertiseAddress, e.Init.Machine.Name, e.endpointHost(), e.Cluster.ServiceIP(), "kubernetes.default.svc." + e.Cluster.Networking.DNSDomain}
	return append(names, e.Cluster.CertSANs...)
}

func (e *Env) server() string { return "https://" + e.Cluster.Endpoint(e.Init.LocalEndpoint) }

func (e *Env) endpointHost() string {
	u, err := url.Parse(e.server())
	if err != nil {
		return ""
	}
	return u.Hostname()
}
