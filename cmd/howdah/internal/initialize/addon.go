package initialize

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/cmd/howdah/internal/addon"
	"howdah.dev/cmd/howdah/internal/bootstrap"
	"howdah.dev/kit/object"
)

func addonPhase() Phase {
	return Phase{
		Name: "addon", Short: "Make the default classes of storage and Ingresses, the Gateway API with its class, and the Service of the cluster's DNS",
		Run: func(ctx context.Context, e *Env) error {
			client, err := e.API()
			if err != nil {
				return err
			}
			if e.Cluster.DNS.Address == "" {
				e.say("[addon] no DNS: dns.address does not say where its server is, so pods have no names until howdah addons --dns-address")
			}
			e.say("[addon] making the default classes")
			ctx, cancel := context.WithTimeout(ctx, writeFor)
			defer cancel()
			return bootstrap.UntilDone(ctx, time.Second, func(ctx context.Context) error { return ensureAddons(ctx, client, e.addons()) })
		},
		Tell: func(*Env) string { return "make the default classes and, with dns.address, the Service kube-dns" },
	}
}

// ensureAddons makes them, and tells nodes that join from then on of the DNS.
func ensureAddons(ctx context.Context, client *object.Client, c addon.Config) error {
	if err := addon.Ensure(ctx, client, c); err != nil {
		return err
	}
	if c.DNSAddress == "" {
		return nil
	}
	return bootstrap.EnsureMap(ctx, client, metav1.NamespaceSystem, bootstrap.ConfigName, map[string]string{"cluster-dns": c.ClusterDNS})
}

func (e *Env) addons() addon.Config {
	return addon.Config{
		StorageClass: addon.StorageClass, IngressClass: addon.IngressClass, GatewayAPI: true, GatewayClass: addon.GatewayClass,
		DNSAddress: e.Cluster.DNS.Address, ClusterDNS: e.Cluster.DNS.ClusterIP,
	}
}
