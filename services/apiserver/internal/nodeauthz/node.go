// Package nodeauthz decides for node agents, as Kubernetes' Node authorizer does: what depends on a pod is theirs where a pod that
// is bound to them needs it, and the rest is the rules of the role system:node.
package nodeauthz

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"howdah.dev/kit/object"
	"howdah.dev/services/apiserver/internal/authn"
	"howdah.dev/services/apiserver/internal/authz"
	"howdah.dev/services/apiserver/internal/rbac"
)

// Relations knows what the pods of nodes need.
type Relations interface {
	// Related reports whether the node has to do with the object: a pod that is bound to it, or what such a pod refers to.
	Related(ctx context.Context, node, group, resource, namespace, name string) bool
}

// Authorizer allows or has no opinion. Which objects of a kind a node may write is for the NodeRestriction admission plugin, which
// sees the objects.
type Authorizer struct {
	Relations Relations
	// Rules are what every node may do with the resources that are not subdivided by node.
	Rules []rbacv1.PolicyRule
}

// subdivided are the resources of which a node may do only what concerns itself.
var subdivided = map[[2]string]func(n Authorizer, ctx context.Context, node string, a *authz.Attributes) (bool, string){
	{"", "secrets"}:                         Authorizer.readNamespaced,
	{"", "configmaps"}:                      Authorizer.readNamespaced,
	{"", "persistentvolumeclaims"}:          Authorizer.claim,
	{"", "persistentvolumes"}:               Authorizer.volume,
	{"resource.k8s.io", "resourceclaims"}:   Authorizer.read,
	{"storage.k8s.io", "volumeattachments"}: Authorizer.read,
	{"", "serviceaccounts"}:                 Authorizer.account,
	{"coordination.k8s.io", "leases"}:       Authorizer.lease,
	{"storage.k8s.io", "csinodes"}:          Authorizer.csiNode,
	{"resource.k8s.io", "resourceslices"}:   Authorizer.slice,
	{"", "nodes"}:                           Authorizer.node,
	{"", "pods"}:                            Authorizer.pod,

	{"certificates.k8s.io", "podcertificaterequests"}: Authorizer.certificate,
}

// Authorize implements authz.Authorizer.
func (n Authorizer) Authorize(ctx context.Context, a *authz.Attributes) (authz.Decision, string, error) {
	if !a.User.In(authn.NodesGroup) || !strings.HasPrefix(a.User.Name, authn.NodeUserPrefix) {
		return authz.NoOpinion, "", nil
	}
	node := a.User.Node()
	if node == "" {
		return authz.NoOpinion, fmt.Sprintf("unknown node for user %q", a.User.Name), nil
	}
	if !a.ForPath() {
		if decide := subdivided[[2]string{a.Group, a.Resource}]; decide != nil {
			allowed, reason := decide(n, ctx, node, a)
			if allowed {
				return authz.Allow, "", nil
			}
			return authz.NoOpinion, reason, nil
		}
	}
	if rbac.Allowed(n.Rules, a) {
		return authz.Allow, "", nil
	}
	return authz.NoOpinion, "", nil
}

// RulesFor implements authz.Lister: what a node may depends on its pods, and is not listed.
func (Authorizer) RulesFor(_ context.Context, user *authn.User, _ string) ([]rbacv1.PolicyRule, bool, error) {
	if !user.In(authn.NodesGroup) {
		return nil, false, nil
	}
	return nil, true, errors.New("node authorizer does not support user rule resolution")
}

func reading(verb string) bool { return verb == "get" || verb == "list" || verb == "watch" }

func (n Authorizer) related(ctx context.Context, node string, a *authz.Attributes) (bool, string) {
	if a.Name == "" {
		return false, "No Object name found"
	}
	if !n.Relations.Related(ctx, node, a.Group, a.Resource, a.Namespace, a.Name) {
		return false, fmt.Sprintf("no relationship found between node '%s' and this object", node)
	}
	return true, ""
}

func (n Authorizer) readNamespaced(ctx context.Context, node string, a *authz.Attributes) (bool, string) {
	switch {
	case !reading(a.Verb):
		return false, "can only read resources of this type"
	case a.Subresource != "":
		return false, "cannot read subresource"
	case a.Namespace == "":
		return false, "can only read namespaced object of this type"
	}
	return n.related(ctx, node, a)
}

func (n Authorizer) read(ctx context.Context, node string, a *authz.Attributes) (bool, string) {
	switch {
	case a.Verb != "get":
		return false, "can only get individual resources of this type"
	case a.Subresource != "":
		return false, "cannot get subresource"
	}
	return n.related(ctx, node, a)
}

func (n Authorizer) claim(ctx context.Context, node string, a *authz.Attributes) (bool, string) {
	if a.Subresource != "status" {
		return n.read(ctx, node, a)
	}
	if a.Verb != "update" && a.Verb != "patch" {
		return false, "can only get/update/patch this type"
	}
	return n.related(ctx, node, a)
}

// volume allows, beyond what Kubernetes allows, to follow the volumes that are folders of the node's own, and to let them go: what may change
// of them is for admission.
func (n Authorizer) volume(ctx context.Context, node string, a *authz.Attributes) (bool, string) {
	switch {
	case a.Subresource == "" && (a.Verb == "list" || a.Verb == "watch") && labelled(a, object.LocalPathNodeLabel, node):
		return true, ""
	case a.Subresource == "" && a.Verb == "update":
		return n.related(ctx, node, a)
	}
	return n.read(ctx, node, a)
}

