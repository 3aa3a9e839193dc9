package initialize

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/cmd/howdah/internal/addon"
	"howdah.dev/cmd/howdah/internal/bootstrap"
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
			return bootstrap.UntilDone(ctx, time.Second, func(ctx context.Context) error {
				if err := addon.Ensure(ctx, client, e.addons()); err != nil {
					return err
				}
				if e.Cluster.DNS.Address == "" {
					return nil
				}
				return bootstrap.EnsureMap(ctx, client, metav1.NamespaceSystem, bootstrap.ConfigName, map[string]string{"cluster-dns": e.Cluster.DNS.ClusterIP})
			})
		},
		Tell: func(*Env) string { return "make the default classes and, with dns.address, the Service kube-dns" },
	}
}

func (e *Env) addons() addon.Config {
	return addon.Config{
		StorageClass: addon.StorageClass, IngressClass: addon.IngressClass, GatewayAPI: true, GatewayClass: addon.GatewayClass,
		DNSAddress: e.Cluster.DNS.Address, ClusterDNS: e.Cluster.DNS.ClusterIP,
	}
}
