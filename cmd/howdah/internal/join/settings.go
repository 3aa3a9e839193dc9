package join

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"

	"howdah.dev/kit/config"
)

// own are flags that a node has of itself, and not of the cluster.
var own = []string{"node-name", "tls-dir", "node-ip", "cri", "rotate-certificates"}

// settings is the file of a node: what the cluster says, by flag, and what the node says of itself. known says whether the agent has a flag.
func settings(cluster, node map[string]string, known func(flag string) bool) ([]byte, error) {
	var problems []error
	values := map[string]string{}
	for _, flag := range slices.Sorted(maps.Keys(cluster)) {
		if !known(flag) || slices.Contains(own, flag) {
			problems = append(problems, fmt.Errorf("the ConfigMap kube-system/howdah-config: %q is no setting that a cluster has for its nodes", flag))
			continue
		}
		values[config.Variable(flag)] = cluster[flag]
	}
	if cluster["apiserver"] == "" {
		problems = append(problems, errors.New("the ConfigMap kube-system/howdah-config does not say where nodes reach the API servers (apiserver): howdah addons --node-apiserver"))
	}
	for flag, value := range node {
		values[config.Variable(flag)] = value
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	lines, err := config.FormatFile(values)
	if err != nil {
		return nil, fmt.Errorf("the ConfigMap kube-system/howdah-config: %w", err)
	}
	return append([]byte("# What howdah nodeagent --tls-dir of this folder does not find among its flags, nor in its environment. Written by howdah join.\n"), lines...), nil
}

// reachable checks that API servers of the cluster answer at a gRPC target of the form dns:///host:port.
func reachable(ctx context.Context, target string, ca []byte) error {
	address := target[strings.LastIndex(target, "/")+1:]
	if _, _, err := net.SplitHostPort(address); err != nil {
		return fmt.Errorf("the address of the API servers, %q: %w", target, err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	dialer := tls.Dialer{Config: &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: roots, ServerName: "apiserver", NextProtos: []string{"h2"}}}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("nodes reach the API servers at %s, and this machine does not: %w", address, err)
	}
	return conn.Close()
}
