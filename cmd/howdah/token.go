package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"howdah.dev/cmd/howdah/internal/bootstrap"
	"howdah.dev/cmd/howdah/internal/sealed"
	"howdah.dev/kit/release"
)

// tokenTimeout bounds what a token command asks of the API.
const tokenTimeout = 30 * time.Second

func tokenCommand() *cobra.Command {
	var kubeconfig string
	cmd := &cobra.Command{Use: "token", Short: "Create, list and delete the tokens by which machines join the cluster", Args: cobra.NoArgs, RunE: func(cmd *cobra.Command, _ []string) error {
		return cmd.Help()
	}}
	cmd.PersistentFlags().StringVar(&kubeconfig, "kubeconfig", "", "kubeconfig file; $KUBECONFIG or ~/.kube/config where empty")
	cmd.AddCommand(tokenCreateCommand(&kubeconfig), tokenListCommand(&kubeconfig), tokenDeleteCommand(&kubeconfig), tokenGenerateCommand())
	return cmd
}

// clientset returns an administrator's client.
func clientset(kubeconfig string) (kubernetes.Interface, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	cfg, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, err
	}
	cfg.UserAgent = "howdah/" + release.Version()
	return kubernetes.NewForConfig(cfg)
}

func tokenCreateCommand(kubeconfig *string) *cobra.Command {
	var ttl time.Duration
	var grant bootstrap.Grant
	var printJoin bool
	var certificateKey string
	cmd := &cobra.Command{
		Use: "create [TOKEN]", Short: "Create a token, by chance where none is given, and print it", Args: cobra.MaximumNArgs(1),
		Example: "  howdah token create --print-join-command\n  howdah token create --ttl 2h --description 'rack 7'",
		RunE: func(cmd *cobra.Command, args []string) error {
			var err error
			if len(args) > 0 {
				grant.Token, err = bootstrap.ParseToken(args[0])
			} else {
				grant.Token, err = bootstrap.NewToken()
			}
			if ttl < 0 {
				err = errors.Join(err, fmt.Errorf("--ttl: %s is less than nothing", ttl))
			}
			if ttl > 0 {
				grant.Expires = time.Now().Add(ttl)
			}
			if certificateKey != "" {
				_, keyErr := sealed.ParseKey(certificateKey)
				if !printJoin {
					keyErr = errors.New("it goes with --print-join-command")
				}
				if keyErr != nil {
					err = errors.Join(err, fmt.Errorf("--certificate-key: %w", keyErr))
				}
			}
			if err = errors.Join(err, grant.Validate()); err != nil {
				return err
			}
			client, err := clientset(*kubeconfig)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), tokenTimeout)
			defer cancel()
			line := grant.Token.String()
			if printJoin { // before the token is made: without cluster-info nobody can join by it
				if line, err = joinCommandLine(ctx, client, grant.Token); err != nil {
					return err
				}
				if certificateKey != "" {
					line += " --control-plane --certificate-key " + certificateKey
				}
			}
			_, err = client.CoreV1().Secrets(metav1.NamespaceSystem).Create(ctx, grant.Secret(), metav1.CreateOptions{})
			if apierrors.IsAlreadyExists(err) {
				return fmt.Errorf("a token with id %q already exists", grant.Token.ID)
			}
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), line)
			return nil
		},
	}
	f := cmd.Flags()
	f.DurationVar(&ttl, "ttl", 24*time.Hour, "how long the token is good; 0 is for ever")
	f.StringSliceVar(&grant.Usages, "usages", bootstrap.Usages, "what the token is for: signing cluster-info, and authentication")
	f.StringSliceVar(&grant.Groups, "groups", []string{bootstrap.DefaultGroup}, "groups of who comes with it, which begin with system:bootstrappers:")
	f.StringVar(&grant.Description, "description", "", "how the token is used, for people")
	f.StringVar(&certificateKey, "certificate-key", "", "with --print-join-command: print that of a further control plane, with this key of howdah init phase upload-certs")
	f.BoolVar(&printJoin, "print-join-command", false, "print the whole command by which a machine joins")
	return cmd
}

// joinCommandLine is what to run on a machine that is to become a node.
func joinCommandLine(ctx context.Context, client kubernetes.Interface, token bootstrap.Token) (string, error) {
	const hint = "is howdah addons --join-server set up?"
	m, err := client.CoreV1().ConfigMaps(metav1.NamespacePublic).Get(ctx, bootstrap.InfoName, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("where machines join (%s): %w", hint, err)
	}
	info, err := bootstrap.ParseInfo(m.Data[bootstrap.InfoKey])
	if err != nil {
		return "", fmt.Errorf("where machines join (%s): kube-public/cluster-info: %w", hint, err)
	}
	line, err := info.JoinCommand(token)
	if err != nil {
		return "", fmt.Errorf("kube-public/cluster-info: %w", err)
	}
	return line, nil
}

