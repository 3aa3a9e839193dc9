package plugin

import (
	"context"
	"fmt"
	"maps"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"howdah.dev/services/apiserver/internal/admission"
)

// NodeRestriction keeps node agents to their own node, its lease and the pods that are bound to it.
type NodeRestriction struct{ Objects admission.Objects }

// Name implements admission.Plugin.
func (*NodeRestriction) Name() string { return "NodeRestriction" }

// Handles implements admission.Plugin.
func (*NodeRestriction) Handles(a *admission.Attributes) bool {
	return a.User != nil && a.User.Node() != ""
}

// Validate implements admission.Validator.
func (p *NodeRestriction) Validate(ctx context.Context, a *admission.Attributes) error {
	node := a.User.Node()
	switch {
	case a.Is("", "nodes"):
		return p.node(a, node)
	case a.Is("", "pods"):
		return p.pod(a, node)
	case a.Is("coordination.k8s.io", "leases"):
		if a.Namespace != corev1.NamespaceNodeLease || objectName(a) != node {
			return a.Forbidden(fmt.Errorf("can only access node lease with the same name as the requesting node"))
		}
	case a.Is("", "serviceaccounts") && a.Subresource == "token":
		return p.token(ctx, a, node)
	}
	return nil
}

func objectName(a *admission.Attributes) string {
	if a.Name == "" && a.Object != nil {
		return a.Object.GetName()
	}
	return a.Name
}

func (p *NodeRestriction) node(a *admission.Attributes, node string) error {
	if name := objectName(a); name != node {
		return a.Forbidden(fmt.Errorf("node %q is not allowed to modify node %q", node, name))
	}
	changed, ok := a.Object.(*corev1.Node)
	if !ok {
		return nil
	}
	old, _ := a.Old.(*corev1.Node)
	before := map[string]string{}
	if old != nil {
		if !equality.Semantic.DeepEqual(old.Spec.Taints, changed.Spec.Taints) {
			return a.Forbidden(fmt.Errorf("node %q is not allowed to modify taints", node))
		}
		if !equality.Semantic.DeepEqual(old.OwnerReferences, changed.OwnerReferences) {
			return a.Forbidden(fmt.Errorf("node %q is not allowed to modify ownerReferences", node))
		}
		before = old.Labels
	}
	if label := forbiddenLabel(before, changed.Labels); label != "" {
		return a.Forbidden(fmt.Errorf("node %q is not allowed to modify labels: %s", node, label))
	}
	return nil
}

// forbiddenLabel returns a changed label by which a node could draw pods to itself that are not meant for it.
func forbiddenLabel(before, after map[string]string) string {
	all := maps.Clone(before)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, after)
	for label := range all {
		was, had := before[label]
		is, has := after[label]
		domain, _, _ := strings.Cut(label, "/")
		if (was != is || had != has) && (domain == "node-restriction.kubernetes.io" || strings.HasSuffix(domain, ".node-restriction.kubernetes.io")) {
			return label
		}
	}
	return ""
}

func (p *NodeRestriction) pod(a *admission.Attributes, node string) error {
	if a.Operation == admission.Create && a.Subresource == "" {
		pod, ok := a.Object.(*corev1.Pod)
		if !ok {
			return nil
		}
		if _, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]; !mirror {
			return a.Forbidden(fmt.Errorf("pod does not have %q annotation, node %q can only create mirror pods", corev1.MirrorPodAnnotationKey, node))
		}
		if pod.Spec.NodeName != node {
			return a.Forbidden(fmt.Errorf("node %q can only create pods with spec.nodeName set to itself", node))
		}
		return nil
	}
	old, ok := a.Old.(*corev1.Pod)
	if !ok || old.Spec.NodeName == node {
		return nil
	}
	switch {
	case a.Subresource == "eviction":
		return a.Forbidden(fmt.Errorf("node %q can only evict pods with spec.nodeName set to itself", node))
	case a.Operation == admission.Delete:
		return a.Forbidden(fmt.Errorf("node %q can only delete pods with spec.nodeName set to itself", node))
	}
	return a.Forbidden(fmt.Errorf("node %q can only update pod status for pods with spec.nodeName set to itself", node))
}

// token allows tokens that are bound to a pod of the node.
func (p *NodeRestriction) token(ctx context.Context, a *admission.Attributes, node string) error {
	request, ok := a.Body.(*authenticationv1.TokenRequest)
	if !ok || request.Spec.BoundObjectRef == nil || request.Spec.BoundObjectRef.Kind != "Pod" {
		return a.Forbidden(fmt.Errorf("node requested token not bound to a pod"))
	}
	ref := request.Spec.BoundObjectRef
	if ref.UID == "" {
		return a.Forbidden(fmt.Errorf("node requested token with a pod binding without a uid"))
	}
	obj, err := p.Objects.Get(ctx, "", "pods", a.Namespace, ref.Name)
	if err != nil {
		return err
	}
	pod, ok := obj.(*corev1.Pod)
	if !ok || pod.UID != ref.UID {
		return a.Forbidden(fmt.Errorf("the UID in the bound object reference (%s) does not match the UID in record. The object might have been deleted and then recreated", ref.UID))
	}
	if pod.Spec.NodeName != node {
		return a.Forbidden(fmt.Errorf("node requested token bound to a pod scheduled on a different node"))
	}
	return nil
}
