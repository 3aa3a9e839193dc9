package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"howdah.dev/cmd/howdah/internal/bootstrap"
	"howdah.dev/kit/object"
	"howdah.dev/kit/rpc"
	"howdah.dev/kit/task"
)

// joiningFlags say what machines that become nodes are told of the cluster.
type joiningFlags struct {
	server, api, logs, domain, overlay string
	clusters, services, loadBalancers  []string
}

func (j *joiningFlags) flags(f *pflag.FlagSet) {
	f.StringVar(&j.server, "join-server", "", "gateway's URL for machines that become nodes by howdah join; empty makes nothing for them")
	f.StringVar(&j.api, "node-apiserver", "", "gRPC target of the apiservers for those nodes; --apiserver where empty")
	f.StringVar(&j.logs, "node-logs", "", "gRPC target of the logs, for those nodes; empty: they tell nobody what their containers write")
	f.StringVar(&j.domain, "cluster-domain", "cluster.local", "domain of the cluster's DNS, for those nodes")
	f.StringSliceVar(&j.clusters, "cluster-cidr", []string{"10.244.0.0/16"}, "addresses of pods, for those nodes")
	f.StringSliceVar(&j.services, "service-cidr", []string{"10.96.0.0/16"}, "addresses of services, for those nodes")
	f.StringSliceVar(&j.loadBalancers, "load-balancer-cidr", nil, "range of load balancers' addresses, for those nodes")
	overlayFlag(f, &j.overlay)
}

// overlayFlag is for whoever tells machines how they become nodes.
func overlayFlag(f *pflag.FlagSet, to *string) {
	f.StringVar(to, "overlay", "none", "which nodes' pods those nodes reach through a tunnel: none, auto or vxlan, as howdah nodeagent has it")
}

// cluster is what to make; nil is nothing.
func (j *joiningFlags) cluster(identity *rpc.Identity, api, dns string) (*bootstrap.Cluster, error) {
	if j.server == "" {
		return nil, nil
	}
	if err := checkServer(j.server); err != nil {
		return nil, err
	}
	if identity == nil {
		return nil, errors.New("--join-server needs the cluster's authority: --tls-dir is empty")
	}
	ca := identity.Authorities().Now().PEM
	if j.api != "" {
		api = j.api
	}
	settings := map[string]string{
		"apiserver": api, "cluster-domain": j.domain, "cluster-cidr": strings.Join(j.clusters, ","), "service-cidr": strings.Join(j.services, ","),
	}
	if j.logs != "" {
		settings["logs"] = j.logs
	}
	if dns != "" {
		settings["cluster-dns"] = dns
	}
	if j.overlay != "" && j.overlay != "none" {
		settings["overlay"] = j.overlay
	}
	if len(j.loadBalancers) > 0 {
		settings["load-balancer-cidr"] = strings.Join(j.loadBalancers, ",")
	}
	return &bootstrap.Cluster{Info: bootstrap.Info{Server: j.server, CA: ca}, Settings: settings}, nil
}

func checkServer(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" || u.Host == "" || strings.Trim(u.Path, "/") != "" {
		return fmt.Errorf("--join-server: %q is not https://host:port", text)
	}
	return nil
}

// nodesFlags have a standalone take nodes: other machines, whose agents reach its API server over gRPC.
type nodesFlags struct {
	listen, server, api, overlay string
	gatewayNames                 []string
}

func (n *nodesFlags) flags(f *pflag.FlagSet) {
	f.StringVar(&n.listen, "node-listen", "", "address on which node agents of other machines reach the API server over gRPC, as :7443; empty takes no nodes")
	f.StringVar(&n.server, "join-server", "", "gateway's URL for machines that become nodes by howdah join; default https:// and the address that is listened on")
	f.StringVar(&n.api, "node-apiserver", "", "gRPC target of the API server for those nodes; default the address of --node-listen")
	overlayFlag(f, &n.overlay)
	f.StringSliceVar(&n.gatewayNames, "gateway-names", nil, "further names and addresses of the gateway in its certificate")
}

// complete fills in how others reach what is listened on.
func (n *nodesFlags) complete(listen string) error {
	if n.listen == "" {
		return nil
	}
	if n.server == "" {
		address, err := reachedAt(listen)
		if err != nil {
			return fmt.Errorf("--listen: %w", err)
		}
		n.server = "https://" + address
	}
	if n.api == "" {
		address, err := reachedAt(n.listen)
		if err != nil {
			return fmt.Errorf("--node-listen: %w", err)
		}
		n.api = "dns:///" + address
	}
	return checkServer(n.server)
}

// hosts are the names and addresses that the gateway's certificate needs.
func (n *nodesFlags) hosts() []string {
	hosts := n.gatewayNames
	if u, err := url.Parse(n.server); err == nil && u.Hostname() != "" {
		hosts = append(hosts, u.Hostname())
	}
	return hosts
}

// reachedAt is the address at which others find what is listened on.
func reachedAt(listen string) (string, error) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "", err
	}
	if a, err := netip.ParseAddr(host); err == nil && !a.IsUnspecified() || err != nil && host != "" {
		return net.JoinHostPort(host, port), nil
	}
	at := advertised(listen)
	if len(at) == 0 {
		return "", fmt.Errorf("%s: this machine's address is not known", listen)
	}
	return at[0].String(), nil
}

// nodesPart serves the API server to node agents, and makes what machines become nodes by.
func (s *standalone) nodesPart(m mesh, api service, identity *rpc.Identity, ready func(context.Context) bool) (task.Func, error) {
	joining := joiningFlags{server: s.nodes.server, domain: s.clusterDomain, clusters: []string{s.clusterCIDR}, services: s.serviceCIDRs, overlay: s.nodes.overlay}
	if s.logs != nil { // they reach it where they reach the API server
		joining.logs = s.nodes.api
	}
	cluster, err := joining.cluster(identity, s.nodes.api, "")
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", s.nodes.listen)
	if err != nil {
		return nil, fmt.Errorf("--node-listen: %w", err)
	}
	server := rpc.NewServer(identity.Server(), nil)
	api.Register(server)
	if s.logs != nil {
		s.logs.RegisterCollect(server)
	}
	client := object.NewClient(m.apiserver.Dial(rpc.User{Name: "howdah:standalone", Groups: []string{"system:masters"}}), "howdah-standalone")
	return func(ctx context.Context) error {
		return task.Run(ctx,
			func(ctx context.Context) error { return server.ServeUntil(ctx, listener) },
			func(ctx context.Context) error {
				if !ready(ctx) {
					return ctx.Err()
				}
				server.SetReady(true)
				if err := bootstrap.UntilDone(ctx, time.Second, func(ctx context.Context) error { return bootstrap.Ensure(ctx, client, *cluster) }); err != nil {
					return err
				}
				<-ctx.Done()
				return ctx.Err()
			})
	}, nil
}
