package main

import (
	"context"
	"crypto"
	"crypto/x509"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/client-go/util/keyutil"

	"howdah.dev/cmd/howdah/internal/gate"
	"howdah.dev/kit/rpc"
	"howdah.dev/services/apiserver"
)

// apiserverFlags are the settings that an apiserver has in the standalone too.
type apiserverFlags struct {
	databaseURL, nodePorts, clusterDomain string
	serviceCIDRs                          []string
	gatewayEndpoints                      []string
	name                                  string
	enabledAdmission, disabledAdmission   []string
	admissionConfig                       string
	runtimeConfig                         []string
	identity                              identityFlags
	clientCA                              clientCAFlag
	historyRetention, eventTTL            time.Duration
	databaseQuota                         string
	protection                            protectionFlags
	features                              featureFlags
}

func (a *apiserverFlags) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	a.protection.flags(f)
	a.identity.flags(f)
	a.features.flags(f)
	a.clientCA.flags(f, "authorities that sign certificates of users beside the cluster's own, for extension API servers to know; gateways are told them, too")
	f.StringVar(&a.databaseURL, "database-url", "", "PostgreSQL URL")
	f.DurationVar(&a.historyRetention, "history-retention", time.Hour, "how long the change log keeps what was: history, states of the past, and watches that resume")
	f.StringVar(&a.databaseQuota, "database-quota", "16Gi", "how much room objects and their change log may take in the database: near it the log is kept for a shorter time, above it nothing can be created, and by a quarter above it only deletions are taken; 0 sets no bound")
	f.DurationVar(&a.eventTTL, "event-ttl", time.Hour, "how long an Event stays after it was last written; 0 is for ever")
	f.StringSliceVar(&a.serviceCIDRs, "service-cidr", []string{"10.96.0.0/16"}, "addresses of services: one range, or an IPv4 and an IPv6 one, that of the default family first")
	f.StringVar(&a.nodePorts, "service-node-port-range", "30000-32767", "ports of NodePort services")
	f.StringVar(&a.clusterDomain, "cluster-domain", "cluster.local", "domain of the cluster's DNS")
	f.StringSliceVar(&a.gatewayEndpoints, "gateway-endpoints", nil, "ip:port of each gateway, for the Service kubernetes")
	f.StringVar(&a.name, "apiserver-name", "", "name of this API server among others, in its Lease; default the host's name")
	f.StringVar(&a.admissionConfig, "admission-control-config-file", "", "AdmissionConfiguration with the settings of admission plugins")
	f.StringSliceVar(&a.runtimeConfig, "runtime-config", nil, "versions of the API to switch on or off, as key=true|false: v1, GROUP/VERSION or GROUP/VERSION/RESOURCE; api/ga, api/beta and api/alpha for all of a kind, api/all for those three, and api/legacy for what Kubernetes has removed, as extensions/v1beta1 (default: api/ga alone is on)")
	f.StringSliceVar(&a.enabledAdmission, "enable-admission-plugins", nil, "admission plugins to switch on beside those that are on by default; their order does not matter")
	f.StringSliceVar(&a.disabledAdmission, "disable-admission-plugins", nil, "admission plugins to switch off")
}

// config checks the settings and reports all problems at once.
func (a *apiserverFlags) config(signer crypto.Signer, registerer prometheus.Registerer) (apiserver.Config, error) {
	var problems []error
	if a.databaseURL == "" {
		problems = append(problems, errors.New("--database-url is required"))
	}
	services, err := serviceRanges(a.serviceCIDRs)
	if err != nil {
		problems = append(problems, fmt.Errorf("--service-cidr: %w", err))
	}
	if a.historyRetention < time.Minute {
		problems = append(problems, fmt.Errorf("--history-retention: %s is less than a minute", a.historyRetention))
	}
	quota, err := databaseQuota(a.databaseQuota)
	if err != nil {
		problems = append(problems, fmt.Errorf("--database-quota: %w", err))
	}
	ttl := a.eventTTL
	switch {
	case ttl == 0:
		ttl = -1 // the configuration's zero is the default
	case ttl < time.Second:
		problems = append(problems, fmt.Errorf("--event-ttl: %s is less than a second", ttl))
	}
	if err := a.protection.check(); err != nil {
		problems = append(problems, err)
	}
	gates, err := a.features.gates()
	if err != nil {
		problems = append(problems, err)
	} else {
		tell(gates, registerer)
	}
	var gateways []netip.AddrPort
	for _, endpoint := range a.gatewayEndpoints {
		address, err := netip.ParseAddrPort(endpoint)
		if err != nil {
			problems = append(problems, fmt.Errorf("--gateway-endpoints: %w", err))
		}
		gateways = append(gateways, address)
	}
	clients, err := a.clientCA.bundle()
	if err != nil {
		problems = append(problems, err)
	}
	host := a.name
	if host == "" {
		host, err = os.Hostname()
	}
	if err != nil {
		problems = append(problems, fmt.Errorf("the host's name, for the apiserver's lease: %w", err))
	}
	cfg := apiserver.Config{
		Identity: host, DatabaseURL: a.databaseURL, ServiceAccountKey: signer, ServiceCIDRs: services, NodePortRange: a.nodePorts,
		EnabledAdmission: a.enabledAdmission, RuntimeConfig: a.runtimeConfig, AdmissionConfig: a.admissionConfig,
		ClusterDomain: a.clusterDomain, GatewayEndpoints: gateways, DisabledAdmission: a.disabledAdmission,
		HistoryRetention: a.historyRetention, DatabaseQuota: quota, EventTTL: ttl, Registerer: registerer, CBOR: gates.Enabled(gate.CBOR), Features: gates.All(),
	}
	if err := a.identity.apply(&cfg); err != nil {
		problems = append(problems, err)
	}
	if clients != nil {
		cfg.ClientCA = func() []byte { return clients.Now().PEM }
	}
	a.protection.apply(&cfg)
	return cfg, errors.Join(problems...)
}

