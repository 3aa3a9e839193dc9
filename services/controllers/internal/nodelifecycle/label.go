package nodelifecycle

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/kit/object"
)

// former are the labels under which manifests of old look for what a node's stable ones say.
var former = map[string]string{
	corev1.LabelOSStable:   "beta.kubernetes.io/os",
	corev1.LabelArchStable: "beta.kubernetes.io/arch",
}

// DecideLabels returns the former labels that a node is to be given, since they are missing or say otherwise than the stable ones. Agents that
// register themselves bring them; others may not.
func DecideLabels(n *corev1.Node) map[string]string {
	missing := map[string]string{}
	for stable, old := range former {
		value, ok := n.Labels[stable]
		if had, has := n.Labels[old]; ok && (!has || had != value) {
			missing[old] = value
		}
	}
	return missing
}

// label writes the labels that a node lacks.
func (c *nodeLifecycle) label(ctx context.Context, n *corev1.Node) error {
	missing := DecideLabels(n)
	if len(missing) == 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": n.UID, "labels": missing}})
	if err != nil {
		return err
	}
	if _, err := object.For(c.client, object.Node).Patch(ctx, "", n.Name, types.MergePatchType, patch, ""); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("set labels: %w", err)
	}
	return nil
}