func tokenListCommand(kubeconfig *string) *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use: "list", Short: "List the tokens", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch output {
			case "text", "json", "yaml":
			default:
				return fmt.Errorf("--output: %q is none of text, json, yaml", output)
			}
			client, err := clientset(*kubeconfig)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), tokenTimeout)
			defer cancel()
			secrets, err := client.CoreV1().Secrets(metav1.NamespaceSystem).List(ctx, metav1.ListOptions{FieldSelector: "type=bootstrap.kubernetes.io/token"})
			if err != nil {
				return err
			}
			var grants []bootstrap.Grant
			for i := range secrets.Items {
				g, err := bootstrap.GrantOf(&secrets.Items[i])
				if err != nil {
					fmt.Fprintln(cmd.ErrOrStderr(), "warning:", err)
					continue
				}
				grants = append(grants, g)
			}
			return printGrants(cmd.OutOrStdout(), output, grants, time.Now())
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "text", "text, json or yaml")
	return cmd
}

// printedGrant has the fields that kubeadm prints.
type printedGrant struct {
	Kind        string       `json:"kind"`
	APIVersion  string       `json:"apiVersion"`
	Token       string       `json:"token"`
	Description string       `json:"description,omitempty"`
	Expires     *metav1.Time `json:"expires,omitempty"`
	Usages      []string     `json:"usages,omitempty"`
	Groups      []string     `json:"groups,omitempty"`
}

func printGrants(out io.Writer, output string, grants []bootstrap.Grant, now time.Time) error {
	if output == "text" {
		return tabulateGrants(out, grants, now)
	}
	for _, g := range grants {
		p := printedGrant{Kind: "BootstrapToken", APIVersion: "output.kubeadm.k8s.io/v1alpha3", Token: g.Token.String(), Description: g.Description, Usages: g.Usages, Groups: g.Groups}
		if !g.Expires.IsZero() {
			p.Expires = &metav1.Time{Time: g.Expires}
		}
		data, err := json.MarshalIndent(p, "", "    ")
		if err == nil && output == "yaml" {
			if data, err = yaml.Marshal(p); err == nil {
				data = append([]byte("---\n"), data...)
			}
		}
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintln(out, strings.TrimSuffix(string(data), "\n")); err != nil {
			return err
		}
	}
	return nil
}

func tabulateGrants(out io.Writer, grants []bootstrap.Grant, now time.Time) error {
	w := tabwriter.NewWriter(out, 10, 4, 3, ' ', 0)
	fmt.Fprintln(w, "TOKEN\tTTL\tEXPIRES\tUSAGES\tDESCRIPTION\tEXTRA GROUPS")
	or := func(text, none string) string {
		if text == "" {
			return none
		}
		return text
	}
	for _, g := range grants {
		ttl, expires := "<forever>", "<never>"
		if !g.Expires.IsZero() {
			if expires, ttl = g.Expires.Format(time.RFC3339), "<expired>"; g.Expires.After(now) {
				ttl = duration.ShortHumanDuration(g.Expires.Sub(now))
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", g.Token, ttl, expires, or(strings.Join(g.Usages, ","), "<none>"), or(g.Description, "<none>"), or(strings.Join(g.Groups, ","), "<none>"))
	}
	return w.Flush()
}

func tokenDeleteCommand(kubeconfig *string) *cobra.Command {
	return &cobra.Command{
		Use: "delete ID...", Short: "Delete tokens, by their ids or whole", Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var ids []string
			for i, text := range args {
				id, err := bootstrap.ParseID(text)
				if err != nil {
					return fmt.Errorf("argument %d: %w", i+1, err) // it may be a mistyped secret
				}
				ids = append(ids, id)
			}
			client, err := clientset(*kubeconfig)
			if err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), tokenTimeout)
			defer cancel()
			var problems []error
			for _, id := range ids {
				err := client.CoreV1().Secrets(metav1.NamespaceSystem).Delete(ctx, bootstrap.SecretPrefix+id, metav1.DeleteOptions{})
				if apierrors.IsNotFound(err) {
					err = fmt.Errorf("there is no token with id %q", id)
				}
				if err != nil {
					problems = append(problems, err)
					continue
				}
				fmt.Fprintf(cmd.OutOrStdout(), "bootstrap token %q deleted\n", id)
			}
			return errors.Join(problems...)
		},
	}
}

func tokenGenerateCommand() *cobra.Command {
	return &cobra.Command{
		Use: "generate", Short: "Print a token for howdah token create, and create none", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			token, err := bootstrap.NewToken()
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), token)
			return nil
		},
	}
}
