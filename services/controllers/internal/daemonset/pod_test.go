package daemonset

import (
	"maps"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestPodFrom(t *testing.T) {
	t.Parallel()
	ds := newSet()
	preferred := []corev1.PreferredSchedulingTerm{{Weight: 1}}
	ds.Spec.Template.Spec.Affinity = &corev1.Affinity{
		PodAffinity: &corev1.PodAffinity{},
		NodeAffinity: &corev1.NodeAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: preferred,
			RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
				{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: []string{"a", "b"}}}}, {},
			}},
		},
	}
	before := ds.DeepCopy()
	tpl := template(ds, "hash")
	p := podFrom(&tpl, ds, "agent-abcde", "a")

	if want := map[string]string{"app": "agent", "controller-revision-hash": "hash", "pod-template-generation": "2"}; !maps.Equal(p.Labels, want) {
		t.Errorf("labels %v, want %v", p.Labels, want)
	}
	if p.GenerateName != "agent-" || p.Name != "agent-abcde" || p.Spec.NodeName != "" || target(p) != "a" {
		t.Errorf("pod %+v", p)
	}
	a := p.Spec.Affinity
	if terms := a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms; len(terms) != 1 || len(terms[0].MatchFields) != 1 {
		t.Errorf("required terms %+v", terms)
	}
	if a.PodAffinity == nil || len(a.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution) != 1 {
		t.Errorf("the rest of the affinity is lost: %+v", a)
	}
	if len(p.Spec.Tolerations) != 6 {
		t.Errorf("tolerations %+v", p.Spec.Tolerations)
	}
	if target(podFrom(&tpl, ds, "other", "b")) != "b" || target(p) != "a" {
		t.Error("pods share their nodes")
	}
	if ds.String() != before.String() {
		t.Error("the set was written to")
	}
}

func TestTemplateWithoutGeneration(t *testing.T) {
	t.Parallel()
	for _, annotation := range []string{"", "many"} {
		ds := newSet()
		ds.Annotations = map[string]string{"deprecated.daemonset.template.generation": annotation}
		if _, ok := template(ds, "hash").Labels["pod-template-generation"]; ok {
			t.Errorf("annotation %q became a label", annotation)
		}
	}
}

func TestTarget(t *testing.T) {
	t.Parallel()
	field := func(key string, op corev1.NodeSelectorOperator, values ...string) *corev1.Pod {
		p := newPod("p", "n", unbound)
		p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields =
			[]corev1.NodeSelectorRequirement{{Key: key, Operator: op, Values: values}}
		return p
	}
	for name, tt := range map[string]struct {
		pod  *corev1.Pod
		want string
	}{
		"bound":          {newPod("p", "n"), "n"},
		"not bound":      {newPod("p", "n", unbound), "n"},
		"no affinity":    {newPod("p", "n", unbound, func(p *corev1.Pod) { p.Spec.Affinity = nil }), ""},
		"no requirement": {newPod("p", "n", unbound, func(p *corev1.Pod) { p.Spec.Affinity = &corev1.Affinity{} }), ""},
		"two nodes":      {field("metadata.name", corev1.NodeSelectorOpIn, "a", "b"), ""},
		"another field":  {field("metadata.namespace", corev1.NodeSelectorOpIn, "a"), ""},
		"all but one":    {field("metadata.name", corev1.NodeSelectorOpNotIn, "a"), ""},
	} {
		if got := target(tt.pod); got != tt.want {
			t.Errorf("%s: target %q, want %q", name, got, tt.want)
		}
	}
}
