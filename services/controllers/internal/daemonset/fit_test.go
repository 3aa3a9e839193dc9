package daemonset

import (
	"reflect"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

func TestJudge(t *testing.T) {
	t.Parallel()
	var (
		run  = Verdict{Run: true, Stay: true}
		stay = Verdict{Stay: true}
		none = Verdict{}
	)
	spec := func(change func(*corev1.PodSpec)) func(*appsv1.DaemonSet) {
		return func(ds *appsv1.DaemonSet) { change(&ds.Spec.Template.Spec) }
	}
	affinity := func(terms ...corev1.NodeSelectorTerm) func(*appsv1.DaemonSet) {
		return spec(func(s *corev1.PodSpec) {
			s.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: terms},
			}}
		})
	}
	in := func(key string, values ...string) []corev1.NodeSelectorRequirement {
		return []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}}
	}
	hostNetwork := spec(func(s *corev1.PodSpec) { s.HostNetwork = true })
	for _, tt := range []struct {
		name string
		set  []func(*appsv1.DaemonSet)
		node *corev1.Node
		want Verdict
	}{
		{"any node", nil, newNode("n"), run},
		{"the named node", []func(*appsv1.DaemonSet){spec(func(s *corev1.PodSpec) { s.NodeName = "n" })}, newNode("n"), run},
		{"another than the named node", []func(*appsv1.DaemonSet){spec(func(s *corev1.PodSpec) { s.NodeName = "m" })}, newNode("n"), none},
		{"selected", []func(*appsv1.DaemonSet){spec(func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"name": "n"} })}, newNode("n"), run},
		{"not selected", []func(*appsv1.DaemonSet){spec(func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"name": "m"} })}, newNode("n"), none},
		{"affine by label", []func(*appsv1.DaemonSet){affinity(corev1.NodeSelectorTerm{MatchExpressions: in("name", "n")})}, newNode("n"), run},
		{"affine by name", []func(*appsv1.DaemonSet){affinity(corev1.NodeSelectorTerm{MatchFields: in("metadata.name", "n")})}, newNode("n"), run},
		{"not affine by name", []func(*appsv1.DaemonSet){affinity(corev1.NodeSelectorTerm{MatchFields: in("metadata.name", "m")})}, newNode("n"), none},
		{"one term of two", []func(*appsv1.DaemonSet){affinity(corev1.NodeSelectorTerm{MatchExpressions: in("name", "m")},
			corev1.NodeSelectorTerm{MatchExpressions: in("name", "n")})}, newNode("n"), run},
		{"preferred only", []func(*appsv1.DaemonSet){spec(func(s *corev1.PodSpec) {
			s.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{{
				Weight: 1, Preference: corev1.NodeSelectorTerm{MatchExpressions: in("name", "m")}}}}}
		})}, newNode("n"), run},
		{"NoSchedule", nil, newNode("n", taint("x", corev1.TaintEffectNoSchedule)), stay},
		{"NoExecute", nil, newNode("n", taint("x", corev1.TaintEffectNoExecute)), none},
		{"PreferNoSchedule", nil, newNode("n", taint("x", corev1.TaintEffectPreferNoSchedule)), run},
		{"both, one tolerated", []func(*appsv1.DaemonSet){spec(func(s *corev1.PodSpec) {
			s.Tolerations = []corev1.Toleration{{Key: "x", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute}}
		})}, newNode("n", taint("x", corev1.TaintEffectNoExecute), taint("y", corev1.TaintEffectNoSchedule)), stay},
		{"everything tolerated", []func(*appsv1.DaemonSet){spec(func(s *corev1.PodSpec) {
			s.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		})}, newNode("n", taint("x", corev1.TaintEffectNoExecute), taint("y", corev1.TaintEffectNoSchedule)), run},
		{"not ready", nil, newNode("n", taint(corev1.TaintNodeNotReady, corev1.TaintEffectNoExecute)), run},
		{"not ready yet", nil, newNode("n", taint(corev1.TaintNodeNotReady, corev1.TaintEffectNoSchedule)), stay},
		{"unreachable", nil, newNode("n", taint(corev1.TaintNodeUnreachable, corev1.TaintEffectNoExecute)), run},
		{"disk pressure", nil, newNode("n", taint(corev1.TaintNodeDiskPressure, corev1.TaintEffectNoSchedule)), run},
		{"memory pressure", nil, newNode("n", taint(corev1.TaintNodeMemoryPressure, corev1.TaintEffectNoSchedule)), run},
		{"PID pressure", nil, newNode("n", taint(corev1.TaintNodePIDPressure, corev1.TaintEffectNoSchedule)), run},
		{"cordoned", nil, newNode("n", taint(corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule)), run},
		{"no network", nil, newNode("n", taint(corev1.TaintNodeNetworkUnavailable, corev1.TaintEffectNoSchedule)), stay},
		{"no network, none needed", []func(*appsv1.DaemonSet){hostNetwork}, newNode("n", taint(corev1.TaintNodeNetworkUnavailable, corev1.TaintEffectNoSchedule)), run},
		{"out of service", nil, newNode("n", taint(corev1.TaintNodeOutOfService, corev1.TaintEffectNoExecute)), none},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := NewFit(newSet(tt.set...)).Judge(tt.node); got != tt.want {
				t.Errorf("verdict %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestTolerationsReplaceShorterOnes(t *testing.T) {
	t.Parallel()
	mine := corev1.Toleration{Key: "mine", Operator: corev1.TolerationOpExists}
	short := corev1.Toleration{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: ptr.To[int64](5)}
	spec := &corev1.PodSpec{Tolerations: []corev1.Toleration{short, mine}}
	forEver := short
	forEver.TolerationSeconds = nil
	got := tolerations(spec)
	if len(got) != 7 || !reflect.DeepEqual(got[0], forEver) || !reflect.DeepEqual(got[1], mine) {
		t.Errorf("tolerations %+v", got)
	}
	if spec.Tolerations[0].TolerationSeconds == nil {
		t.Error("the template was written to")
	}
}
