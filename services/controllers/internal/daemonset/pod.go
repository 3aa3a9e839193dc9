package daemonset

import (
	"cmp"
	"maps"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	extensionsv1beta1 "k8s.io/api/extensions/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/services/controllers/internal/podcontrol"
)

const (
	// hashLabel is the label of a pod, and of a revision, that says of which template it is.
	hashLabel = appsv1.DefaultDaemonSetUniqueLabelKey
	// generationLabel is the older way to say so: the value of the set's annotation deprecated.daemonset.template.generation.
	generationLabel = extensionsv1beta1.DaemonSetTemplateGenerationKey
)

// template returns what pods of the revision are made from, except for their nodes. It shares parts with the set's.
func template(ds *appsv1.DaemonSet, hash string) corev1.PodTemplateSpec {
	t := ds.Spec.Template
	t.Labels = maps.Clone(t.Labels)
	if t.Labels == nil {
		t.Labels = map[string]string{}
	}
	if g := generation(ds); g != "" {
		t.Labels[generationLabel] = g
	}
	t.Labels[hashLabel] = hash
	t.Spec.Tolerations = tolerations(&t.Spec)
	return t
}

// generation is the number of the set's template as a label's value, or "" where it has none that is a number.
func generation(ds *appsv1.DaemonSet) string {
	n, err := strconv.ParseInt(ds.Annotations[appsv1.DeprecatedTemplateGeneration], 10, 64)
	if err != nil {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// onNode returns the affinity with a requirement of the very node in place of the required one, which the node is known to meet.
// The scheduler binds the pod there, when there is room.
func onNode(affinity *corev1.Affinity, node string) *corev1.Affinity {
	var (
		a corev1.Affinity
		n corev1.NodeAffinity
	)
	if affinity != nil {
		a = *affinity
	}
	if a.NodeAffinity != nil {
		n = *a.NodeAffinity
	}
	n.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchFields: []corev1.NodeSelectorRequirement{{
			Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node},
		}},
	}}}
	a.NodeAffinity = &n
	return &a
}

// target returns the node that the pod is on or for; "" where it says none, as an adopted one may not.
func target(p *corev1.Pod) string {
	if p.Spec.NodeName != "" {
		return p.Spec.NodeName
	}
	a := p.Spec.Affinity
	if a == nil || a.NodeAffinity == nil || a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return ""
	}
	for _, term := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, r := range term.MatchFields {
			if r.Key != metav1.ObjectNameField || r.Operator != corev1.NodeSelectorOpIn {
				continue
			}
			if len(r.Values) != 1 {
				return ""
			}
			return r.Values[0]
		}
	}
	return ""
}

// older orders pods on one node by who stays: those that are bound before others, then by age.
func older(a, b *corev1.Pod) int {
	if bound := a.Spec.NodeName != ""; bound != (b.Spec.NodeName != "") {
		if bound {
			return -1
		}
		return 1
	}
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// podFrom returns a pod of the set's template for a node. It shares the template's parts.
func podFrom(t *corev1.PodTemplateSpec, ds *appsv1.DaemonSet, name, node string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: ds.Namespace, Name: name, GenerateName: podcontrol.GenerateName(ds.Name),
			Labels: t.Labels, Annotations: t.Annotations, Finalizers: t.Finalizers,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(ds, kind)},
		},
		Spec: t.Spec,
	}
	p.Spec.Affinity = onNode(t.Spec.Affinity, node)
	return p
}
