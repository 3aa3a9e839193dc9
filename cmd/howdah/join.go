package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"

	"howdah.dev/cmd/howdah/internal/binary"
	"howdah.dev/cmd/howdah/internal/bootstrap"
	"howdah.dev/cmd/howdah/internal/clusterfile"
	"howdah.dev/cmd/howdah/internal/daemon"
	"howdah.dev/cmd/howdah/internal/initialize"
	"howdah.dev/cmd/howdah/internal/join"
	"howdah.dev/cmd/howdah/internal/preflight"
	"howdah.dev/cmd/howdah/internal/upgrade"
	"howdah.dev/nodeagent"
)

const (
	// nodeFolder is where howdah join keeps what a node is, unless it is told another place.
	nodeFolder = "/etc/howdah/node"
	criSocket  = "unix:///run/containerd/containerd.sock"
)

// nodePorts are those that a node agent listens on: its node API, and its HTTPS endpoint.
var nodePorts = []int{7443, 10250}

// joinFlags are those of howdah join.
type joinFlags struct {
	join.Config
	config, dir, nodeIP, cri string
	machine                  clusterfile.Machine
	controlPlane             bool
	further                  clusterfile.ControlPlane
}

func joinCommand() *cobra.Command {
	j := joinFlags{Config: join.Config{Clock: clock.RealClock{}, Known: agentFlag}}
	host, _ := os.Hostname()
	cmd := &cobra.Command{
		Use: "join [ENDPOINT]", Short: "Make this machine a node, or a further control plane, of the cluster whose gateway is at ENDPOINT (host:port)", Args: cobra.MaximumNArgs(1),
		Example: "  howdah join 192.0.2.10:6443 --token abcdef.0123456789abcdef --discovery-token-ca-cert-hash sha256:...   # howdah token create --print-join-command",
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				j.Endpoint = strings.TrimPrefix(args[0], "https://")
			}
			j.Out = cmd.OutOrStdout()
			if j.config != "" {
				if err := j.read(cmd, args); err != nil {
					return err
				}
			}
			if j.controlPlane {
				return j.joinControlPlane(cmd.Context())
			}
			for _, flag := range []string{"certificate-key", "database-url", "apiserver-advertise-address", "apiserver-bind-address"} {
				if cmd.Flags().Changed(flag) {
					return fmt.Errorf("--%s goes with --control-plane", flag)
				}
			}
			return j.joinNode(cmd.Context())
		},
	}
	f := cmd.Flags()
	f.StringVar(&j.config, "config", "", "file with a JoinConfiguration, in place of flags (howdah config print join-defaults)")
	f.StringVar(&j.Token, "token", "", "bootstrap token: its signature says which cluster is meant, and with it the certificate is asked for")
	f.StringSliceVar(&j.Pins, "discovery-token-ca-cert-hash", nil, "hash of the public key of the cluster's authority, sha256:HEX; again for more, of which one has to be right")
	f.BoolVar(&j.SkipPins, "discovery-token-unsafe-skip-ca-verification", false, "believe the cluster by the token alone")
	f.StringVar(&j.DiscoveryFile, "discovery-file", "", "kubeconfig that says which cluster is meant, in place of what the gateway says")
	f.StringVar(&j.NodeName, "node-name", strings.ToLower(host), "name of the node, or of the control plane among others")
	f.StringVar(&j.nodeIP, "node-ip", "", "address of the node, or one of each family, as of howdah nodeagent")
	f.StringVar(&j.Dir, "tls-dir", nodeFolder, "folder for the node's certificate and its settings")
	f.StringVar(&j.cri, "cri", criSocket, "socket of the container runtime")
	f.BoolVar(&j.controlPlane, "control-plane", false, "make this machine a further control plane, and no node")
	f.StringVar(&j.further.CertificateKey, "certificate-key", "", "key of what howdah init --upload-certs has put into the cluster; without it the keys have to be in --dir already")
	f.StringVar(&j.further.DatabaseURL, "database-url", "", "PostgreSQL URL, for a control plane that reaches the database otherwise than the others, or has its keys by hand")
	f.StringVar(&j.further.LocalEndpoint.AdvertiseAddress, "apiserver-advertise-address", "", "address of this control plane, as others reach it; default that of its default route")
	f.StringVar(&j.further.LocalEndpoint.BindAddress, "apiserver-bind-address", "", "address for the control plane to listen on; default all")
	folderFlag(f, &j.dir)
	f.StringVar(&j.machine.ServiceManager, "service-manager", clusterfile.AutoServices, "what runs it: systemd, process, or auto, which is systemd where it runs, else a process for a control plane and nothing for a node")
	f.StringVar(&j.machine.Binary, "binary", clusterfile.Binary, "where the service has this program; it is put there")
	f.StringSliceVar(&j.Ignore, "ignore-preflight-errors", nil, "checks whose failure is only told, by name: of nodes IsPrivilegedUser, CRI, BPF, Port-7443, Port-10250, APIServer; of control planes as of howdah init, and DatabaseOfCluster; or all")
	f.BoolVar(&j.DryRun, "dry-run", false, "look for the cluster and say what would be written, and neither ask for a certificate nor write")
	f.DurationVar(&j.Patience, "discovery-timeout", time.Minute, "how long to look for the cluster, and for the token's signature, again and again")
	f.DurationVar(&j.Timeout, "timeout", 5*time.Minute, "how long all of it may take: somebody may have to approve the certificate")
	return cmd
}

