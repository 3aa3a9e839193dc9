package pki

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Options say for whom certificates are made. The zero value makes those of
// the control plane alone.
type Options struct {
	// Nodes are the names of the nodes; each gets a folder of its name.
	Nodes []string
	// Hosts are names and addresses beyond the usual ones, by role or node:
	// {"gateway": {"203.0.113.7"}, "apiserver": {"apiserver2"}}.
	Hosts map[string][]string
	// AdminServer is the gateway's URL in the administrator's kubeconfig;
	// https://127.0.0.1:6443 where empty.
	AdminServer string
	// MeshServer is the gateway's URL in the kubeconfigs of services that
	// come over REST (dns); https://gateway:6443 where empty.
	MeshServer string
	// Owner is the user and group id that the files belong to; nil leaves
	// them to the process's own.
	Owner *Owner
	// Owners are users whose folder belongs to themselves: a server that reads
	// its own key only where it owns it, as PostgreSQL does.
	Owners map[string]Owner
	// Now is the clock; time.Now where nil.
	Now func() time.Time
}

// Owner is a user and a group by number.
type Owner struct{ UID, GID int }

func (o Options) withDefaults() (Options, error) {
	if o.AdminServer == "" {
		o.AdminServer = "https://127.0.0.1:6443"
	}
	if o.MeshServer == "" {
		o.MeshServer = "https://gateway:6443"
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	var problems []error
	taken := map[string]bool{"ca": true}
	for name := range controlPlane {
		taken[name] = true
	}
	for _, node := range o.Nodes {
		if msgs := validation.IsDNS1123Subdomain(node); len(msgs) > 0 {
			problems = append(problems, fmt.Errorf("node name %q: %s", node, msgs[0]))
		} else if taken[node] {
			problems = append(problems, fmt.Errorf("node name %q is taken", node))
		}
		taken[node] = true
	}
	for name := range o.Owners {
		if !taken[name] {
			problems = append(problems, fmt.Errorf("owner of %q, which is neither a role nor a node", name))
		}
	}
	for name := range o.Hosts {
		if !taken[name] {
			problems = append(problems, fmt.Errorf("hosts for %q, which is neither a role nor a node", name))
		}
	}
	return o, errors.Join(problems...)
}

// gatewayHosts are the names by which clients inside and outside the cluster
// reach the API; 10.96.0.1 is the kubernetes Service's address.
var gatewayHosts = []string{
	"gateway", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
	"kubernetes.default.svc.cluster.local", "10.96.0.1",
}

// controlPlane are the roles that every cluster has.
var controlPlane = map[string]Subject{
	"gateway":     {CommonName: "howdah:gateway", Organizations: []string{"howdah:gateways"}, Hosts: gatewayHosts, Client: true},
	"apiserver":   {CommonName: "howdah:apiserver", Organizations: []string{"howdah:apiservers"}, Hosts: []string{"apiserver"}, Client: true},
	"scheduler":   {CommonName: "system:kube-scheduler", Hosts: []string{"scheduler"}, Client: true},
	"controllers": {CommonName: "system:kube-controller-manager", Hosts: []string{"controllers"}, Client: true},
	"postgres":    {CommonName: "howdah:postgres", Hosts: []string{"postgres"}},
	"dns":         {CommonName: "system:coredns", Organizations: []string{"howdah:dns"}, Client: true},
	"ingress":     {CommonName: "howdah:ingress", Organizations: []string{"howdah:ingresses"}, Hosts: []string{"ingress"}, Client: true},
	"federation":  {CommonName: "howdah:federation", Organizations: []string{"howdah:federations"}, Hosts: []string{"federation"}, Client: true},
	"logs":        {CommonName: "howdah:logs", Organizations: []string{"howdah:loggers"}, Hosts: []string{"logs"}, Client: true},
	"metrics":     {CommonName: "howdah:metrics", Organizations: []string{"howdah:meters"}, Hosts: []string{"metrics"}, Client: true},
	"prometheus":  {CommonName: "howdah:prometheus", Organizations: []string{"howdah:monitors"}, Client: true},
	"admin":       {CommonName: "kubernetes-admin", Organizations: []string{"system:masters"}, Client: true},
}

// subjects returns every certificate to make, by folder.
func (o Options) subjects() map[string]Subject {
	all := map[string]Subject{}
	for name, s := range controlPlane {
		if len(s.Hosts) > 0 {
			s.Hosts = slices.Concat(s.Hosts, []string{"localhost", "127.0.0.1", "::1"})
		}
		s.Hosts = slices.Concat(s.Hosts, o.Hosts[name])
		if name == "postgres" && len(o.Hosts[name]) > 0 {
			s.Client = true // several servers follow each other
		}
		all[name] = s
	}
	for _, name := range o.Nodes {
		all[name] = Subject{
			CommonName:    "system:node:" + name,
			Organizations: []string{"system:nodes"},
			Hosts:         slices.Concat([]string{name, "localhost", "127.0.0.1", "::1"}, o.Hosts[name]),
			Client:        true,
		}
	}
	return all
}
