package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"

	"howdah.dev/cmd/howdah/internal/gate"
	"howdah.dev/kit/object"
	"howdah.dev/kit/pki"
	"howdah.dev/services/controllers"
)

func controllersCommand() *cobra.Command {
	r := &role{name: "controllers"}
	var (
		api, databaseURL, clusterCIDR string
		enabled, name, recyclerImage  string
		nodeMask, nodeMask6           int
		signingCert, signingKey       string
		signingDuration               time.Duration
		legacyTokens                  legacyTokenFlag
		autoscaling                   autoscalingFlags
		health                        nodeHealthFlags
		features                      featureFlags
		balancers                     []string
	)
	cmd := r.command("Run the controllers", func(ctx context.Context) error {
		if databaseURL == "" {
			return errors.New("--database-url is required: the controllers elect their leader there")
		}
		conn, err := r.dialAPI(api)
		if err != nil {
			return err
		}
		defer conn.Close()
		if err := errors.Join(legacyTokens.validate(), autoscaling.validate()); err != nil {
			return err
		}
		ranges, err := prefixes("--load-balancer-cidr", balancers)
		if err != nil {
			return err
		}
		gates, err := features.gates()
		if err != nil {
			return err
		}
		tell(gates, r.registry)
		autoscaling.ToZero = gates.Enabled(gate.ToZero)
		leadership, err := newLeadership(databaseURL, name)
		if err != nil {
			return err
		}
		ca, err := pki.LoadBundle(filepath.Join(r.tlsDir, "ca.crt"))
		if err != nil {
			return fmt.Errorf("root certificate: %w", err)
		}
		cfg := controllers.Config{
			Objects: object.NewClient(conn, "kube-controller-manager"), Leadership: leadership, Clock: clock.RealClock{},
			Registerer: r.registry, Role: name, Enabled: enabled, ClusterCIDR: clusterCIDR, NodeCIDRMaskSize: nodeMask, NodeCIDRMaskSizeIPv6: nodeMask6, RootCA: ca, TrustBundles: gates.Enabled(gate.TrustBundle),
			Signing: signingAuthority{signingCert, signingKey}.source(r.tlsDir), SigningDuration: signingDuration,
			LegacyTokenPeriod: legacyTokens.period, Autoscaling: autoscaling.Autoscaling, LoadBalancerCIDRs: ranges, RecyclerImage: recyclerImage,
		}
		if err := health.apply(&cfg); err != nil {
			return err
		}
		s, err := controllers.New(cfg)
		if err != nil {
			return err
		}
		return r.serve(ctx, s, s.Ready)
	})
	r.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&api, "apiserver", "dns:///apiserver:7443", "gRPC target of the apiservers")
	f.StringVar(&databaseURL, "database-url", "", "PostgreSQL URL, for the election of a leader")
	f.StringVar(&enabled, "controllers", "*", "controllers or groups of them to run: * is all but those that run by name alone, +name one more, -name one less")
	f.StringVar(&name, "role", controllers.Role, "name of the election; processes that run different controllers take different ones")
	f.StringVar(&clusterCIDR, "cluster-cidr", "10.244.0.0/16", "addresses of pods")
	f.IntVar(&nodeMask, "node-cidr-mask-size", 24, "bits of the network part of a node's share of --cluster-cidr")
	f.IntVar(&nodeMask6, "node-cidr-mask-size-ipv6", 64, "the same of its IPv6 range")
	f.StringSliceVar(&balancers, "load-balancer-cidr", nil, "range of the nodes' network that nothing else hands out: Services of the type LoadBalancer get addresses of it; empty leaves them pending")
	f.StringVar(&recyclerImage, "pv-recycler-image", "", "image, with a shell, of the pods that wipe volumes whose reclaim policy is Recycle, for the controller volumerecycler, which runs by name alone")
	f.StringVar(&signingCert, "cluster-signing-cert-file", "", "certificate of the authority that signs CertificateSigningRequests; empty is ca.crt in --tls-dir")
	f.StringVar(&signingKey, "cluster-signing-key-file", "", "its key; empty is ca.key in --tls-dir, and where that is absent nothing is signed")
	legacyTokens.flags(f)
	autoscaling.flags(f)
	health.flags(f)
	features.flags(f)
	f.DurationVar(&signingDuration, "cluster-signing-duration", 8760*time.Hour, "how long signed certificates last at most")
	return cmd
}

// signingAuthority are the files of the authority that signs CertificateSigningRequests.
type signingAuthority struct{ certFile, keyFile string }

// source reads the files, or those of the folder where none are named, each time that it is asked; nil where there is no key to sign by.
func (a signingAuthority) source(folder string) func() (certificates, key []byte, err error) {
	named := a.keyFile != ""
	if !named {
		a.keyFile = filepath.Join(folder, "ca.key")
	}
	if a.certFile == "" {
		a.certFile = filepath.Join(folder, "ca.crt")
	}
	if _, err := os.Stat(a.keyFile); errors.Is(err, fs.ErrNotExist) && !named {
		return nil
	}
	return func() (certificates, key []byte, err error) {
		if key, err = os.ReadFile(a.keyFile); err != nil {
			return nil, nil, fmt.Errorf("--cluster-signing-key-file: %w", err)
		}
		if certificates, err = os.ReadFile(a.certFile); err != nil {
			return nil, nil, fmt.Errorf("--cluster-signing-cert-file: %w", err)
		}
		return certificates, key, nil
	}
}
