package plugin

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"howdah.dev/services/apiserver/internal/admission"
)

// PodTopologyLabels gives a pod the zone and region of the node that it is put on, so that its containers can know them.
type PodTopologyLabels struct{ Objects admission.Objects }

// Name implements admission.Plugin.
func (*PodTopologyLabels) Name() string { return "PodTopologyLabels" }

// Handles implements admission.Plugin.
func (*PodTopologyLabels) Handles(a *admission.Attributes) bool {
	return a.Operation == admission.Create && a.Is("", "pods") && (a.Subresource == "" || a.Subresource == "binding")
}

// Admit implements admission.Mutator.
func (p *PodTopologyLabels) Admit(ctx context.Context, a *admission.Attributes) error {
	pod, ok := a.Object.(*corev1.Pod)
	if !ok || pod.Spec.NodeName == "" {
		return nil
	}
	node, err := p.Objects.Get(ctx, "", "nodes", "", pod.Spec.NodeName)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, key := range []string{corev1.LabelTopologyZone, corev1.LabelTopologyRegion} {
		value, ok := node.GetLabels()[key]
		if !ok {
			continue
		}
		if pod.Labels == nil {
			pod.Labels = map[string]string{}
		}
		pod.Labels[key] = value
	}
	return nil
}
