package filter

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/services/scheduler/internal/cluster"
)

func newPod(cpu string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{}}}}
	if cpu != "" {
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	}
	for _, c := range change {
		c(p)
	}
	return p
}

func onPort(port int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: port}} }
}

func tolerant(p *corev1.Pod) {
	p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
}

func newNode(cpu, memory string, change ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory), corev1.ResourcePods: resource.MustParse("10"),
	}}}
	for _, c := range change {
		c(n)
	}
	return n
}

func tainted(key string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: key, Effect: corev1.TaintEffectNoSchedule}} }
}

func inZone(n *corev1.Node) { n.Labels = map[string]string{corev1.LabelTopologyZone: "a"} }

func claiming(names ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		for _, name := range names {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}})
		}
	}
}

func onDisk(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{VolumeID: name}}})
	}
}

func cordoned(n *corev1.Node) { n.Spec.Unschedulable = true }

var room, spreading = NodeResourcesFit(nil), PodTopologySpread(nil)

func TestWhomAPodThatGoesHelps(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		refusers  []Filter
		pod, gone *corev1.Pod
		want      bool
	}{
		"who lacks room":                         {[]Filter{room}, newPod("1"), newPod("1"), true},
		"not who is refused by taints":           {[]Filter{TaintToleration, NodeUnschedulable, NodeName}, newPod("1"), newPod("1"), false},
		"who is refused by taints and by others": {[]Filter{TaintToleration, spreading}, newPod("1"), newPod("1"), true},
		"who wants its port":                     {[]Filter{NodePorts}, newPod("", onPort(80)), newPod("", onPort(80)), true},
		"who wants its claim":                    {[]Filter{VolumeRestrictions}, newPod("", claiming("a")), newPod("", claiming("b", "a")), true},
		"not who wants another claim":            {[]Filter{VolumeRestrictions}, newPod("", claiming("a")), newPod("", claiming("b")), false},
		"who wants its disk":                     {[]Filter{VolumeRestrictions}, newPod("", onDisk("a")), newPod("", onDisk("a")), true},
		"not who wants another disk":             {[]Filter{VolumeRestrictions}, newPod("", onDisk("a")), newPod("", onDisk("b")), false},
		"not whose claims are bound to nothing":  {[]Filter{VolumeBinding, VolumeZone}, newPod("", claiming("a")), newPod("", claiming("a")), false},
		"not who wants another port":             {[]Filter{NodePorts}, newPod("", onPort(80)), newPod("", onPort(81)), false},
	} {
		if got := FreedBy(c.refusers, c.pod, c.gone); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestWhomANodeHelps(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		refuser  Filter
		was, now *corev1.Node
		want     bool
	}{
		"a new one":                       {room, nil, newNode("2", "1Gi"), true},
		"a new one that is too small":     {room, nil, newNode("1", "1Gi"), false},
		"a new one with a taint":          {TaintToleration, nil, newNode("2", "1Gi", tainted("x")), false},
		"one that grows":                  {room, newNode("2", "1Gi"), newNode("4", "1Gi"), true},
		"one that grows too little":       {room, newNode("1", "1Gi"), newNode("1500m", "1Gi"), false},
		"more of what is not wanted":      {room, newNode("2", "1Gi"), newNode("2", "2Gi"), false},
		"a taint that goes":               {TaintToleration, newNode("2", "1Gi", tainted("x")), newNode("2", "1Gi"), true},
		"another taint":                   {TaintToleration, newNode("2", "1Gi", tainted("x")), newNode("2", "1Gi", tainted("y")), false},
		"an end of being cordoned":        {NodeUnschedulable, newNode("2", "1Gi", cordoned), newNode("2", "1Gi"), true},
		"other taints, for who asks room": {room, newNode("1", "1Gi", tainted("x")), newNode("1", "1Gi"), true},
		"a new one, for who has volumes":  {VolumeBinding, nil, newNode("2", "1Gi"), true},
		"a label, for who has volumes":    {VolumeZone, newNode("2", "1Gi"), newNode("2", "1Gi", inZone), true},
		"room, for who has volumes":       {VolumeBinding, newNode("1", "1Gi"), newNode("2", "1Gi"), false},
		"any change, for who looks far":   {spreading, newNode("2", "1Gi"), newNode("2", "1Gi"), true},
	} {
		if got := LetInBy([]Filter{c.refuser}, newPod("2"), c.was, c.now, cluster.Snapshot{}); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestWhomALostNodeHelps(t *testing.T) {
	t.Parallel()
	in := func(labels map[string]string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Labels = labels }
	}
	over := func(keys ...string) *corev1.Pod {
		return newPod("1", func(p *corev1.Pod) {
			for _, key := range keys {
				p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, corev1.TopologySpreadConstraint{
					MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{},
				})
			}
		})
	}
	for name, c := range map[string]struct {
		refuser Filter
		pod     *corev1.Pod
		gone    *corev1.Node
		want    bool
	}{
		"who is spread over its like":   {spreading, over("zone"), newNode("1", "1Gi", in(map[string]string{"zone": "a"})), true},
		"not who is spread over others": {spreading, over("zone", "rack"), newNode("1", "1Gi", in(map[string]string{"zone": "a"})), false},
		"not who is not spread":         {spreading, over(), newNode("1", "1Gi"), false},
		"not who wants room":            {room, over("zone"), newNode("1", "1Gi", in(map[string]string{"zone": "a"})), false},
	} {
		if got := LostBy([]Filter{c.refuser}, c.pod, c.gone, cluster.Snapshot{}); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestWhomItsOwnChangeHelps(t *testing.T) {
	t.Parallel()
	labelled := func(p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} }
	for name, c := range map[string]struct {
		refuser Filter
		is      *corev1.Pod
		want    bool
	}{
		"a label, where labels count":        {spreading, newPod("2", labelled), true},
		"a label, where room does":           {room, newPod("2", labelled), false},
		"a label, where volumes do":          {VolumeBinding, newPod("2", labelled), false},
		"a toleration, where taints do":      {TaintToleration, newPod("2", tolerant), true},
		"a label, where taints do":           {TaintToleration, newPod("2", labelled), false},
		"a smaller request, where room does": {room, newPod("1"), true},
		"anything, where the node does":      {NodeName, newPod("1", labelled, tolerant), false},
	} {
		if got := HelpedBy([]Filter{c.refuser}, newPod("2"), c.is); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
