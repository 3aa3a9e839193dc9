package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"howdah.dev/cmd/howdah/internal/addon"
	"howdah.dev/cmd/howdah/internal/bootstrap"
	"howdah.dev/kit/object"
)

// addonsCommand creates the objects that lead pods to the cluster's DNS,
// which runs beside the control plane and not in a pod, the class of
// volumes that are folders of the nodes, those of Ingresses and Gateways, and
// what machines need to become nodes.
func addonsCommand() *cobra.Command {
	r := &role{name: "addons"}
	var api string
	var made addon.Config
	var timeout time.Duration
	var joining joiningFlags
	cmd := r.command("Create the Service of the cluster's DNS, the default classes of storage and Ingresses, that of Gateways with their definitions, and what machines join by", func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		conn, err := r.dialAPI(api)
		if err != nil {
			return err
		}
		defer conn.Close()
		client := object.NewClient(conn, "howdah-addons")
		cluster, err := joining.cluster(r.identity, api, made.ClusterDNS)
		if err != nil {
			return err
		}
		return bootstrap.UntilDone(ctx, time.Second, func(ctx context.Context) error {
			if cluster != nil {
				if err := bootstrap.Ensure(ctx, client, *cluster); err != nil {
					return err
				}
			}
			return addon.Ensure(ctx, client, made)
		})
	})
	r.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&api, "apiserver", "dns:///apiserver:7443", "gRPC target of the apiservers")
	f.StringVar(&made.DNSAddress, "dns-address", "", "address of the DNS server; empty makes no Service kube-dns")
	f.StringVar(&made.ClusterDNS, "cluster-dns", "10.96.0.10", "cluster IP of the Service kube-dns")
	f.StringVar(&made.StorageClass, "storage-class", addon.StorageClass, "name of the default StorageClass, whose volumes are folders of the nodes; empty makes none")
	f.StringVar(&made.IngressClass, "ingress-class", addon.IngressClass, "name of the IngressClass that howdah's ingress controller serves, the default one unless there is another; empty makes none")
	f.BoolVar(&made.GatewayAPI, "gateway-api", true, "define the kinds of the Gateway API, where nobody has defined any; those that are there stay as they are")
	f.StringVar(&made.GatewayClass, "gateway-class", addon.GatewayClass, "name of the GatewayClass that howdah's ingress controller serves, made where GatewayClasses are defined; empty makes none")
	joining.flags(f)
	f.DurationVar(&timeout, "timeout", 2*time.Minute, "how long to wait for the apiserver")
	return cmd
}
