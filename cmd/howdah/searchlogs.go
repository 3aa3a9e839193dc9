package main

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"howdah.dev/cmd/howdah/internal/loglines"
)

// searchLogsCommand finds what containers have written, where kubectl logs has nothing any more.
func searchLogsCommand() *cobra.Command {
	var kubeconfig, namespace, output string
	var all bool
	var limit int
	cmd := &cobra.Command{
		Use: "search-logs [WORD…]", Short: "Find what containers have written, also those of pods that are gone",
		Example: "  howdah search-logs timeout --since 30m\n  howdah search-logs '\"exit code\"' -- -debug\n  howdah search-logs -n shop -l app=web error -o wide\n" +
			"  howdah search-logs --pod web-5d9c -o raw --until 2026-01-02T15:00:00Z",
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 1 {
				return errors.New("--tail: the number of lines is not positive")
			}
			print, err := loglines.Printer(output)
			if err != nil {
				return err
			}
			if all && namespace != "" {
				return errors.New("--all-namespaces and --namespace exclude each other")
			}
			client, ns, err := restClient(kubeconfig, namespace)
			if err != nil {
				return err
			}
			query := url.Values{"query": {strings.Join(args, " ")}}
			for name, flag := range map[string]string{"pod": "pod", "container": "container", "node": "node", "labelSelector": "selector", "since": "since", "until": "until"} {
				if value, err := cmd.Flags().GetString(flag); err == nil && value != "" {
					query.Set(name, value)
				}
			}
			if !all {
				query.Set("namespace", ns)
			}
			lines, err := loglines.Newest(cmd.Context(), client, query, limit)
			if err != nil {
				return err
			}
			if len(lines) == 0 && output != "json" {
				fmt.Fprintln(cmd.ErrOrStderr(), "No lines found.")
				return nil
			}
			return print(cmd.OutOrStdout(), lines)
		},
	}
	kubeconfigFlag(cmd, &kubeconfig)
	f := cmd.Flags()
	f.StringVarP(&namespace, "namespace", "n", "", "namespace; that of the kubeconfig where empty")
	f.BoolVarP(&all, "all-namespaces", "A", false, "all namespaces")
	f.String("pod", "", "name of the pod")
	f.StringP("container", "c", "", "name of the container")
	f.String("node", "", "name of the node")
	f.StringP("selector", "l", "", "label selector; the labels are those that the pod had when its first lines came")
	f.String("since", "", "only lines from this time on (RFC 3339), or from so long ago, as 30m; an hour ago where empty")
	f.String("until", "", "only lines before this time, or before so long ago")
	f.IntVar(&limit, "tail", 100, "most lines to show, the newest ones")
	f.StringVarP(&output, "output", "o", "", "wide, raw (the lines alone) or json")
	return cmd
}
