package plugin

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
	meta, nodeName := placed(a)
	if nodeName == "" {
		return nil
	}
	node, err := p.Objects.Get(ctx, "", "nodes", "", nodeName)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return err
	}
	labels := meta.GetLabels()
	for _, key := range []string{corev1.LabelTopologyZone, corev1.LabelTopologyRegion} {
		value, ok := node.GetLabels()[key]
		if !ok {
			continue
		}
		if labels == nil {
			labels = map[string]string{}
		}
		labels[key] = value
	}
	meta.SetLabels(labels)
	return nil
}

// placed is what bears the labels, the pod or the Binding that brings them to it, and the node's name; empty: there is none.
func placed(a *admission.Attributes) (metav1.Object, string) {
	if binding, ok := a.Body.(*corev1.Binding); ok {
		if kind := binding.Target.Kind; kind != "" && kind != "Node" {
			return binding, ""
		}
		return binding, binding.Target.Name
	}
	if pod, ok := a.Object.(*corev1.Pod); ok {
		return pod, pod.Spec.NodeName
	}
	return nil, ""
}
