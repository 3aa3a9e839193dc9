package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	schedulerv1 "howdah.dev/proto/gen/howdah/scheduler/v1"
)

func explainCommand() *cobra.Command {
	var namespace, kubeconfig string
	cmd := &cobra.Command{
		Use: "explain pod NAME", Short: "Tell why a pod is where it is, or nowhere", Args: cobra.ExactArgs(2),
		Example: "  howdah explain pod nginx-7c5ddbdf54-x2x6q\n  howdah explain pod big -n shop",
		RunE: func(cmd *cobra.Command, args []string) error {
			switch args[0] {
			case "pod", "pods", "po":
			default:
				return fmt.Errorf("explain knows pods, not %q", args[0])
			}
			client, ns, err := restClient(kubeconfig, namespace)
			if err != nil {
				return err
			}
			response, err := fetchExplanation(cmd.Context(), client, ns, args[1])
			if err != nil {
				return err
			}
			return printExplanation(cmd.OutOrStdout(), response)
		},
	}
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "", "namespace of the pod")
	kubeconfigFlag(cmd, &kubeconfig)
	return cmd
}

func kubeconfigFlag(cmd *cobra.Command, path *string) {
	cmd.Flags().StringVar(path, "kubeconfig", "", "kubeconfig file; $KUBECONFIG or ~/.kube/config where empty")
}

// restClient returns a client for paths outside of the object API, and the
// namespace to use.
func restClient(kubeconfig, namespace string) (*rest.RESTClient, string, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{})
	cfg, err := loader.ClientConfig()
	if err != nil {
		return nil, "", err
	}
	if namespace == "" {
		if namespace, _, err = loader.Namespace(); err != nil {
			return nil, "", err
		}
	}
	client, err := rest.UnversionedRESTClientFor(withCodec(cfg))
	return client, namespace, err
}

func fetchExplanation(ctx context.Context, client *rest.RESTClient, namespace, name string) (*schedulerv1.ExplainResponse, error) {
	result := client.Get().AbsPath("/howdah/v1/namespaces", namespace, "pods", name, "explain").Do(ctx)
	if err := result.Error(); err != nil { // with the Status that the gateway sent, which Raw leaves out
		return nil, err
	}
	data, err := result.Raw()
	if err != nil {
		return nil, err
	}
	response := &schedulerv1.ExplainResponse{}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(data, response); err != nil {
		return nil, errors.New("the gateway's answer is no explanation: " + err.Error())
	}
	return response, nil
}

func printExplanation(out io.Writer, e *schedulerv1.ExplainResponse) error {
	switch {
	case e.GetNode() != "":
		fmt.Fprintf(out, "Pod %s/%s is on node %s (scheduler %s).\n", e.GetNamespace(), e.GetName(), e.GetNode(), e.GetScheduler())
	case e.GetMessage() != "":
		fmt.Fprintf(out, "Pod %s/%s is pending: %s\n", e.GetNamespace(), e.GetName(), e.GetMessage())
	default:
		fmt.Fprintf(out, "Pod %s/%s is pending; nodes that could take it are below.\n", e.GetNamespace(), e.GetName())
	}
	if e.GetQueue() != "" {
		fmt.Fprintf(out, "It waits in the %s queue, after %d attempts.\n", e.GetQueue(), e.GetAttempts())
	}
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "\nNODE\tVERDICT\tSCORE\tWHY")
	for _, n := range e.GetNodes() {
		verdict, why := "feasible", scores(n)
		if !n.GetFeasible() {
			verdict, why = "refused", reasons(n)
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\n", n.GetNode(), verdict, n.GetScore(), why)
	}
	return w.Flush()
}

func reasons(n *schedulerv1.NodeVerdict) string {
	var parts []string
	for _, f := range n.GetFilters() {
		if !f.GetPassed() {
			parts = append(parts, f.GetFilter()+": "+strings.Join(f.GetReasons(), ", "))
		}
	}
	return strings.Join(parts, "; ")
}

func scores(n *schedulerv1.NodeVerdict) string {
	var parts []string
	for _, s := range n.GetScores() {
		parts = append(parts, fmt.Sprintf("%s %d×%d", s.GetName(), s.GetScore(), s.GetWeight()))
	}
	return strings.Join(parts, ", ")
}
