package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"howdah.dev/cmd/howdah/internal/join"
	"howdah.dev/cmd/howdah/internal/preflight"
	"howdah.dev/nodeagent"
)

const (
	// nodeFolder is where howdah join keeps what a node is, unless it is told another place.
	nodeFolder = "/etc/howdah/node"
	criSocket  = "unix:///run/containerd/containerd.sock"
)

// nodePorts are those that a node agent listens on: its node API, and its HTTPS endpoint.
var nodePorts = []int{7443, 10250}

func joinCommand() *cobra.Command {
	cfg := join.Config{Clock: clock.RealClock{}, Known: agentFlag}
	var nodeIP, cri string
	host, _ := os.Hostname()
	cmd := &cobra.Command{
		Use: "join [ENDPOINT]", Short: "Make this machine a node of the cluster whose gateway is at ENDPOINT (host:port)", Args: cobra.MaximumNArgs(1),
		Example: "  howdah join 192.0.2.10:6443 --token abcdef.0123456789abcdef --discovery-token-ca-cert-hash sha256:...   # howdah token create --print-join-command",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				cfg.Endpoint = strings.TrimPrefix(args[0], "https://")
			}
			cfg.Out = cmd.OutOrStdout()
			cfg.Node = map[string]string{"node-name": cfg.NodeName, "rotate-certificates": "true"}
			if nodeIP != "" {
				cfg.Node["node-ip"] = nodeIP
			}
			if cri != criSocket {
				cfg.Node["cri"] = cri
			}
			cfg.Checks = append([]preflight.Check{
				preflight.Privileged(os.Geteuid()),
				{Name: "CRI", Run: func(ctx context.Context) error { return nodeagent.CheckRuntime(ctx, cri) }},
				{Name: "BPF", Run: func(context.Context) error { return nodeagent.CheckBPF() }},
			}, portChecks()...)
			return join.Run(cmd.Context(), cfg)
		},
	}
	f := cmd.Flags()
	f.StringVar(&cfg.Token, "token", "", "bootstrap token: its signature says which cluster is meant, and with it the certificate is asked for")
	f.StringSliceVar(&cfg.Pins, "discovery-token-ca-cert-hash", nil, "hash of the public key of the cluster's authority, sha256:HEX; again for more, of which one has to be right")
	f.BoolVar(&cfg.SkipPins, "discovery-token-unsafe-skip-ca-verification", false, "believe the cluster by the token alone")
	f.StringVar(&cfg.DiscoveryFile, "discovery-file", "", "kubeconfig that says which cluster is meant, in place of what the gateway says")
	f.StringVar(&cfg.NodeName, "node-name", strings.ToLower(host), "name of the node")
	f.StringVar(&nodeIP, "node-ip", "", "address of the node, or one of each family, as of howdah nodeagent")
	f.StringVar(&cfg.Dir, "tls-dir", nodeFolder, "folder for the node's certificate and its settings")
	f.StringVar(&cri, "cri", criSocket, "socket of the container runtime")
	f.StringSliceVar(&cfg.Ignore, "ignore-preflight-errors", nil, "checks whose failure is only told, by name: IsPrivilegedUser, CRI, BPF, Port-7443, Port-10250, APIServer, or all")
	f.BoolVar(&cfg.DryRun, "dry-run", false, "look for the cluster and say what would be written, and neither ask for a certificate nor write")
	f.DurationVar(&cfg.Patience, "discovery-timeout", time.Minute, "how long to look for the cluster, and for the token's signature, again and again")
	f.DurationVar(&cfg.Timeout, "timeout", 5*time.Minute, "how long all of it may take: somebody may have to approve the certificate")
	return cmd
}

func portChecks() []preflight.Check {
	var checks []preflight.Check
	for _, port := range nodePorts {
		checks = append(checks, preflight.PortFree(port))
	}
	return checks
}

// agentFlag reports whether howdah nodeagent has a flag.
func agentFlag(name string) bool { return nodeagentCommand().Flags().Lookup(name) != nil }

func resetCommand() *cobra.Command {
	var dir, cri string
	var force, dryRun bool
	cmd := &cobra.Command{
		Use: "reset", Short: "Take away what howdah join has made of this machine, and the pods that run on it", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return reset(cmd, dir, cri, force, dryRun)
		},
	}
	f := cmd.Flags()
	f.StringVar(&dir, "tls-dir", nodeFolder, "folder that howdah join has filled")
	f.StringVar(&cri, "cri", criSocket, "socket of the container runtime, whose pods are removed; empty leaves them")
	f.BoolVarP(&force, "force", "f", false, "do not ask whether it is meant")
	f.BoolVar(&dryRun, "dry-run", false, "say what would be taken away, and leave it")
	return cmd
}

func reset(cmd *cobra.Command, dir, cri string, force, dryRun bool) error {
	out := cmd.OutOrStdout()
	files := join.Files(dir)
	if len(files) == 0 {
		fmt.Fprintf(out, "Nothing of howdah join is in %s.\n", dir)
	}
	if dryRun {
		if cri != "" {
			fmt.Fprintf(out, "Would stop and remove all pods of %s.\n", cri)
		}
		for _, file := range files {
			fmt.Fprintln(out, "would remove", file)
		}
		return nil
	}
	if !force {
		fmt.Fprint(out, "This takes the node's certificate and all its pods away. Are you sure? [y/N]: ")
		if err := confirmed(cmd.InOrStdin()); err != nil {
			return err
		}
	}
	for _, check := range portChecks() {
		if err := check.Run(cmd.Context()); err != nil {
			return fmt.Errorf("stop the node agent first: %w", err)
		}
	}
	pods, err := nodeagent.Traces{RuntimeEndpoint: cri}.Clear(cmd.Context())
	if pods > 0 {
		fmt.Fprintln(out, "removed pods:", pods)
	}
	if err != nil {
		return fmt.Errorf("%w (with --cri= the pods are left)", err)
	}
	if err := join.Forget(dir, out); err != nil {
		return err
	}
	fmt.Fprint(out, "\nLeft as they are: the Node in the cluster (kubectl delete node), volumes in /var/lib/howdah and /var/lib/kubelet, logs, images, and routes until the next start.\n")
	return nil
}

// confirmed reads a yes.
func confirmed(in io.Reader) error {
	answer, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return nil
	}
	return errors.New("aborted: nothing is changed")
}
