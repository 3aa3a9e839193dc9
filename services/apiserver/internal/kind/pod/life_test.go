package pod

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestGracePeriod(t *testing.T) {
	t.Parallel()
	seconds := func(n int64) *int64 { return &n }
	for name, c := range map[string]struct {
		node    string
		phase   corev1.PodPhase
		spec    *int64
		options *metav1.DeleteOptions
		want    int64
	}{
		"of the spec":    {"n", corev1.PodRunning, seconds(30), nil, 30},
		"of the request": {"n", corev1.PodRunning, seconds(30), &metav1.DeleteOptions{GracePeriodSeconds: seconds(5)}, 5},
		"at once":        {"n", corev1.PodRunning, seconds(30), &metav1.DeleteOptions{GracePeriodSeconds: seconds(0)}, 0},
		"no node":        {"", corev1.PodPending, seconds(30), nil, 0},
		"succeeded":      {"n", corev1.PodSucceeded, seconds(30), nil, 0},
		"failed":         {"n", corev1.PodFailed, seconds(30), &metav1.DeleteOptions{GracePeriodSeconds: seconds(9)}, 0},
		"negative":       {"n", corev1.PodRunning, seconds(-7), &metav1.DeleteOptions{}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &corev1.Pod{Spec: corev1.PodSpec{NodeName: c.node, TerminationGracePeriodSeconds: c.spec}, Status: corev1.PodStatus{Phase: c.phase}}
			if got := gracePeriod(p, c.options); got != c.want {
				t.Errorf("got %d, want %d", got, c.want)
			}
		})
	}
}

func TestBind(t *testing.T) {
	t.Parallel()
	to := func(node string) *corev1.Binding {
		return &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Target: corev1.ObjectReference{Kind: "Node", Name: node}}
	}
	p := good(t, "")
	b := to("node1")
	b.Annotations = map[string]string{"a": "b"}
	if err := bind(p, b, clock); err != nil {
		t.Fatal(err)
	}
	c := p.Status.Conditions[0]
	if p.Spec.NodeName != "node1" || p.Annotations["a"] != "b" || p.Generation != 2 || c.Type != corev1.PodScheduled || c.Status != corev1.ConditionTrue || !c.LastTransitionTime.Time.Equal(clock) {
		t.Errorf("%+v", p)
	}
	for name, c := range map[string]struct {
		pod  func(*corev1.Pod)
		node string
		is   func(error) bool
		text string
	}{
		"twice":   {func(p *corev1.Pod) { p.Spec.NodeName = "n" }, "m", apierrors.IsConflict, `Operation cannot be fulfilled on pods/binding "p": pod p is already assigned to node "n"`},
		"deleted": {func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: clock} }, "m", apierrors.IsConflict, `Operation cannot be fulfilled on pods/binding "p": pod p is being deleted, cannot be assigned to a host`},
		"gated":   {func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}} }, "m", apierrors.IsConflict, `Operation cannot be fulfilled on pods/binding "p": pod p has non-empty .spec.schedulingGates`},
		"nowhere": {func(*corev1.Pod) {}, "", apierrors.IsInvalid, `Binding "p" is invalid: target.name: Required value`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := good(t, "")
			c.pod(p)
			err := bind(p, to(c.node), clock)
			if !c.is(err) || err.Error() != c.text {
				t.Errorf("got %v, want %s", err, c.text)
			}
		})
	}
}

func TestResize(t *testing.T) {
	t.Parallel()
	old := good(t, "")
	old.Spec.Containers[0].Resources = corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")},
	}
	old.Status.QOSClass = corev1.PodQOSBurstable
	p := old.DeepCopy()
	p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("200m")
	prepareResize(p, old)
	wantErrors(t, validateResize(p, old))
	if p.Generation != 2 {
		t.Errorf("generation %d", p.Generation)
	}
	other := p.DeepCopy()
	other.Spec.Containers[0].Image = "x"
	wantErrors(t, validateResize(other, old), "spec: Forbidden: only cpu and memory resources are mutable")
	gone := p.DeepCopy()
	gone.Spec.Containers[0].Resources.Requests = nil
	wantErrors(t, validateResize(gone, old),
		`spec: Invalid value: "Burstable": Pod QOS Class may not change as a result of resizing`,
		"spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed")
}
