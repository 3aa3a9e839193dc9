package nodeagent

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	kubeletapis "k8s.io/kubelet/pkg/apis"
)

// taints are what the node is made with.
func (c Config) taints() []corev1.Taint {
	out := slices.Clone(c.Taints)
	if c.ExternalCloud {
		out = append(out, corev1.Taint{Key: "node.cloudprovider.kubernetes.io/uninitialized", Value: "true", Effect: corev1.TaintEffectNoSchedule})
	}
	return out
}

// validateRegistration says what is wrong with the node's labels and taints. A node gives itself none of Kubernetes' labels but those that are for it, as
// the admission plugin NodeRestriction would refuse it anyway.
func (c Config) validateRegistration() error {
	var problems []error
	var foreign []string
	for key := range c.Labels {
		domain, _, prefixed := strings.Cut(key, "/")
		own := domain == "kubernetes.io" || domain == "k8s.io" || strings.HasSuffix(domain, ".kubernetes.io") || strings.HasSuffix(domain, ".k8s.io")
		if prefixed && own && !kubeletapis.IsKubeletLabel(key) {
			foreign = append(foreign, key)
		}
	}
	if len(foreign) > 0 {
		slices.Sort(foreign)
		problems = append(problems, fmt.Errorf("unknown 'kubernetes.io' or 'k8s.io' labels specified with --node-labels: %v\n--node-labels in the 'kubernetes.io' namespace must begin with an allowed prefix (%s) or be in the specifically allowed set (%s)",
			foreign, strings.Join(kubeletapis.KubeletLabelNamespaces(), ", "), strings.Join(kubeletapis.KubeletLabels(), ", ")))
	}
	if errs := metav1validation.ValidateLabels(c.Labels, field.NewPath("node labels")); len(errs) > 0 {
		problems = append(problems, errs.ToAggregate())
	}
	seen := map[string]bool{}
	for _, t := range c.Taints {
		for _, problem := range slices.Concat(validation.IsQualifiedName(t.Key), validation.IsValidLabelValue(t.Value)) {
			problems = append(problems, fmt.Errorf("taint %s: %s", t.ToString(), problem))
		}
		if !slices.Contains([]corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute}, t.Effect) {
			problems = append(problems, fmt.Errorf("taint %s: %q is no effect", t.ToString(), t.Effect))
		}
		if once := t.Key + ":" + string(t.Effect); seen[once] {
			problems = append(problems, fmt.Errorf("taint %s: there is another of that key and effect", t.ToString()))
		} else {
			seen[once] = true
		}
	}
	return errors.Join(problems...)
}

// ParseTaint reads KEY=VALUE:EFFECT, KEY:EFFECT, as kubectl taint writes them.
func ParseTaint(text string) (corev1.Taint, error) {
	rest, effect, found := strings.Cut(text, ":")
	if !found {
		return corev1.Taint{}, fmt.Errorf("taint %q is not KEY=VALUE:EFFECT", text)
	}
	key, value, _ := strings.Cut(rest, "=")
	return corev1.Taint{Key: key, Value: value, Effect: corev1.TaintEffect(effect)}, nil
}
