package config

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/services/scheduler/internal/cluster"
)

// cheap, retiring and plain are the nodes of the tests.
func nodes() cluster.Snapshot {
	cache := cluster.NewCache()
	for name, labels := range map[string]map[string]string{"cheap": {"cheap": "yes"}, "plain": {}, "retiring": {"retiring": "soon"}} {
		cache.SetNode(&corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
			Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
				corev1.ResourcePods: resource.MustParse("10"), corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi"),
			}},
		})
	}
	return cache.Snapshot()
}

// TestActs asks what nodes are told by a profile with one plugin configured.
func TestActs(t *testing.T) {
	t.Parallel()
	affinity := func(text string) string {
		return "pluginConfig: [{name: NodeAffinity, args: {addedAffinity: {" + text + "}}}]"
	}
	label := func(args string) string {
		return "plugins: {multiPoint: {enabled: [{name: NodeLabel, weight: 2}]}}, pluginConfig: [{name: NodeLabel, args: {" + args + "}}]"
	}
	ignoring := func(args string) string { return "pluginConfig: [{name: NodeResourcesFit, args: {" + args + "}}]" }
	const (
		isCheap  = "{matchExpressions: [{key: cheap, operator: Exists}]}"
		enforced = "node(s) didn't match scheduler-enforced node affinity"
		labels   = "node(s) didn't have the requested labels"
		selector = "node(s) didn't match Pod's node affinity/selector"
	)
	for _, tt := range []struct {
		name, profile string
		selector      map[string]string // of the pod
		plugin        string
		refusals      map[string]string // by node, "" where it passes
		scores        map[string]int64  // by node, times the weight
	}{
		{
			"an affinity that all pods have", affinity("requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [" + isCheap + "]}"), nil, "NodeAffinity",
			map[string]string{"cheap": "", "plain": enforced, "retiring": enforced}, map[string]int64{"cheap": 0},
		},
		{
			"beside one of the pod", affinity("requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [" + isCheap + "]}"), map[string]string{"retiring": "soon"}, "NodeAffinity",
			map[string]string{"cheap": selector, "plain": enforced, "retiring": enforced}, nil,
		},
		{
			"what all pods prefer", affinity("preferredDuringSchedulingIgnoredDuringExecution: [{weight: 7, preference: " + isCheap + "}]"), nil, "NodeAffinity",
			map[string]string{"cheap": "", "plain": "", "retiring": ""}, map[string]int64{"cheap": 200, "plain": 0, "retiring": 0},
		},
		{
			"labels that nodes must have", label("presentLabels: [cheap]"), nil, "NodeLabel",
			map[string]string{"cheap": "", "plain": labels, "retiring": labels}, map[string]int64{"cheap": 0},
		},
		{
			"labels that nodes must not have, and labels that they should have", label("absentLabels: [retiring], presentLabelsPreference: [cheap]"), nil, "NodeLabel",
			map[string]string{"cheap": "", "plain": "", "retiring": labels}, map[string]int64{"cheap": 200, "plain": 0},
		},
		{
			"resources that are ignored", ignoring("ignoredResources: [example.com/gpu], ignoredResourceGroups: [example.net]"), nil, "NodeResourcesFit",
			map[string]string{"cheap": "", "plain": "", "retiring": ""}, nil,
		},
		{
			"resources that are not", ignoring("ignoredResourceGroups: [example.net]"), nil, "NodeResourcesFit",
			map[string]string{"cheap": "Insufficient example.com/gpu", "plain": "Insufficient example.com/gpu", "retiring": "Insufficient example.com/gpu"}, nil,
		},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{NodeSelector: tt.selector, Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{"example.com/gpu": resource.MustParse("1"), "example.net/nic": resource.MustParse("1")}}}}}}
		if tt.plugin != "NodeResourcesFit" {
			pod.Spec.Containers[0].Resources.Requests = nil
		}
		explained := parsed(t, head+"profiles: [{"+tt.profile+"}]").Profiles[0].Explain(pod, nodes())
		for _, n := range explained.Nodes {
			for _, f := range n.Filters {
				why := ""
				if len(f.Reasons) > 0 {
					why = f.Reasons[0]
				}
				if f.Filter == tt.plugin && why != tt.refusals[n.Node] {
					t.Errorf("%s: node %s: %q, want %q", tt.name, n.Node, why, tt.refusals[n.Node])
				}
			}
			rated := int64(-1)
			for _, s := range n.Scores {
				if s.Name == tt.plugin {
					rated = s.Score * s.Weight
				}
			}
			if want, ok := tt.scores[n.Node]; ok && rated != want {
				t.Errorf("%s: node %s is rated %d, want %d", tt.name, n.Node, rated, want)
			}
		}
	}
}
