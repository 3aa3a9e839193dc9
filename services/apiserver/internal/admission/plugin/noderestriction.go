package plugin

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"howdah.dev/services/apiserver/internal/admission"
	"howdah.dev/services/apiserver/internal/authn"
	"howdah.dev/services/apiserver/internal/authz"
)

// NodeRestriction keeps node agents to their own node, what belongs to it and the pods that are bound to it.
type NodeRestriction struct {
	Objects admission.Objects
	// Authorizer is asked whether a node may have tokens for audiences that no pod of it names; nil: none may.
	Authorizer authz.Authorizer
}

// Name implements admission.Plugin.
func (*NodeRestriction) Name() string { return "NodeRestriction" }

// Handles implements admission.Plugin.
func (*NodeRestriction) Handles(a *admission.Attributes) bool {
	return a.User != nil && a.User.In(authn.NodesGroup) && a.Operation != admission.Connect
}

// Admit implements admission.Mutator. It changes nothing; Kubernetes asks it before a write is prepared and validated, so it sees what
// was sent, and its refusals come first.
func (p *NodeRestriction) Admit(ctx context.Context, a *admission.Attributes) error {
	node := a.User.Node()
	if node == "" {
		return a.Forbidden(fmt.Errorf("could not determine node from user %q", a.User.Name))
	}
	switch {
	case a.Is("", "nodes"):
		return restrictNode(a, node)
	case a.Is("", "pods"):
		return p.pod(ctx, a, node)
	case a.Is("", "persistentvolumeclaims"):
		return restrictClaim(a, node)
	case a.Is("", "persistentvolumes"):
		return restrictVolume(a, node)
	case a.Is("", "serviceaccounts"):
		return p.token(ctx, a, node)
	case a.Is("coordination.k8s.io", "leases"):
		if a.Namespace != corev1.NamespaceNodeLease {
			return a.Forbidden(fmt.Errorf("can only access leases in the %q system namespace", corev1.NamespaceNodeLease))
		}
		if objectName(a) != node {
			return a.Forbidden(fmt.Errorf("can only access node lease with the same name as the requesting node"))
		}
	case a.Is("storage.k8s.io", "csinodes"):
		if objectName(a) != node {
			return a.Forbidden(fmt.Errorf("can only access CSINode with the same name as the requesting node"))
		}
	case a.Is("resource.k8s.io", "resourceslices"):
		return restrictSlice(a, node)
	case a.Is("certificates.k8s.io", "podcertificaterequests"):
		return p.certificate(ctx, a, node)
	case a.Is("certificates.k8s.io", "certificatesigningrequests"):
		return restrictSigning(a, node)
	}
	return nil
}

func objectName(a *admission.Attributes) string {
	if a.Name == "" && a.Object != nil {
		return a.Object.GetName()
	}
	return a.Name
}

func restrictNode(a *admission.Attributes, node string) error {
	if name := objectName(a); name != node {
		return a.Forbidden(fmt.Errorf("node %q is not allowed to modify node %q", node, name))
	}
	changed, _ := a.Object.(*corev1.Node)
	old, _ := a.Old.(*corev1.Node)
	switch {
	case changed == nil:
		return nil
	case a.Operation == admission.Create:
		return nodeMade(a, node, changed)
	case a.Operation == admission.Update && old != nil:
		return nodeChanged(a, node, changed, old)
	}
	return nil
}

func nodeMade(a *admission.Attributes, node string, made *corev1.Node) error {
	if made.Spec.ConfigSource != nil {
		return a.Forbidden(fmt.Errorf("node %q is not allowed to create pods with a non-nil configSource", node))
	}
	if labels := forbiddenLabels(nil, made.Labels); labels != "" {
		return a.Forbidden(fmt.Errorf("node %q is not allowed to set the following labels: %s", node, labels))
	}
	return nil
}

func nodeChanged(a *admission.Attributes, node string, changed, old *corev1.Node) error {
	if source := changed.Spec.ConfigSource; source != nil && !equality.Semantic.DeepEqual(source, old.Spec.ConfigSource) {
		return a.Forbidden(fmt.Errorf("node %q is not allowed to update configSource to a new non-nil configSource", node))
	}
	if !equality.Semantic.DeepEqual(old.Spec.Taints, changed.Spec.Taints) {
		return a.Forbidden(fmt.Errorf("node %q is not allowed to modify taints", node))
	}
	if !equality.Semantic.DeepEqual(old.OwnerReferences, changed.OwnerReferences) {
		return a.Forbidden(fmt.Errorf("node %q is not allowed to modify ownerReferences", node))
	}
	if labels := forbiddenLabels(old.Labels, changed.Labels); labels != "" {
		return a.Forbidden(fmt.Errorf("is not allowed to modify labels: %s", labels))
	}
	return nil
}