// labelled reports whether the request's label selector asks for that value of a label.
func labelled(a *authz.Attributes, label, value string) bool {
	selector, err := labels.Parse(a.LabelSelector)
	if err != nil {
		return false
	}
	required, ok := selector.RequiresExactMatch(label)
	return ok && required == value
}

// account allows tokens for the accounts of the node's pods.
func (n Authorizer) account(ctx context.Context, node string, a *authz.Attributes) (bool, string) {
	switch {
	case a.Verb == "get" && a.Subresource == "":
		return n.readNamespaced(ctx, node, a)
	case a.Verb != "create" || a.Name == "":
		return false, "can only create tokens for individual service accounts"
	case a.Subresource != "token":
		return false, "can only create token subresource of serviceaccount"
	}
	return n.related(ctx, node, a)
}

func (n Authorizer) lease(_ context.Context, node string, a *authz.Attributes) (bool, string) {
	switch {
	case !slices.Contains([]string{"get", "create", "update", "patch", "delete"}, a.Verb):
		return false, "can only get, create, update, patch, or delete a node lease"
	case a.Namespace != corev1.NamespaceNodeLease:
		return false, fmt.Sprintf("can only access leases in the %q system namespace", corev1.NamespaceNodeLease)
	case a.Verb != "create" && a.Name != node: // the name of what is created is for admission
		return false, "can only access node lease with the same name as the requesting node"
	}
	return true, ""
}

func (n Authorizer) csiNode(_ context.Context, node string, a *authz.Attributes) (bool, string) {
	switch {
	case !slices.Contains([]string{"get", "create", "update", "patch", "delete"}, a.Verb):
		return false, "can only get, create, update, patch, or delete a CSINode"
	case a.Subresource != "":
		return false, "cannot authorize CSINode subresources"
	case a.Verb != "create" && a.Name != node:
		return false, "can only access CSINode with the same name as the requesting node"
	}
	return true, ""
}

func (n Authorizer) slice(ctx context.Context, node string, a *authz.Attributes) (bool, string) {
	switch {
	case a.Subresource != "":
		return false, "cannot authorize ResourceSlice subresources"
	case a.Verb == "create": // admission sees whose it is
		return true, ""
	case slices.Contains([]string{"get", "update", "patch", "delete"}, a.Verb):
		return n.related(ctx, node, a)
	case slices.Contains([]string{"watch", "list", "deletecollection"}, a.Verb):
		if selects(a, "spec.nodeName", node) {
			return true, ""
		}
		return false, "can only list/watch/deletecollection resourceslices with nodeName field selector"
	}
	return false, "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, delete, deletecollection"
}

// certificate allows what a node asks of signers for its pods.
func (n Authorizer) certificate(ctx context.Context, node string, a *authz.Attributes) (bool, string) {
	switch {
	case a.Subresource != "": // whichever: Kubernetes tells all of them the same
		return false, "nodes may not access the status subresource of PodCertificateRequests"
	case a.Verb == "create": // where it is served; admission sees for which pod
		return rbac.Allowed(n.Rules, a), ""
	case a.Verb == "get":
		return n.related(ctx, node, a)
	case a.Verb == "list" || a.Verb == "watch":
		if selects(a, "spec.nodeName", node) {
			return true, ""
		}
		return false, "can only list/watch podcertificaterequests with nodeName field selector"
	}
	return false, fmt.Sprintf("nodes may not %s podcertificaterequests", a.Verb)
}

func (n Authorizer) node(_ context.Context, node string, a *authz.Attributes) (bool, string) {
	switch a.Subresource {
	case "":
		switch {
		case a.Verb == "create" || a.Verb == "update" || a.Verb == "patch": // admission sees which node it is
			return true, ""
		case !reading(a.Verb):
			return false, ""
		case a.Name == node:
			return true, ""
		case a.Name == "":
			return false, fmt.Sprintf("node '%s' cannot read all nodes, only its own Node object", node)
		}
		return false, fmt.Sprintf("node '%s' cannot read '%s', only its own Node object", node, a.Name)
	case "status":
		return a.Verb == "update" || a.Verb == "patch", ""
	}
	return false, ""
}

func (n Authorizer) pod(ctx context.Context, node string, a *authz.Attributes) (bool, string) {
	switch a.Subresource {
	case "":
		switch a.Verb {
		case "get":
			return n.related(ctx, node, a)
		case "list", "watch":
			if selects(a, "spec.nodeName", node) {
				return true, ""
			}
			// Which Kubernetes leaves to its network's own agents: who enforces policies has to know the addresses of all pods.
			if selects(a, "spec.hostNetwork", "false") {
				return true, ""
			}
			if a.Name != "" { // selected by metadata.name
				return n.related(ctx, node, a)
			}
			return false, "can only list/watch pods with spec.nodeName field selector"
		case "create", "delete": // admission sees where the pod is bound
			return true, ""
		}
	case "status":
		return a.Verb == "update" || a.Verb == "patch", ""
	case "eviction":
		return a.Verb == "create", ""
	}
	return false, ""
}

// selects reports whether the request's field selector asks for that value of a field.
func selects(a *authz.Attributes, field, value string) bool {
	selector, err := fields.ParseSelector(a.FieldSelector)
	if err != nil {
		return false
	}
	return slices.ContainsFunc(selector.Requirements(), func(r fields.Requirement) bool {
		return r.Field == field && r.Value == value && (r.Operator == selection.Equals || r.Operator == selection.DoubleEquals)
	})
}