func apiserverCommand() *cobra.Command {
	r := &role{name: "apiserver"}
	var a apiserverFlags
	var usage string
	cmd := r.command("Serve the object API over gRPC", func(ctx context.Context) error {
		signer, err := a.signer(r.tlsDir)
		if err != nil {
			return err
		}
		cfg, err := a.config(signer, r.registry)
		if err != nil {
			return err
		}
		reachNodes(&cfg, r.identity)
		if err := frontProxy(&cfg, r.identity); err != nil {
			return err
		}
		conn, hangUp, err := r.dialUsage(usage)
		if err != nil {
			return err
		}
		defer hangUp()
		cfg.Usage = conn
		s, err := apiserver.New(cfg)
		if err != nil {
			return err
		}
		return r.serve(ctx, s, closed(s.Ready()))
	})
	r.flags(cmd)
	a.flags(cmd)
	cmd.Flags().StringVar(&usage, "metrics", "", "gRPC target of the metrics service, of whose answers metrics.k8s.io is made; empty leaves that to extension API servers")
	return cmd
}

// nodesOrganization is what certificates of nodes bear.
const nodesOrganization = "system:nodes"

// reachNodes has the apiserver reach node agents and gateways by its own certificate.
func reachNodes(cfg *apiserver.Config, identity *rpc.Identity) {
	nodes := identity.ClientOrganization(nodesOrganization)
	cfg.NodeDialer = func(_ context.Context, address string) (*grpc.ClientConn, error) {
		return rpc.Dial("passthrough:///"+address, nodes)
	}
	cfg.NodeTLS, cfg.GatewayTLS = nodes, identity.Client("gateway")
}

// frontProxy makes the apiserver's own certificate the one that extension API servers know it by, and its authorities those that it tells.
func frontProxy(cfg *apiserver.Config, identity *rpc.Identity) error {
	leaf, err := x509.ParseCertificate(identity.Certificate().Certificate[0])
	if err != nil {
		return fmt.Errorf("the apiserver's certificate: %w", err)
	}
	authority, others := func() []byte { return identity.Authorities().Now().PEM }, cfg.ClientCA
	cfg.FrontProxy, cfg.FrontProxyCA, cfg.Authorities = identity.Certificate, authority, authority
	cfg.ClientCA = func() []byte {
		if others == nil {
			return authority()
		}
		return slices.Concat(authority(), others())
	}
	cfg.FrontProxyNames = []string{leaf.Subject.CommonName}
	return nil
}

// closed returns a function that waits for a channel to be closed.
func closed(ready <-chan struct{}) func(ctx context.Context) bool {
	return func(ctx context.Context) bool {
		select {
		case <-ready:
			return true
		case <-ctx.Done():
			return false
		}
	}
}

// signer returns the key of a folder that signs service-account tokens, nil where another program does.
func (a *apiserverFlags) signer(dir string) (crypto.Signer, error) {
	if a.identity.authentication.SigningEndpoint != "" {
		return nil, nil
	}
	return readSigner(filepath.Join(dir, "sa.key"))
}

// readSigner reads the key that signs service-account tokens.
func readSigner(path string) (crypto.Signer, error) {
	key, err := keyutil.PrivateKeyFromFile(path)
	if err != nil {
		return nil, fmt.Errorf("key of service-account tokens: %w", err)
	}
	signer, ok := key.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("%s holds a %T, which cannot sign", path, key)
	}
	return signer, nil
}

// serviceRanges reads the ranges of Services' addresses: one, or one of each family.
func serviceRanges(texts []string) ([]netip.Prefix, error) {
	var ranges []netip.Prefix
	for _, text := range texts {
		p, err := netip.ParsePrefix(strings.TrimSpace(text))
		if err != nil {
			return nil, err
		}
		if p.Addr().BitLen()-p.Bits() < 3 {
			return nil, fmt.Errorf("%s: the range must have at least 8 IP addresses", p)
		}
		ranges = append(ranges, p)
	}
	switch {
	case len(ranges) == 0:
		return nil, errors.New("a range is required")
	case len(ranges) > 2:
		return nil, errors.New("must not contain more than two entries")
	case len(ranges) == 2 && ranges[0].Addr().Is6() == ranges[1].Addr().Is6():
		return nil, fmt.Errorf("%s and %s must be of different IP families", ranges[0], ranges[1])
	}
	return ranges, nil
}

// leastQuota has room for the log of a small cluster, which goes by pieces of some hundred megabytes.
const leastQuota = 1 << 30

// databaseQuota is a quota in bytes; 0 is none.
func databaseQuota(text string) (int64, error) {
	q, err := resource.ParseQuantity(text)
	if err != nil {
		return 0, fmt.Errorf("%q is no quantity", text)
	}
	if bytes := q.Value(); bytes == 0 || bytes >= leastQuota {
		return bytes, nil
	}
	return 0, fmt.Errorf("%s is less than 1Gi", text)
}
