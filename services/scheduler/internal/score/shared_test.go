package score

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/services/scheduler/internal/cluster"
	"howdah.dev/services/scheduler/internal/kin"
)

// newNode is a node of a zone, or of none.
func newNode(name, zone string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}}
	if zone != "" {
		n.Labels[corev1.LabelTopologyZone] = zone
	}
	return n
}

// newPod is a pod of an app, on a node or none: "web-1@a1".
func newPod(at string, change ...func(*corev1.Pod)) *corev1.Pod {
	name, node, _ := strings.Cut(at, "@")
	app, _, _ := strings.Cut(name, "-")
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(at), Labels: map[string]string{"app": app}}, Spec: corev1.PodSpec{NodeName: node}}
	for _, c := range change {
		c(p)
	}
	return p
}

func selecting(app string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
}

func spreadOver(keys ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		for _, key := range keys {
			p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
				TopologyKey: key, MaxSkew: 1, WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: selecting("web"),
			})
		}
	}
}

// owned is by a controller, which selects it.
func owned(p *corev1.Pod) {
	controller := true
	p.Labels["rs"] = "yes"
	p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", UID: "rs", Controller: &controller}}
}

// selectors are that controller, and a Service of the app api.
func selectors(v *kin.View) {
	v.SetController("rs", &metav1.LabelSelector{MatchLabels: map[string]string{"rs": "yes"}})
	v.SetService(&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "api"}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "api"}}})
}

// preferring adds a wish for pods of an app on the same node; a negative weight is one against them.
func preferring(app string, weight int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		if p.Spec.Affinity == nil {
			p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{}, PodAntiAffinity: &corev1.PodAntiAffinity{}}
		}
		term := corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname, LabelSelector: selecting(app)}
		to, weight := &p.Spec.Affinity.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution, weight
		if weight < 0 {
			to, weight = &p.Spec.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution, -weight
		}
		*to = append(*to, corev1.WeightedPodAffinityTerm{Weight: weight, PodAffinityTerm: term})
	}
}

func requiring(app string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
			{TopologyKey: corev1.LabelHostname, LabelSelector: selecting(app)},
		}}}
	}
}

