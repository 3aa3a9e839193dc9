package main

import (
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
	"k8s.io/utils/clock"

	"howdah.dev/cmd/howdah/internal/clusterfile"
	"howdah.dev/cmd/howdah/internal/initialize"
	"howdah.dev/kit/release"
)

// initFlags are those of howdah init and of its phases.
type initFlags struct {
	dir, config                         string
	uploadCerts, skipTokenPrint, dryRun bool
	ignore, skip                        []string

	// What follows is what --config has fields for.
	fields *pflag.FlagSet
	init   clusterfile.InitConfiguration
	of     clusterfile.ClusterConfiguration
	token  string
	ttl    time.Duration
}

// flags adds them to two sets: those that go beside --config, and those that it stands for.
func (i *initFlags) flags(f *pflag.FlagSet) {
	folderFlag(f, &i.dir)
	f.StringVar(&i.config, "config", "", "file with an InitConfiguration and a ClusterConfiguration (howdah config print init-defaults)")
	f.BoolVar(&i.dryRun, "dry-run", false, "look whether the machine does, and only tell what would be done")
	f.BoolVar(&i.uploadCerts, "upload-certs", false, "keep the cluster's keys in the cluster for two hours, encrypted, for further control planes")
	f.BoolVar(&i.skipTokenPrint, "skip-token-print", false, "leave secrets out of what is printed at the end")
	f.StringSliceVar(&i.ignore, "ignore-preflight-errors", nil, "checks whose failure is only told, by name: "+strings.Join(initialize.CheckNames(), ", "))

	g := pflag.NewFlagSet("fields", pflag.ContinueOnError)
	g.StringVar(&i.of.Database.URL, "database-url", "", "PostgreSQL URL")
	g.StringVar(&i.of.ControlPlaneEndpoint, "control-plane-endpoint", "", "name, or host:port, that leads to the gateways of all control planes")
	g.StringVar(&i.init.LocalEndpoint.AdvertiseAddress, "apiserver-advertise-address", "", "address of this machine, as others reach it; default that of its default route")
	g.StringVar(&i.init.LocalEndpoint.BindAddress, "apiserver-bind-address", "", "address to listen on; default all")
	g.Int32Var(&i.of.Ports.API, "apiserver-bind-port", 0, fmt.Sprintf("port of the gateways (default %d)", clusterfile.APIPort))
	g.Int32Var(&i.of.Ports.Nodes, "node-port", 0, fmt.Sprintf("port of the API servers, for node agents (default %d)", clusterfile.NodesPort))
	g.StringSliceVar(&i.of.CertSANs, "apiserver-cert-extra-sans", nil, "further names and addresses of the gateways")
	g.StringSliceVar(&i.of.Networking.ServiceSubnets, "service-cidr", nil, "addresses of services: one range, or one of each family (default 10.96.0.0/16)")
	g.StringVar(&i.of.Networking.PodSubnet, "pod-network-cidr", "", "addresses of pods (default 10.244.0.0/16)")
	g.StringVar(&i.of.Networking.DNSDomain, "service-dns-domain", "", "domain of the cluster's DNS (default cluster.local)")
	g.StringVar(&i.of.DNS.Address, "dns-address", "", "address of the DNS server; without it pods have no names")
	g.StringVar(&i.init.Machine.Name, "node-name", "", "name of this machine among the control planes; default the host's")
	g.StringVar(&i.init.Machine.ServiceManager, "service-manager", "", "what runs the control plane: systemd, process, or auto, which is systemd where it runs")
	g.StringVar(&i.init.Machine.Binary, "binary", "", "where the service has this program; it is put there (default "+clusterfile.Binary+")")
	g.StringVar(&i.init.CertificateKey, "certificate-key", "", "key of --upload-certs, 64 hexadecimal digits; default by chance")
	g.StringVar(&i.token, "token", "", "token by which machines join; default by chance")
	g.DurationVar(&i.ttl, "token-ttl", 24*time.Hour, "how long the token is good; 0 is for ever")
	i.fields = g
	f.AddFlagSet(g)
}

