package pod

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"howdah.dev/kit/podspec"
)

func good(t *testing.T, more string) *corev1.Pod {
	t.Helper()
	p := parse(t, "metadata: {name: p, namespace: default}\nspec:\n  containers: [{name: a, image: busybox:1}]\n"+more)
	podspec.DefaultPod(&p.Spec)
	prepareCreate(p, time.Time{})
	return p
}

// wantErrors compares the beginnings of the errors.
func wantErrors(t *testing.T, errs field.ErrorList, want ...string) {
	t.Helper()
	ok := len(errs) == len(want)
	for i := range min(len(errs), len(want)) {
		ok = ok && strings.HasPrefix(errs[i].Error(), want[i])
	}
	if !ok {
		t.Errorf("got %v\nwant %s", errs, strings.Join(want, "\n"))
	}
}

func TestUpdate(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		old    string
		change func(*corev1.Pod)
		want   []string
	}{
		"nothing":    {"", func(*corev1.Pod) {}, nil},
		"image":      {"", func(p *corev1.Pod) { p.Spec.Containers[0].Image = "busybox:2" }, nil},
		"labels":     {"", func(p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} }, nil},
		"command":    {"", func(p *corev1.Pod) { p.Spec.Containers[0].Command = []string{"x"} }, []string{"spec: Forbidden: " + fixed}},
		"node":       {"", func(p *corev1.Pod) { p.Spec.NodeName = "n" }, []string{"spec: Forbidden: " + fixed}},
		"resources":  {"", func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "x"}} }, []string{"spec: Forbidden: " + fixed}},
		"containers": {"", func(p *corev1.Pod) { p.Spec.Containers = append(p.Spec.Containers, p.Spec.Containers[0]) }, []string{"spec.containers: Forbidden: pod updates may not add or remove containers"}},
		"toleration": {"", func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Key: "a", Operator: "Exists"}} }, nil},
		"toleration gone": {"  tolerations: [{key: a, operator: Exists}]", func(p *corev1.Pod) { p.Spec.Tolerations = nil }, []string{
			"spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds",
		}},
		"toleration seconds": {"  tolerations: [{key: a, operator: Exists, effect: NoExecute}]", func(p *corev1.Pod) {
			n := int64(5)
			p.Spec.Tolerations[0].TolerationSeconds = &n
		}, nil},
		"deadline set":     {"", func(p *corev1.Pod) { n := int64(5); p.Spec.ActiveDeadlineSeconds = &n }, nil},
		"deadline shorter": {"  activeDeadlineSeconds: 9", func(p *corev1.Pod) { n := int64(5); p.Spec.ActiveDeadlineSeconds = &n }, nil},
		"deadline longer": {"  activeDeadlineSeconds: 9", func(p *corev1.Pod) { n := int64(10); p.Spec.ActiveDeadlineSeconds = &n }, []string{
			"spec.activeDeadlineSeconds: Invalid value: 10: must be less than or equal to previous value",
		}},
		"deadline gone": {"  activeDeadlineSeconds: 9", func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = nil }, []string{
			"spec.activeDeadlineSeconds: Invalid value: null: must not update from a positive integer to nil value",
		}},
		"grace from negative": {"  terminationGracePeriodSeconds: -1", func(p *corev1.Pod) { n := int64(1); p.Spec.TerminationGracePeriodSeconds = &n }, nil},
		"grace":               {"", func(p *corev1.Pod) { n := int64(1); p.Spec.TerminationGracePeriodSeconds = &n }, []string{"spec: Forbidden: " + fixed}},
		"gate gone":           {"  schedulingGates: [{name: a.b/c}]", func(p *corev1.Pod) { p.Spec.SchedulingGates = nil }, nil},
		"gate added": {"  schedulingGates: [{name: a.b/c}]", func(p *corev1.Pod) {
			p.Spec.SchedulingGates = append(p.Spec.SchedulingGates, corev1.PodSchedulingGate{Name: "d"})
		}, []string{"spec.schedulingGates[1].name: Forbidden: only deletion is allowed, but found new scheduling gate 'd'"}},
		"selector while gated": {"  schedulingGates: [{name: a.b/c}]", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"a": "b"} }, nil},
		"selector widened": {"  schedulingGates: [{name: a.b/c}]\n  nodeSelector: {a: b}", func(p *corev1.Pod) { p.Spec.NodeSelector = nil }, []string{
			"spec.nodeSelector: Invalid value: null: only additions to spec.nodeSelector are allowed",
		}},
		"selector ungated": {"", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"a": "b"} }, []string{"spec: Forbidden: " + fixed}},
		"affinity while gated": {"  schedulingGates: [{name: a.b/c}]", func(p *corev1.Pod) {
			p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
				NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "a", Operator: "Exists"}}}},
			}}}
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			old := good(t, c.old)
			p := old.DeepCopy()
			c.change(p)
			wantErrors(t, validateUpdate(p, old), c.want...)
		})
	}
}