// The figures are worked out by hand from the rules that Kubernetes documents: ln(domains + 2) weighs the pods of a domain, and the least crowded node
// gets 100; wishes are summed by domain and stretched from 0 to 100.
func TestShared(t *testing.T) {
	t.Parallel()
	zoned := []*corev1.Node{newNode("a1", "A"), newNode("a2", "A"), newNode("b1", "B"), newNode("x", "")}
	plain := []*corev1.Node{newNode("n1", ""), newNode("n2", ""), newNode("n3", "")}
	spread, affinity := PodTopologySpread(nil, true), InterPodAffinity(1, false)
	for name, c := range map[string]struct {
		score Score
		nodes []*corev1.Node
		pods  []*corev1.Pod
		pod   *corev1.Pod
		want  []int64 // nil: all are alike
	}{
		"a service":                    {spread, plain, []*corev1.Pod{newPod("api-1@n2"), newPod("web-1@n1")}, newPod("api"), []int64{100, 50, 100}},
		"a service, and a controller":  {spread, plain, []*corev1.Pod{newPod("api-1@n2"), newPod("api-2@n1", owned)}, newPod("api", owned), []int64{50, 100, 100}},
		"no constraint, no controller": {spread, zoned, []*corev1.Pod{newPod("web-1@a1")}, newPod("web"), nil},
		"one zone is empty":            {spread, zoned, []*corev1.Pod{newPod("web-1@a1"), newPod("web-2@a2")}, newPod("web", spreadOver(corev1.LabelTopologyZone)), []int64{0, 0, 100, 0}},
		"none is empty":                {spread, zoned, []*corev1.Pod{newPod("web-1@a1"), newPod("web-2@a2"), newPod("web-3@b1")}, newPod("web", spreadOver(corev1.LabelTopologyZone)), []int64{33, 33, 100, 0}},
		"zones and nodes":              {spread, zoned, []*corev1.Pod{newPod("web-1@a1")}, newPod("web", spreadOver(corev1.LabelTopologyZone, corev1.LabelHostname)), []int64{0, 66, 100, 0}},
		"a selector of everything": {spread, plain, []*corev1.Pod{newPod("web-1@n1")}, newPod("web", func(p *corev1.Pod) {
			p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{TopologyKey: corev1.LabelHostname, MaxSkew: 1, WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: &metav1.LabelSelector{}}}
		}), []int64{100, 100, 100}},
		"others do not count":     {spread, zoned, []*corev1.Pod{newPod("db-1@a1")}, newPod("web", spreadOver(corev1.LabelTopologyZone)), []int64{100, 100, 100, 0}},
		"siblings, without zones": {spread, plain, []*corev1.Pod{newPod("web-1@n2", owned), newPod("web-2@n1")}, newPod("web", owned), []int64{100, 50, 100}},
		"siblings, and zones":     {spread, zoned, []*corev1.Pod{newPod("web-1@a1", owned)}, newPod("web", owned), []int64{22, 33, 55, 100}},
		"configured, for siblings": {PodTopologySpread([]corev1.TopologySpreadConstraint{{TopologyKey: corev1.LabelTopologyZone, MaxSkew: 1, WhenUnsatisfiable: corev1.ScheduleAnyway}}, false),
			zoned, []*corev1.Pod{newPod("web-1@a1", owned)}, newPod("web", owned), []int64{0, 0, 100, 0}},

		"no wishes":                  {affinity, plain, []*corev1.Pod{newPod("db@n1")}, newPod("web"), nil},
		"for and against":            {affinity, plain, []*corev1.Pod{newPod("db@n1"), newPod("web-1@n2")}, newPod("web", preferring("db", 80), preferring("web", -20)), []int64{100, 0, 20}},
		"one that needs the likes":   {affinity, plain, []*corev1.Pod{newPod("db@n1", requiring("web"))}, newPod("web"), []int64{100, 0, 0}},
		"one that avoids the likes":  {affinity, plain, []*corev1.Pod{newPod("db@n2", preferring("web", -5))}, newPod("web"), []int64{100, 0, 100}},
		"one that is asked for once": {InterPodAffinity(1, true), plain, []*corev1.Pod{newPod("db@n2", preferring("web", -5))}, newPod("web", preferring("x", 1)), []int64{100, 0, 100}},
		"one that is not asked":      {InterPodAffinity(1, true), plain, []*corev1.Pod{newPod("db@n2", preferring("web", -5))}, newPod("web"), nil},
		"needs that do not count":    {InterPodAffinity(0, false), plain, []*corev1.Pod{newPod("db@n1", requiring("web"))}, newPod("web"), nil},
		"wishes for who is nowhere":  {affinity, plain, nil, newPod("web", preferring("db", 80)), nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cache := cluster.NewCache()
			cache.ChangeKin(selectors)
			for _, n := range c.nodes {
				cache.SetNode(n)
			}
			for _, p := range c.pods {
				cache.SetPod(p)
			}
			snapshot := cache.Snapshot()
			shared := c.score.Share(c.pod, snapshot, snapshot.Nodes)
			if shared == nil || c.want == nil {
				if shared != nil || c.want != nil {
					t.Fatalf("rated: %t, want %v", shared != nil, c.want)
				}
				return
			}
			got := make([]int64, len(snapshot.Nodes))
			if shared.Rate(got); !slices.Equal(got, c.want) {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

// What is placed counts as what was there before does.
func TestSharedFollowsWhatIsPlaced(t *testing.T) {
	t.Parallel()
	nodes := []*corev1.Node{newNode("a1", "A"), newNode("a2", "A"), newNode("b1", "B")}
	for name, c := range map[string]struct {
		score Score
		pod   *corev1.Pod
	}{
		"spread":   {PodTopologySpread(nil, true), newPod("web", spreadOver(corev1.LabelTopologyZone, corev1.LabelHostname))},
		"siblings": {PodTopologySpread(nil, true), newPod("web", owned)},
		"affinity": {InterPodAffinity(1, false), newPod("web", preferring("web", -7))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cache := cluster.NewCache()
			cache.ChangeKin(selectors)
			for _, n := range nodes {
				cache.SetNode(n)
			}
			snapshot := cache.Snapshot()
			shared := c.score.Share(c.pod, snapshot, snapshot.Nodes)
			for i, node := range []string{"b1", "a1", "b1"} {
				at, _ := snapshot.Index(node)
				shared.Place(at)
				placed := c.pod.DeepCopy()
				placed.UID, placed.Spec.NodeName = types.UID(rune('0'+i)), node
				cache.SetPod(placed)
				got, want := make([]int64, 3), make([]int64, 3)
				shared.Rate(got)
				now := cache.Snapshot()
				c.score.Share(c.pod, now, now.Nodes).Rate(want)
				if !slices.Equal(got, want) {
					t.Errorf("after %d: %v, want %v", i+1, got, want)
				}
			}
			shared.Leave(1) // the least crowded one
			got := make([]int64, 3)
			if shared.Rate(got); got[1] != 0 || slices.Max(got) != Max {
				t.Errorf("without the second: %v", got)
			}
		})
	}
}
