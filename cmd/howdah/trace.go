package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"howdah.dev/cmd/howdah/internal/waterfall"
)

func traceCommand() *cobra.Command {
	var namespace, jaeger string
	var width int
	cmd := &cobra.Command{
		Use: "trace KIND/NAME", Short: "Show the trace of an object's last change as a waterfall", Args: cobra.ExactArgs(1),
		Example: "  howdah trace deploy/nginx-deployment\n  howdah trace pod/web-0 -n shop",
		RunE: func(cmd *cobra.Command, args []string) error {
			kind, name, ok := strings.Cut(args[0], "/")
			if !ok || name == "" {
				return errors.New("name the object as KIND/NAME, as in deploy/nginx-deployment")
			}
			kind, err := kindNamed(kind)
			if err != nil {
				return err
			}
			trace, err := findTrace(cmd.Context(), jaeger, kind, namespace, name)
			if err != nil {
				return err
			}
			return waterfall.Print(cmd.OutOrStdout(), trace, width)
		},
	}
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "default", "namespace of the object")
	cmd.Flags().StringVar(&jaeger, "jaeger", "http://127.0.0.1:16686", "URL of Jaeger's query API")
	cmd.Flags().IntVar(&width, "width", 60, "columns of the bars")
	return cmd
}

// kinds are the names under which people ask for the kinds that spans bear.
var kinds = map[string]string{
	"deploy": "Deployment", "deployment": "Deployment", "deployments": "Deployment",
	"rs": "ReplicaSet", "replicaset": "ReplicaSet", "replicasets": "ReplicaSet",
	"po": "Pod", "pod": "Pod", "pods": "Pod",
	"svc": "Service", "service": "Service", "services": "Service",
	"ns": "Namespace", "namespace": "Namespace", "no": "Node", "node": "Node",
}

func kindNamed(name string) (string, error) {
	if kind, ok := kinds[strings.ToLower(name)]; ok {
		return kind, nil
	}
	return "", fmt.Errorf("trace knows deployments, replicasets, pods, services, namespaces and nodes, not %q", name)
}

// findTrace asks Jaeger for the traces in which a service acted on the
// object and returns the one with the most spans among the newest: an apply
// is longer than the status updates that follow it.
func findTrace(ctx context.Context, jaeger, kind, namespace, name string) (waterfall.Trace, error) {
	attributes := map[string]string{"k8s.kind": kind, "k8s.name": name}
	if kind != "Namespace" && kind != "Node" { // those are in none
		attributes["k8s.namespace"] = namespace
	}
	tags, err := json.Marshal(attributes)
	if err != nil {
		return waterfall.Trace{}, err
	}
	var best waterfall.Trace
	for _, service := range []string{"apiserver", "controllers", "scheduler", "nodeagent"} {
		query := url.Values{"service": {service}, "tags": {string(tags)}, "limit": {"20"}, "lookback": {"1h"}}
		traces, err := queryJaeger(ctx, jaeger+"/api/traces?"+query.Encode())
		if err != nil {
			return waterfall.Trace{}, err
		}
		for _, t := range traces {
			if len(t.Spans) > len(best.Spans) {
				best = t
			}
		}
	}
	if len(best.Spans) == 0 {
		return best, fmt.Errorf("no trace of %s %s/%s: traces are kept for the last changes only, and sampled as --trace-sample-ratio says", kind, namespace, name)
	}
	return best, nil
}

func queryJaeger(ctx context.Context, address string) ([]waterfall.Trace, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask Jaeger: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("ask Jaeger: %s", response.Status)
	}
	return waterfall.Decode(response.Body)
}