// besideConfig are flags that may go with --config.
var besideConfig = []string{"config", "dry-run", "ignore-preflight-errors", "dir", "help"}

// read has a file say what flags say otherwise.
func (j *joinFlags) read(cmd *cobra.Command, args []string) error {
	var given []string
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if !slices.Contains(besideConfig, f.Name) {
			given = append(given, "--"+f.Name)
		}
	})
	if given = append(given, args...); len(given) > 0 {
		return fmt.Errorf("can not mix --config with %s (or their environment variables)", strings.Join(given, ", "))
	}
	d, err := readDocuments(j.config)
	if err != nil {
		return err
	}
	if d.Join == nil || d.Init != nil || d.Cluster != nil {
		return fmt.Errorf("%s: howdah join takes a %s alone", j.config, clusterfile.JoinKind)
	}
	c := d.Join
	c.Complete(thisHost())
	if problems := c.Validate(); len(problems) > 0 {
		return fmt.Errorf("%s: %w", j.config, problems.ToAggregate())
	}
	j.Ignore = append(j.Ignore, c.Machine.IgnorePreflightErrors...)
	j.machine, j.NodeName, j.Patience, j.Timeout = c.Machine, c.Machine.Name, c.Discovery.Timeout.Duration, c.Timeout.Duration
	if t := c.Discovery.BootstrapToken; t != nil {
		j.Endpoint, j.Token, j.Pins, j.SkipPins = t.APIServerEndpoint, t.Token, t.CACertHashes, t.UnsafeSkipCAVerification
	} else {
		j.DiscoveryFile, j.Token = c.Discovery.File.KubeConfigPath, c.Discovery.File.Token
	}
	if j.controlPlane = c.ControlPlane != nil; j.controlPlane {
		j.further = *c.ControlPlane
		return nil
	}
	j.nodeIP, j.cri, j.Dir = c.Node.IP, c.Node.CRI, c.Node.Folder
	return nil
}

func (j *joinFlags) joinNode(ctx context.Context) error {
	j.Node = map[string]string{"node-name": j.NodeName, "rotate-certificates": "true"}
	if j.nodeIP != "" {
		j.Node["node-ip"] = j.nodeIP
	}
	if j.cri != criSocket {
		j.Node["cri"] = j.cri
	}
	j.Checks = append([]preflight.Check{
		preflight.Privileged(os.Geteuid()),
		{Name: "CRI", Run: func(ctx context.Context) error { return nodeagent.CheckRuntime(ctx, j.cri) }},
		{Name: "BPF", Run: func(context.Context) error { return nodeagent.CheckBPF() }},
	}, portChecks()...)
	if services, manager := servicesOf(j.machine.ServiceManager, j.dir); manager == clusterfile.Systemd || j.machine.ServiceManager == clusterfile.Process {
		j.Start = func(ctx context.Context) error { return j.startAgent(ctx, services) }
	}
	return join.Run(ctx, j.Config)
}

// startAgent has a service run the agent.
func (j *joinFlags) startAgent(ctx context.Context, services initialize.Services) error {
	executable, err := os.Executable()
	if err != nil {
		return err
	}
	dir, err := absolute(j.Dir)
	if err != nil {
		return err
	}
	if _, err := binary.Install(executable, j.machine.Binary); err != nil {
		return fmt.Errorf("install %s: %w", j.machine.Binary, err)
	}
	if err := services.Install(ctx, daemon.Agent(j.machine.Binary, dir)); err != nil {
		return err
	}
	return services.Start(ctx, daemon.NodeAgent)
}

func (j *joinFlags) joinControlPlane(ctx context.Context) error {
	dir, err := absolute(j.dir)
	if err != nil {
		return err
	}
	init := clusterfile.InitConfiguration{LocalEndpoint: j.further.LocalEndpoint, Machine: j.machine, Timeout: &metav1.Duration{Duration: j.Timeout}}
	init.Machine.Name, init.Machine.IgnorePreflightErrors = j.NodeName, j.Ignore
	init.Complete(thisHost())
	if problems := init.Validate(nil); len(problems) > 0 {
		return problems.ToAggregate()
	}
	e, err := newEnv(j.Out, initialize.Folder(dir), init, clusterfile.ClusterConfiguration{}, &initFlags{dryRun: j.DryRun})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, j.Timeout)
	defer cancel()
	return initialize.Further(ctx, e, initialize.Joining{
		CertificateKey: j.further.CertificateKey, DatabaseURL: j.further.DatabaseURL, Allowed: upgrade.Joins, Flags: standaloneFlags{},
		Find: func(ctx context.Context) (bootstrap.Info, kubernetes.Interface, error) {
			return join.Find(ctx, j.Config)
		},
	})
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
