package initialize

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"

	"howdah.dev/cmd/howdah/internal/daemon"
	"howdah.dev/cmd/howdah/internal/peers"
	"howdah.dev/kit/pki"
	"howdah.dev/kit/wholefile"
)

// contextName is that of the context which leads to all gateways; those of single ones have it before their name.
const contextName = "howdah"

// Kubeconfig is the phase that writes the administrator's kubeconfig.
func Kubeconfig() Phase {
	return Phase{
		Name: "kubeconfig", Short: "Write the administrator's kubeconfig, which knows the gateways of all control planes",
		Run: func(ctx context.Context, e *Env) error {
			known := []peers.ControlPlane{{Name: e.Init.Machine.Name, Gateways: []string{peers.Address(e.Init.LocalEndpoint.AdvertiseAddress, e.Cluster.Ports.API)}}}
			if s, err := e.Services.Status(ctx, daemon.ControlPlane); err == nil && s.Running {
				known = append(known, e.others(ctx)...)
			}
			e.say("[kubeconfig] the administrator's is %s", e.Folder.Admin())
			return e.writeKubeconfig(known)
		},
		Tell: func(e *Env) string { return "write the administrator's kubeconfig to " + e.Folder.Admin() },
	}
}

// others are further control planes, where that can be told: one that is being repaired may not answer.
func (e *Env) others(ctx context.Context) []peers.ControlPlane {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	client, err := e.API()
	if err != nil {
		return nil
	}
	leases, err := peers.Leases(ctx, client)
	if err != nil {
		e.say("[kubeconfig] further control planes are not known: %v", err)
		return nil
	}
	return without(peers.Of(leases, e.Clock.Now()), e.Init.Machine.Name)
}

func without(all []peers.ControlPlane, name string) []peers.ControlPlane {
	var out []peers.ControlPlane
	for _, p := range all {
		if p.Name != name {
			out = append(out, p)
		}
	}
	return out
}

func (e *Env) writeKubeconfig(known []peers.ControlPlane) error {
	ca, err := os.ReadFile(filepath.Join(e.Folder.PKI(), "admin", "ca.crt"))
	if err != nil {
		return fmt.Errorf("the authority (howdah init phase certs): %w", err)
	}
	var pair pki.Pair
	if pair.Certificate, err = os.ReadFile(filepath.Join(e.Folder.PKI(), "admin", "tls.crt")); err == nil {
		pair.Key, err = os.ReadFile(filepath.Join(e.Folder.PKI(), "admin", "tls.key"))
	}
	if err != nil {
		return fmt.Errorf("the administrator's certificate (howdah init phase certs): %w", err)
	}
	text, err := pki.Kubeconfig(e.server(), ca, "kubernetes-admin", pair)
	if err != nil {
		return err
	}
	config, err := clientcmd.Load(text)
	if err != nil {
		return err
	}
	for _, p := range known {
		if len(p.Gateways) == 0 {
			continue
		}
		name := contextName + "-" + p.Name
		config.Clusters[name] = &api.Cluster{Server: "https://" + p.Gateways[0], CertificateAuthorityData: ca}
		config.Contexts[name] = &api.Context{Cluster: name, AuthInfo: "kubernetes-admin", Namespace: "default"}
	}
	if text, err = clientcmd.Write(*config); err != nil {
		return err
	}
	return wholefile.Write(e.Folder.Admin(), text, 0o600)
}