func TestGenerationAndStatusAreTheServers(t *testing.T) {
	t.Parallel()
	old := good(t, "")
	p := old.DeepCopy()
	p.Status.Phase, p.Generation = corev1.PodRunning, 77
	prepareUpdate(p, old)
	if p.Status.Phase != corev1.PodPending || p.Generation != 1 {
		t.Errorf("phase %s, generation %d", p.Status.Phase, p.Generation)
	}
	p.Spec.Containers[0].Image = "busybox:2"
	prepareUpdate(p, old)
	if p.Generation != 2 {
		t.Errorf("generation %d after a change of the spec", p.Generation)
	}
	s := old.DeepCopy()
	s.Spec.NodeName, s.Status.Phase, s.Status.PodIP, s.Labels = "n", corev1.PodRunning, "10.0.0.1", map[string]string{"a": "b"}
	s.Status.QOSClass = ""
	agree(&s.Status)
	prepareStatus(s, old)
	if s.Spec.NodeName != "" || s.Status.Phase != corev1.PodRunning || s.Status.PodIPs[0].IP != "10.0.0.1" || s.Status.QOSClass != corev1.PodQOSBestEffort {
		t.Errorf("%+v", s)
	}
}

func TestStatusUpdate(t *testing.T) {
	t.Parallel()
	old := good(t, "  restartPolicy: Never")
	old.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "a", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}}}
	p := old.DeepCopy()
	p.Status.ContainerStatuses[0].State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	p.Status.PodIP, p.Status.PodIPs = "10.0.0.1", []corev1.PodIP{{IP: "10.0.0.1"}, {IP: "10.0.0.2"}}
	p.Status.QOSClass = corev1.PodQOSGuaranteed
	wantErrors(t, validateStatusUpdate(p, old),
		"status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state",
		`status.qosClass: Invalid value: "Guaranteed": field is immutable`,
		`status.podIPs: Invalid value: [{"ip":"10.0.0.1"},{"ip":"10.0.0.2"}]: may specify no more than one IP for each IP family`)
	p.Spec.RestartPolicy = corev1.RestartPolicyAlways
	p.Status.PodIPs[1].IP, p.Status.QOSClass = "fd00::1", old.Status.QOSClass
	wantErrors(t, validateStatusUpdate(p, old))
}

func TestEphemeralContainers(t *testing.T) {
	t.Parallel()
	old := good(t, "")
	p := old.DeepCopy()
	p.Labels = map[string]string{"lost": "yes"}
	p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "d", Image: "busybox"}}}
	podspec.DefaultPod(&p.Spec)
	prepareEphemeral(p, old)
	if p.Labels != nil || len(p.Spec.EphemeralContainers) != 1 || p.Generation != 2 {
		t.Errorf("%+v", p)
	}
	wantErrors(t, validateEphemeralUpdate(p, old))
	bad := p.DeepCopy()
	bad.Spec.EphemeralContainers[0].Image = ""
	wantErrors(t, validateEphemeralUpdate(bad, old), "spec.ephemeralContainers[0].image: Required value")
	gone := p.DeepCopy()
	gone.Spec.EphemeralContainers = nil
	wantErrors(t, validateEphemeralUpdate(gone, p), `spec.ephemeralContainers: Forbidden: existing ephemeral containers "d" may not be removed`)
	changed := p.DeepCopy()
	changed.Spec.EphemeralContainers[0].Image = "x"
	wantErrors(t, validateEphemeralUpdate(changed, p), `spec.ephemeralContainers: Forbidden: existing ephemeral containers "d" may not be changed`)
}
