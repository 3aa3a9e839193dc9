package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"howdah.dev/kit/pki"
)

func pkiCommand() *cobra.Command {
	var (
		out, adminServer, meshServer string
		kubeconfig                   string
		nodes, gatewayNames, owners  []string
		nodeHosts, postgresNames     []string
	)
	cmd := &cobra.Command{
		Use: "pki", Short: "Make the cluster's certificates, keys and kubeconfigs; keeps those that are valid", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			owned, err := parseOwners(owners)
			if err != nil {
				return err
			}
			hosts, err := parseHosts(nodeHosts)
			if err != nil {
				return err
			}
			hosts["gateway"] = append(hosts["gateway"], gatewayNames...)
			hosts["postgres"] = append(hosts["postgres"], postgresNames...)
			options := pki.Options{
				Nodes: nodes, Hosts: hosts,
				AdminServer: adminServer, MeshServer: meshServer, Owner: ownerOfParent(out), Owners: owned,
			}
			if err := pki.Init(out, options); err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), "the certificates are in", out)
			if kubeconfig == "" {
				return nil
			}
			return copyKey(filepath.Join(out, "admin", "kubeconfig"), kubeconfig, options.Owner)
		},
	}
	f := cmd.Flags()
	f.StringVar(&out, "out", "pki", "folder to write to, a folder a role")
	f.StringSliceVar(&nodes, "nodes", nil, "names of the nodes")
	f.StringSliceVar(&nodeHosts, "node-hosts", nil, "NODE=HOST, an address or a further name by which a node's HTTPS endpoint is asked; again for more")
	f.StringSliceVar(&gatewayNames, "gateway-names", nil, "further names and addresses of the gateway")
	f.StringSliceVar(&postgresNames, "postgres-names", nil, "names and addresses of several database servers; their certificate is then a client's, too, with which they follow each other")
	f.StringSliceVar(&owners, "owner", nil, "ROLE=UID:GID of a role that must own its key itself")
	f.StringVar(&adminServer, "admin-server", "", "gateway's URL in the administrator's kubeconfig")
	f.StringVar(&kubeconfig, "kubeconfig", "", "where to put the administrator's kubeconfig as well")
	f.StringVar(&meshServer, "mesh-server", "", "gateway's URL in the kubeconfigs of services in the mesh")
	return cmd
}

// copyKey writes a copy that only its owner may read, in one step.
func copyKey(from, to string, owner *pki.Owner) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	temporary := to + ".new"
	if err := os.WriteFile(temporary, data, 0o600); err != nil {
		return err
	}
	if owner != nil {
		if err := os.Chown(temporary, owner.UID, owner.GID); err != nil {
			return err
		}
	}
	return os.Rename(temporary, to)
}

// parseOwners reads ROLE=UID:GID.
func parseOwners(texts []string) (map[string]pki.Owner, error) {
	owners := map[string]pki.Owner{}
	for _, text := range texts {
		role, ids, _ := strings.Cut(text, "=")
		user, group, _ := strings.Cut(ids, ":")
		uid, err1 := strconv.Atoi(user)
		gid, err2 := strconv.Atoi(group)
		if role == "" || err1 != nil || err2 != nil {
			return nil, fmt.Errorf("--owner: %q is not ROLE=UID:GID", text)
		}
		owners[role] = pki.Owner{UID: uid, GID: gid}
	}
	return owners, nil
}

// parseHosts reads NODE=HOST, by node.
func parseHosts(texts []string) (map[string][]string, error) {
	hosts := map[string][]string{}
	for _, text := range texts {
		node, host, _ := strings.Cut(text, "=")
		if node == "" || host == "" {
			return nil, fmt.Errorf("--node-hosts: %q is not NODE=HOST", text)
		}
		hosts[node] = append(hosts[node], host)
	}
	return hosts, nil
}

// ownerOfParent returns who owns the folder above dir, so that keys made in
// a container belong to whoever runs it and not to root.
func ownerOfParent(dir string) *pki.Owner {
	info, err := os.Stat(filepath.Dir(filepath.Clean(dir)))
	if err != nil {
		return nil
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil
	}
	return &pki.Owner{UID: int(stat.Uid), GID: int(stat.Gid)}
}
