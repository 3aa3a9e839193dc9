package authz

import (
	"context"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"howdah.dev/services/apiserver/internal/authn"
)

// Node decides for node agents. Which objects of a kind they may write is for the NodeRestriction admission plugin, which
// sees the objects.
type Node struct {
	// Pods tells what the pods of a node need. nil lets a node read the secrets and maps of every pod.
	Pods Pods
	// Yields leaves what it does not allow to the next authorizer of the chain, as Kubernetes does. Otherwise it refuses, for a chain
	// whose end allows everything.
	Yields bool
}

// Pods knows the pods of nodes.
type Pods interface {
	// Uses reports whether a pod that is bound to the node refers to the secret, config map or claim.
	Uses(node, resource, namespace, name string) bool
}

const leaseNamespace = "kube-node-lease"

// nodeReads are what a node may get, list and watch.
var nodeReads = map[[2]string]bool{
	{"", "nodes"}: true, {"", "pods"}: true, {"", "services"}: true, {"", "endpoints"}: true, {"", "namespaces"}: true,
	{"", "secrets"}: true, {"", "configmaps"}: true, {"", "serviceaccounts"}: true,
	{"", "persistentvolumeclaims"}: true, {"", "persistentvolumes"}: true,
	{"discovery.k8s.io", "endpointslices"}: true, {"networking.k8s.io", "networkpolicies"}: true,
	{"node.k8s.io", "runtimeclasses"}: true, {"storage.k8s.io", "csinodes"}: true, {"storage.k8s.io", "csidrivers"}: true,
	{"storage.k8s.io", "volumeattachments"}: true, {"coordination.k8s.io", "leases"}: true,
	{"resource.k8s.io", "resourceclaims"}: true, {"resource.k8s.io", "resourceslices"}: true,
	{"certificates.k8s.io", "certificatesigningrequests"}: true,
}

// nodeWrites are the verbs that a node may use on a resource and subresource.
var nodeWrites = map[[3]string]string{
	{"", "nodes", ""}:                                         "create update patch",
	{"", "nodes", "status"}:                                   "update patch",
	{"", "pods", ""}:                                          "create delete",
	{"", "pods", "status"}:                                    "update patch",
	{"", "pods", "eviction"}:                                  "create",
	{"", "serviceaccounts", "token"}:                          "create",
	{"", "events", ""}:                                        "create update patch",
	{"events.k8s.io", "events", ""}:                           "create update patch",
	{"storage.k8s.io", "csinodes", ""}:                        "create update patch delete",
	{"coordination.k8s.io", "leases", ""}:                     "create update patch delete",
	{"resource.k8s.io", "resourceslices", ""}:                 "create update patch delete deletecollection",
	{"", "persistentvolumeclaims", "status"}:                  "update patch",
	{"certificates.k8s.io", "certificatesigningrequests", ""}: "create",
	{"authentication.k8s.io", "tokenreviews", ""}:             "create",
	{"authorization.k8s.io", "subjectaccessreviews", ""}:      "create",
	{"authorization.k8s.io", "localsubjectaccessreviews", ""}: "create",
}

// Authorize implements Authorizer.
func (n Node) Authorize(_ context.Context, a *Attributes) (Decision, string, error) {
	node := a.User.Node()
	if node == "" || a.Path != "" {
		return NoOpinion, "", nil
	}
	decision, reason := n.decide(node, a)
	if decision == Deny && n.Yields {
		decision = NoOpinion
	}
	return decision, reason, nil
}

// RulesFor implements Lister: what a node may depends on its pods, and is not listed.
func (Node) RulesFor(_ context.Context, user *authn.User, _ string) ([]rbacv1.PolicyRule, bool, error) {
	return nil, user.Node() != "", nil
}

// related are the resources of which a node may only get those of its pods.
func related(a *Attributes) bool {
	return a.Group == "" && (a.Resource == "secrets" || a.Resource == "configmaps" || a.Resource == "persistentvolumeclaims")
}

func (n Node) decide(node string, a *Attributes) (Decision, string) {
	switch a.Verb {
	case "get", "list", "watch":
		if n.Pods != nil && related(a) {
			switch {
			case a.Subresource != "":
				return Deny, "cannot get subresource of " + a.Resource
			case a.Name == "" || a.Namespace == "":
				return Deny, "can only read namespaced object of this type"
			case !n.Pods.Uses(node, a.Resource, a.Namespace, a.Name):
				return Deny, fmt.Sprintf("no relationship found between node '%s' and this object", node)
			}
			return Allow, ""
		}
		if nodeReads[[2]string{a.Group, a.Resource}] && (a.Subresource == "" || a.Subresource == "status") {
			return Allow, ""
		}
		return Deny, fmt.Sprintf("node %q may not read %s", node, a.Resource)
	}
	if !slices.Contains(strings.Fields(nodeWrites[[3]string{a.Group, a.Resource, a.Subresource}]), a.Verb) {
		return Deny, fmt.Sprintf("node %q may not %s %s", node, a.Verb, a.Resource)
	}
	if a.Group == "" && a.Resource == "nodes" && a.Name != "" && a.Name != node {
		return Deny, fmt.Sprintf("node %q is not allowed to modify node %q", node, a.Name)
	}
	if a.Resource == "leases" && (a.Namespace != leaseNamespace || a.Name != "" && a.Name != node) {
		return Deny, fmt.Sprintf("node %q can only access node lease with the same name as the requesting node", node)
	}
	return Allow, ""
}
