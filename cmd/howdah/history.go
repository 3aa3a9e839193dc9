package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"time"

	"github.com/pmezard/go-difflib/difflib"
	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"howdah.dev/cmd/howdah/internal/past"
)

// errDifferent makes howdah diff end with code 1, and say nothing.
var errDifferent = errors.New("the versions differ")

// comparisonFailed makes howdah diff end with code 2, as kubectl diff ends with more than 1 where it cannot compare.
type comparisonFailed struct{ error }

// access is what the commands that look into the past are told of the cluster.
type access struct{ kubeconfig, namespace string }

func (a *access) flags(cmd *cobra.Command) {
	kubeconfigFlag(cmd, &a.kubeconfig)
	cmd.Flags().StringVarP(&a.namespace, "namespace", "n", "", "namespace; that of the kubeconfig where empty")
}

// target connects, and finds out what is meant.
func (a *access) target(args []string) (*rest.RESTClient, past.Target, error) {
	client, namespace, err := restClient(a.kubeconfig, a.namespace)
	if err != nil {
		return nil, past.Target{}, err
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = a.kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, past.Target{}, err
	}
	t, err := past.Parse(config, namespace, args)
	return client, t, err
}

func historyCommand() *cobra.Command {
	var a access
	var since, output string
	var before int64
	var limit int
	var diffs bool
	cmd := &cobra.Command{
		Use: "history KIND/NAME", Short: "Tell who changed an object, when and how", Args: cobra.RangeArgs(1, 2),
		Example: "  howdah history deploy/web\n  howdah history deploy/web -n shop --since 1h -p\n  howdah history configmap/settings -o yaml",
		RunE: func(cmd *cobra.Command, args []string) error {
			client, t, err := a.target(args)
			if err != nil {
				return err
			}
			if t.Name == "" {
				return errors.New("name the object as KIND/NAME, as in deploy/web")
			}
			query := url.Values{"limit": {strconv.Itoa(limit)}}
			if since != "" {
				query.Set("since", since)
			}
			if before > 0 {
				query.Set("before", strconv.FormatInt(before, 10))
			}
			if output == "yaml" || output == "json" {
				query.Set("objects", "true")
			}
			h, err := past.Versions(cmd.Context(), client, t, query)
			if err != nil {
				return err
			}
			return past.PrintVersions(cmd.OutOrStdout(), h, output, diffs, time.Now())
		},
	}
	a.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&since, "since", "", "only versions from this time on (RFC 3339), or from so long ago, as 1h")
	f.Int64Var(&before, "before", 0, "only versions before this revision")
	f.IntVar(&limit, "limit", 50, "most versions to show, at most 500")
	f.BoolVarP(&diffs, "patch", "p", false, "show what each version changed")
	f.StringVarP(&output, "output", "o", "", "wide, yaml or json")
	return cmd
}

func diffCommand() *cobra.Command {
	var a access
	var from, to string
	cmd := &cobra.Command{
		Use: "diff KIND/NAME --from REVISION|TIME [--to REVISION|TIME]", Args: cobra.RangeArgs(1, 2),
		Short:   "Compare two versions of an object; the exit code is 1 where they differ",
		Example: "  howdah diff deploy/web --from 10m\n  howdah diff deploy/web --from 1201 --to 1410\n  howdah diff deploy/web --from 2026-01-02T15:00:00Z",
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			defer func() {
				if err != nil && !errors.Is(err, errDifferent) {
					err = comparisonFailed{err}
				}
			}()
			if from == "" {
				return errors.New("--from is needed: a revision, a time, or how long ago")
			}
			client, t, err := a.target(args)
			if err != nil {
				return err
			}
			if t.Name == "" {
				return errors.New("name the object as KIND/NAME, as in deploy/web")
			}
			var texts, labels [2]string
			for i, moment := range []string{from, to} {
				query := url.Values{"limit": {"1"}} // the newest
				if moment != "" {
					if query, err = past.Moment(moment, time.Now()); err != nil {
						return err
					}
				}
				if texts[i], labels[i], err = past.State(cmd.Context(), client, t, query); err != nil {
					return fmt.Errorf("at %s: %w", moment, err)
				}
			}
			return printDiff(cmd.OutOrStdout(), texts, labels)
		},
	}
	a.flags(cmd)
	cmd.Flags().StringVar(&from, "from", "", "the version that was in force then: a revision, a time (RFC 3339), or how long ago, as 10m")
	cmd.Flags().StringVar(&to, "to", "", "the version to compare with; the newest where empty")
	return cmd
}

func printDiff(out io.Writer, texts, labels [2]string) error {
	if texts[0] == texts[1] {
		return nil
	}
	err := difflib.WriteUnifiedDiff(out, difflib.UnifiedDiff{
		A: difflib.SplitLines(texts[0]), B: difflib.SplitLines(texts[1]), FromFile: labels[0], ToFile: labels[1], Context: 3,
	})
	if err != nil {
		return err
	}
	return errDifferent
}

func getCommand() *cobra.Command {
	var a access
	var at, selector, output string
	var all bool
	cmd := &cobra.Command{
		Use: "get KIND [NAME] --at REVISION|TIME", Short: "Show objects as they were at a moment", Args: cobra.RangeArgs(1, 2),
		Example: "  howdah get pods --at 10m\n  howdah get deploy web -n shop --at 2026-01-02T15:00:00Z -o yaml",
		RunE: func(cmd *cobra.Command, args []string) error {
			query, err := past.Moment(at, time.Now())
			if err != nil {
				return fmt.Errorf("--at: %w", err)
			}
			client, t, err := a.target(args)
			if err != nil {
				return err
			}
			if t.Name != "" {
				query.Set("fieldSelector", "metadata.name="+t.Name)
				t.Name = ""
			}
			if all {
				t.Namespace = ""
			}
			if selector != "" {
				query.Set("labelSelector", selector)
			}
			accept := "application/json;as=Table;v=v1;g=meta.k8s.io"
			if output == "yaml" || output == "json" {
				accept = "application/json"
			}
			body, err := past.Get(cmd.Context(), client, t.Path(), accept, query)
			if err != nil {
				return err
			}
			switch output {
			case "", "wide":
				return past.PrintTable(cmd.OutOrStdout(), body, output == "wide")
			case "yaml", "json":
				return past.Document(cmd.OutOrStdout(), json.RawMessage(body), output)
			}
			return fmt.Errorf("unknown output format %q: it is wide, yaml or json", output)
		},
	}
	a.flags(cmd)
	f := cmd.Flags()
	f.StringVar(&at, "at", "", "the moment: a revision, a time (RFC 3339), or how long ago, as 10m")
	f.StringVarP(&selector, "selector", "l", "", "label selector")
	f.BoolVarP(&all, "all-namespaces", "A", false, "all namespaces")
	f.StringVarP(&output, "output", "o", "", "wide, yaml or json")
	return cmd
}
