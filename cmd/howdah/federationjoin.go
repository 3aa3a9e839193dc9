package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"howdah.dev/cmd/howdah/internal/joined"
	"howdah.dev/kit/release"
	"howdah.dev/services/federation/api"
)

// restConfig reads a kubeconfig as kubectl does.
func restConfig(kubeconfig, kubeContext string) (*rest.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: kubeContext}).ClientConfig()
	if err != nil {
		return nil, err
	}
	cfg.UserAgent = "howdah/" + release.Version()
	return cfg, nil
}

func federationJoinCommand() *cobra.Command {
	var kubeconfig, memberConfig, memberContext string
	var labels []string
	var wait time.Duration
	var j joined.Join
	cmd := &cobra.Command{
		Use: "join NAME", Short: "Make a cluster a member of the federation", Args: cobra.ExactArgs(1),
		Long: "Make a cluster a member of the federation.\n\nIn the member it makes an account with the rights that carrying needs, unless --use-credentials says to take those of the kubeconfig. In the federation\n" +
			"it stores them in a Secret, and makes the Cluster.",
		Example: "  howdah federation join north --member-kubeconfig north.yaml --region north\n  howdah federation join south --member-kubeconfig all.yaml --member-context south --resource shops.example.com",
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx := cmd.Context()
			fed, err := joined.Federation(func() (*rest.Config, error) { return restConfig(kubeconfig, "") })
			if err != nil {
				return err
			}
			if j.Member, err = restConfig(memberConfig, memberContext); err != nil {
				return fmt.Errorf("--member-kubeconfig: %w", err)
			}
			j.Name = args[0]
			if j.Labels, err = pairs(labels); err != nil {
				return err
			}
			if err := j.Run(ctx, fed); err != nil {
				return err
			}
			if wait == 0 {
				fmt.Fprintf(cmd.OutOrStdout(), "cluster %s joined\n", j.Name)
				return nil
			}
			c, err := fed.AwaitReady(ctx, j.Name, wait)
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "cluster %s joined, and is ready: Kubernetes %s\n", j.Name, c.Status.KubernetesVersion)
			return nil
		},
	}
	kubeconfigFlag(cmd, &kubeconfig)
	f := cmd.Flags()
	f.StringVar(&memberConfig, "member-kubeconfig", "", "kubeconfig of an administrator of the member (required)")
	f.StringVar(&memberContext, "member-context", "", "context of that kubeconfig; its current one where empty")
	f.StringVar(&j.Server, "server", "", "URL at which the federation reaches the member; that of the kubeconfig where empty")
	f.StringVar(&j.Provider, "provider", "", "who runs the member")
	f.StringVar(&j.Region, "region", "", "region of the member")
	f.StringVar(&j.Zone, "zone", "", "zone of the member")
	f.StringSliceVar(&labels, "labels", nil, "labels of the Cluster, KEY=VALUE")
	f.BoolVar(&j.UseCredentials, "use-credentials", false, "store the token or the client certificate of the kubeconfig, and make no account in the member")
	f.StringSliceVar(&j.Resources, "resource", nil, "further resources that may be carried, as shops.example.com; the account's role has those of workloads anyway")
	f.BoolVar(&j.AllResources, "all-resources", false, "let the account carry every resource")
	f.DurationVar(&wait, "wait", time.Minute, "how long to wait until the cluster is ready; 0 does not")
	_ = cmd.MarkFlagRequired("member-kubeconfig")
	return cmd
}

// pairs reads KEY=VALUE.
func pairs(texts []string) (map[string]string, error) {
	all := map[string]string{}
	for _, text := range texts {
		key, value, ok := strings.Cut(text, "=")
		if !ok {
			return nil, fmt.Errorf("--labels: %q is not KEY=VALUE", text)
		}
		all[key] = value
	}
	return all, nil
}

func federationUnjoinCommand() *cobra.Command {
	var kubeconfig, memberConfig, memberContext string
	var wait time.Duration
	cmd := &cobra.Command{
		Use: "unjoin NAME", Short: "Take a cluster out of the federation, and what was carried there out of the cluster", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			fed, err := joined.Federation(func() (*rest.Config, error) { return restConfig(kubeconfig, "") })
			if err != nil {
				return err
			}
			if err := fed.Remove(cmd.Context(), args[0], wait); err != nil {
				return err
			}
			if memberConfig != "" {
				member, err := restConfig(memberConfig, memberContext)
				if err != nil {
					return fmt.Errorf("--member-kubeconfig: %w", err)
				}
				if err := joined.RemoveAccount(cmd.Context(), member, args[0]); err != nil {
					return err
				}
			}
			fmt.Fprintf(cmd.OutOrStdout(), "cluster %s left\n", args[0])
			return nil
		},
	}
	kubeconfigFlag(cmd, &kubeconfig)
	f := cmd.Flags()
	f.StringVar(&memberConfig, "member-kubeconfig", "", "kubeconfig of an administrator of the member, to delete the account there; empty leaves it")
	f.StringVar(&memberContext, "member-context", "", "context of that kubeconfig; its current one where empty")
	f.DurationVar(&wait, "wait", 3*time.Minute, "how long to wait until nothing is left in the member")
	return cmd
}

func federationClustersCommand() *cobra.Command {
	var kubeconfig string
	cmd := &cobra.Command{
		Use: "clusters", Short: "List the members of the federation, with what they have and what is carried there", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			fed, err := joined.Federation(func() (*rest.Config, error) { return restConfig(kubeconfig, "") })
			if err != nil {
				return err
			}
			clusters, err := fed.Clusters(cmd.Context())
			if err != nil {
				return err
			}
			placements, err := fed.Placements(cmd.Context())
			if err != nil {
				return err
			}
			return printClusters(cmd.OutOrStdout(), clusters, placements)
		},
	}
	kubeconfigFlag(cmd, &kubeconfig)
	return cmd
}

func printClusters(out io.Writer, clusters []api.Cluster, placements []api.Placement) error {
	w := tabwriter.NewWriter(out, 0, 4, 3, ' ', 0)
	fmt.Fprintln(w, "NAME\tREADY\tVERSION\tNODES\tCPU\tMEMORY\tPODS\tOBJECTS\tREGION\tREASON")
	for i := range clusters {
		c := &clusters[i]
		ready, reason := "Unknown", "NotProbed"
		if condition := meta.FindStatusCondition(c.Status.Conditions, api.Ready); condition != nil {
			ready, reason = string(condition.Status), condition.Reason
		}
		nodes := "-"
		if n := c.Status.Nodes; n != nil {
			nodes = fmt.Sprintf("%d/%d", n.Ready, n.Total)
		}
		carried, all := 0, 0
		for _, p := range placements {
			for _, s := range p.Status.Clusters {
				if s.Name == c.Name && s.State != api.StateLeaving {
					if all++; s.State == api.StateCarried {
						carried++
					}
				}
			}
		}
		fmt.Fprintln(w, strings.Join([]string{
			c.Name, ready, dash(c.Status.KubernetesVersion), nodes, used(c, "cpu"), used(c, "memory"), used(c, "pods"), strconv.Itoa(carried) + "/" + strconv.Itoa(all), dash(c.Spec.Region), reason,
		}, "\t"))
	}
	return w.Flush()
}

// used is what of a resource is allocated, and how much there is.
func used(c *api.Cluster, name string) string {
	there, ok := c.Status.Allocatable[name]
	if !ok {
		return "-"
	}
	allocated := c.Status.Allocated[name]
	return allocated.String() + "/" + there.String()
}

func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