func initCommand() *cobra.Command {
	var i initFlags
	cmd := &cobra.Command{
		Use: "init", Short: "Make this machine a control plane, the first of a cluster", Args: cobra.NoArgs,
		Example: "  howdah init --database-url postgres://howdah:PASSWORD@192.0.2.5/howdah\n  howdah init --config init-configuration.yaml --upload-certs",
		RunE: func(cmd *cobra.Command, _ []string) error {
			e, err := i.env(cmd)
			if err != nil {
				return err
			}
			return initialize.First(cmd.Context(), e)
		},
	}
	i.flags(cmd.PersistentFlags())
	cmd.Flags().StringSliceVar(&i.skip, "skip-phases", nil, "phases to leave out: "+strings.Join(initialize.Names(initialize.Phases()), ", "))
	phases := &cobra.Command{Use: "phase", Short: "Run a single phase", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
	for _, p := range initialize.Phases() {
		phases.AddCommand(&cobra.Command{
			Use: p.Name, Short: p.Short, Args: cobra.NoArgs,
			RunE: func(cmd *cobra.Command, _ []string) error {
				e, err := i.env(cmd)
				if err != nil {
					return err
				}
				return initialize.Run(cmd.Context(), e, []initialize.Phase{p}, nil)
			},
		})
	}
	cmd.AddCommand(phases)
	return cmd
}

// env is what phases work with: of the file, of the flags, or else of what the machine was made of.
func (i *initFlags) env(cmd *cobra.Command) (*initialize.Env, error) {
	dir, err := absolute(i.dir)
	if err != nil {
		return nil, err
	}
	folder := initialize.Folder(dir)
	init, cluster, err := i.documents(cmd, folder)
	if err != nil {
		return nil, err
	}
	init.Machine.IgnorePreflightErrors = append(init.Machine.IgnorePreflightErrors, i.ignore...)
	init.SkipPhases = append(init.SkipPhases, i.skip...)
	init.Complete(thisHost())
	cluster.Complete()
	problems := append(init.Validate(initialize.Names(initialize.Phases())), cluster.Validate(standaloneFlags{})...)
	if len(problems) > 0 {
		return nil, problems.ToAggregate()
	}
	return newEnv(cmd.OutOrStdout(), folder, init, cluster, i)
}

// newEnv has what a machine is of itself.
func newEnv(out io.Writer, folder initialize.Folder, init clusterfile.InitConfiguration, cluster clusterfile.ClusterConfiguration, i *initFlags) (*initialize.Env, error) {
	executable, err := os.Executable()
	if err != nil {
		return nil, err
	}
	services, manager := servicesOf(init.Machine.ServiceManager, string(folder))
	init.Machine.ServiceManager = manager
	return &initialize.Env{
		Folder: folder, Init: init, Cluster: cluster, UploadCerts: i.uploadCerts, SkipTokenPrint: i.skipTokenPrint, DryRun: i.dryRun,
		Services: services, Executable: executable, UID: os.Geteuid(), Release: release.Version(), Out: out, Clock: clock.RealClock{},
	}, nil
}

func (i *initFlags) documents(cmd *cobra.Command, folder initialize.Folder) (init clusterfile.InitConfiguration, cluster clusterfile.ClusterConfiguration, err error) {
	given := changed(cmd, i.fields)
	switch {
	case i.config != "":
		// The database's URL has a password, which need not be in the file.
		if beside := slices.DeleteFunc(given, func(flag string) bool { return flag == "database-url" }); len(beside) > 0 {
			return init, cluster, fmt.Errorf("can not mix --config with --%s (or their environment variables)", strings.Join(beside, ", --"))
		}
		d, err := readDocuments(i.config)
		if err != nil {
			return init, cluster, err
		}
		if d.Join != nil {
			return init, cluster, fmt.Errorf("%s: a %s is for howdah join", i.config, clusterfile.JoinKind)
		}
		if d.Init != nil {
			init = *d.Init
		}
		if d.Cluster != nil {
			cluster = *d.Cluster
		}
		if cluster.Database.URL == "" {
			cluster.Database.URL = i.of.Database.URL
		}
		return init, cluster, nil
	case len(given) == 0 && folder.There():
		return folder.Load()
	}
	if folder.There() { // an earlier try, or a control plane: flags go over what it was made of
		if init, cluster, err = folder.Load(); err != nil {
			return init, cluster, err
		}
		if err := i.over(given, &init, &cluster); err != nil {
			return init, cluster, err
		}
		return init, cluster, nil
	}
	init, cluster = i.init, i.of
	init.BootstrapTokens = []clusterfile.BootstrapToken{{Token: i.token, TTL: &metav1.Duration{Duration: i.ttl}}}
	return init, cluster, nil
}

// over lays flags over documents: it reads the flags once more, into those.
func (i *initFlags) over(given []string, init *clusterfile.InitConfiguration, cluster *clusterfile.ClusterConfiguration) error {
	var again initFlags
	again.flags(pflag.NewFlagSet("again", pflag.ContinueOnError))
	again.init, again.of = *init, *cluster
	var problems []error
	for _, name := range given {
		f, to := i.fields.Lookup(name), again.fields.Lookup(name)
		if values, ok := f.Value.(pflag.SliceValue); ok {
			problems = append(problems, to.Value.(pflag.SliceValue).Replace(values.GetSlice()))
			continue
		}
		problems = append(problems, to.Value.Set(f.Value.String()))
	}
	*init, *cluster = again.init, again.of
	if slices.Contains(given, "token") || slices.Contains(given, "token-ttl") {
		init.BootstrapTokens = []clusterfile.BootstrapToken{{Token: again.token, TTL: &metav1.Duration{Duration: i.ttl}}}
	}
	return errors.Join(problems...)
}

// changed are the names of flags of a set that the command line or the environment has given.
func changed(cmd *cobra.Command, of *pflag.FlagSet) []string {
	var names []string
	of.VisitAll(func(f *pflag.Flag) {
		if cmd.Flags().Changed(f.Name) {
			names = append(names, f.Name)
		}
	})
	return names
}

func readDocuments(file string) (clusterfile.Documents, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return clusterfile.Documents{}, err
	}
	d, err := clusterfile.Decode(data)
	if err != nil {
		return clusterfile.Documents{}, fmt.Errorf("%s: %w", file, err)
	}
	return d, nil
}

// loadEnv is that of a control plane that is there.
func loadEnv(out io.Writer, folder initialize.Folder) (*initialize.Env, error) {
	init, cluster, err := folder.Load()
	if err != nil {
		return nil, err
	}
	init.Complete(thisHost())
	cluster.Complete()
	return newEnv(out, folder, init, cluster, &initFlags{})
}
