package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/kit/obs"
	"howdah.dev/kit/task"
	"howdah.dev/nodeagent"
)

// nodeFlags are a node agent's settings.
type nodeFlags struct {
	name, address, api, cri, imagesDir, clusterDomain, evictionHard string
	clusterDNS, clusterCIDRs, serviceCIDRs, sysctls                 []string
	maxPods                                                         int64
	port, readOnlyPort                                              int32
	anonymous                                                       bool
	simulate                                                        int
	keep                                                            nodeagent.ImageKeep
}

func (n *nodeFlags) flags(cmd *cobra.Command) {
	host, _ := os.Hostname()
	f := cmd.Flags()
	f.StringVar(&n.name, "node-name", host, "name of the node")
	f.StringVar(&n.address, "node-ip", "", "address of the node, or one of each family separated by a comma, the main one first; those of the interface with the default route where empty")
	f.StringVar(&n.api, "apiserver", "dns:///apiserver:7443", "gRPC target of the apiservers")
	f.StringVar(&n.cri, "cri", "unix:///run/containerd/containerd.sock", "socket of the container runtime")
	f.StringVar(&n.imagesDir, "images-dir", "", "folder with image archives to import at the start")
	f.StringSliceVar(&n.clusterDNS, "cluster-dns", nil, "addresses of the cluster's DNS")
	f.StringVar(&n.clusterDomain, "cluster-domain", "cluster.local", "domain of the cluster's DNS")
	f.StringSliceVar(&n.clusterCIDRs, "cluster-cidr", []string{"10.244.0.0/16"}, "addresses of pods")
	f.StringSliceVar(&n.serviceCIDRs, "service-cidr", []string{"10.96.0.0/16"}, "addresses of services")
	f.Int64Var(&n.maxPods, "max-pods", 110, "most pods that the node takes")
	f.StringVar(&n.evictionHard, "eviction-hard", nodeagent.DefaultEvictionHard, "below which remainders the node is short of memory, disk, inodes or processes (nothing is evicted yet)")
	byDefault := nodeagent.DefaultImageKeep()
	f.IntVar(&n.keep.High, "image-gc-high-threshold", byDefault.High, "percent of the images' disk in use from which on images are removed that no pod needs; 100 is never")
	f.IntVar(&n.keep.Low, "image-gc-low-threshold", byDefault.Low, "percent of the images' disk in use down to which they are removed")
	f.DurationVar(&n.keep.Least, "minimum-image-ttl-duration", byDefault.Least, "how long an image stays at least")
	f.DurationVar(&n.keep.Most, "maximum-image-ttl-duration", byDefault.Most, "how long an image that no pod needs stays at most; 0 is for ever")
	f.StringSliceVar(&n.sysctls, "allowed-unsafe-sysctls", nil, "kernel parameters that pods may set beside the safe ones (names, or beginnings that end with *)")
	f.Int32Var(&n.port, "kubelet-port", 10250, "port of the HTTPS endpoint for metrics and whatever else asks kubelets; 0 opens none")
	f.Int32Var(&n.readOnlyPort, "read-only-port", 0, "port on which everybody may read metrics and pods, without TLS; 0 opens none")
	f.BoolVar(&n.anonymous, "anonymous-auth", false, "let callers of the HTTPS endpoint who say nothing of themselves do what system:anonymous may")
	f.IntVar(&n.simulate, "simulate", 0, "run so many simulated nodes instead of a real one")
}

// config checks the settings and reports all problems at once. listen is
// where the node API is served.
func (n *nodeFlags) config(listen string) (nodeagent.Config, error) {
	pods, err1 := prefixes("--cluster-cidr", n.clusterCIDRs)
	services, err2 := prefixes("--service-cidr", n.serviceCIDRs)
	_, text, err3 := net.SplitHostPort(listen)
	port, err4 := strconv.ParseInt(text, 10, 32)
	if err3 != nil || err4 != nil {
		err3 = fmt.Errorf("--listen: %q is not [host]:port", listen)
	}
	return nodeagent.Config{
		NodeName: n.name, NodeIP: n.address, Port: int32(port), MaxPods: n.maxPods,
		RuntimeEndpoint: n.cri, ImagesDir: n.imagesDir, ClusterDNS: n.clusterDNS, ClusterDomain: n.clusterDomain,
		EvictionHard: n.evictionHard, AllowedUnsafeSysctls: n.sysctls, KeepImages: n.keep,
		Network: &nodeagent.Network{PodCIDRs: pods, ServiceCIDRs: services}, Clock: clock.RealClock{},
	}, errors.Join(err1, err2, err3)
}

func prefixes(flag string, texts []string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for _, text := range texts {
		p, err := netip.ParsePrefix(text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", flag, err)
		}
		out = append(out, p.Masked())
	}
	return out, nil
}

func nodeagentCommand() *cobra.Command {
	r := &role{name: "nodeagent"}
	var n nodeFlags
	cmd := r.command("Run this machine's pods", func(ctx context.Context) error {
		cfg, err := n.config(r.listen)
		if err != nil {
			return err
		}
		conn, err := r.dialAPI(n.api)
		if err != nil {
			return err
		}
		defer conn.Close()
		cfg.Objects, cfg.Registerer = object.NewClient(conn, "kubelet"), r.registry
		if n.simulate > 0 {
			return r.simulate(ctx, cfg, n.simulate)
		}
		if n.port != 0 {
			cfg.Endpoint = &nodeagent.Endpoint{Port: n.port, ReadOnlyPort: n.readOnlyPort, Anonymous: n.anonymous, TLS: r.identity.Public()}
		}
		agent, err := nodeagent.New(cfg)
		if err != nil {
			return err
		}
		return r.serve(ctx, agent, agent.Ready)
	})
	r.flags(cmd)
	n.flags(cmd)
	return cmd
}

// simulate runs hollow nodes; nobody calls them, so they serve nothing.
func (r *role) simulate(ctx context.Context, cfg nodeagent.Config, count int) error {
	nodes, err := nodeagent.NewSimulation(cfg, count, nodeagent.Hollow{})
	if err != nil {
		return err
	}
	return task.Run(ctx, nodes.Run,
		func(ctx context.Context) error { return obs.ServeMetrics(ctx, r.metricsListen, r.registry) })
}
