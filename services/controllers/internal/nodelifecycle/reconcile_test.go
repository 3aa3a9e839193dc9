package nodelifecycle

import (
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"howdah.dev/kit/object"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/controller/controllertest"
)

// TestSilentNode: a node that stops renewing its lease becomes Unknown after
// the grace, is tainted, and its pods are not ready; when it speaks again
// the taints go. The other node, which renews, is left alone.
func TestSilentNode(t *testing.T) {
	t.Parallel()
	clock, metrics := testclock.NewFakeClock(now), NewMetrics(prometheus.NewRegistry())
	lease := func(name string) *coordinationv1.Lease {
		return &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: name},
			Spec:       coordinationv1.LeaseSpec{RenewTime: ptr.To(metav1.NewMicroTime(clock.Now()))},
		}
	}
	c := controllertest.Start(t, clock, func(c *controllertest.Cluster) {
		for _, name := range []string{"dies", "lives"} {
			n := newNode(name, "")
			n.Labels[corev1.LabelOSStable] = "linux"
			n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}}
			n.Status = corev1.NodeStatus{Conditions: []corev1.NodeCondition{ready(corev1.ConditionTrue)}}
			controllertest.Create(c, object.Node, n)
			controllertest.Create(c, object.Lease, lease(name))
			controllertest.Create(c, object.Pod, &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "on-" + name}, Spec: corev1.PodSpec{NodeName: name},
				Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
			})
		}
	}, func(env *controller.Env) (controller.Unit, error) {
		return New(env, Config{
			Period: 5 * time.Second, Grace: 40 * time.Second, Startup: time.Minute,
			Rates: Rates{Normal: 0.1, Secondary: 0.01, Unhealthy: 0.55, Large: 50},
		}, metrics), nil
	})
	byName := func(nodes []*corev1.Node, name string) *corev1.Node {
		for _, n := range nodes {
			if n.Name == name {
				return n
			}
		}
		t.Fatalf("no node %s", name)
		return nil
	}
	controllertest.Await(c, object.Node, "ready nodes without their first taint", func(nodes []*corev1.Node) bool {
		return len(byName(nodes, "dies").Spec.Taints) == 0 && len(byName(nodes, "lives").Spec.Taints) == 0
	})
	controllertest.Await(c, object.Node, "nodes with the former label", func(nodes []*corev1.Node) bool {
		return byName(nodes, "dies").Labels["beta.kubernetes.io/os"] == "linux" && byName(nodes, "lives").Labels["beta.kubernetes.io/os"] == "linux"
	})

	// Time passes; one node renews, and later the other one again, too.
	var revived atomic.Bool
	renew := func(name string) {
		live, err := object.For(c.Client, object.Lease).Get(t.Context(), corev1.NamespaceNodeLease, name)
		if err == nil {
			live.Spec.RenewTime = ptr.To(metav1.NewMicroTime(clock.Now()))
			_, _ = object.For(c.Client, object.Lease).Update(t.Context(), live)
		}
	}
	c.Go(tick(clock, func() {
		renew("lives")
		if revived.Load() {
			renew("dies")
		}
	}))
	nodes := controllertest.Await(c, object.Node, "an unreachable node", func(nodes []*corev1.Node) bool {
		return len(byName(nodes, "dies").Spec.Taints) == 2
	})
	dead := byName(nodes, "dies")
	if r := condition(dead, corev1.NodeReady); r.Status != corev1.ConditionUnknown || r.Reason != "NodeStatusUnknown" {
		t.Errorf("Ready: %+v", r)
	}
	effects := map[corev1.TaintEffect]string{}
	for _, taint := range dead.Spec.Taints {
		effects[taint.Effect] = taint.Key
	}
	if effects[corev1.TaintEffectNoExecute] != corev1.TaintNodeUnreachable || effects[corev1.TaintEffectNoSchedule] != corev1.TaintNodeUnreachable {
		t.Errorf("taints %v", dead.Spec.Taints)
	}
	if other := byName(nodes, "lives"); readiness(other) != corev1.ConditionTrue || len(other.Spec.Taints) > 0 {
		t.Errorf("the living node is %s, tainted %v", readiness(other), other.Spec.Taints)
	}
	controllertest.Await(c, object.Pod, "a pod that is not ready", func(pods []*corev1.Pod) bool {
		for _, p := range pods {
			want := corev1.ConditionTrue
			if p.Name == "on-dies" {
				want = corev1.ConditionFalse
			}
			if p.Status.Conditions[0].Status != want {
				return false
			}
		}
		return true
	})

	revived.Store(true)
	back, err := object.For(c.Client, object.Node).Get(t.Context(), "", "dies")
	if err != nil {
		t.Fatal(err)
	}
	for i := range back.Status.Conditions {
		back.Status.Conditions[i].LastHeartbeatTime = metav1.NewTime(clock.Now())
		back.Status.Conditions[i].Status = corev1.ConditionFalse
	}
	condition(back, corev1.NodeReady).Status = corev1.ConditionTrue
	controllertest.UpdateStatus(c, object.Node, back)
	controllertest.Await(c, object.Node, "no taints", func(nodes []*corev1.Node) bool { return len(byName(nodes, "dies").Spec.Taints) == 0 })
	if n := testutil.ToFloat64(metrics.evictions.WithLabelValues("")); n != 1 { // counted before the reconcile that took them away
		t.Errorf("%v evictions are counted, want 1", n)
	}
}

// TestNotReadyNodeKeepsItsPods: the agent of a node that says that it is not ready says itself which of its pods are.
func TestNotReadyNodeKeepsItsPods(t *testing.T) {
	t.Parallel()
	c := controllertest.Start(t, testclock.NewFakeClock(now), func(c *controllertest.Cluster) {
		n := newNode("n", "", ready(corev1.ConditionTrue))
		controllertest.Create(c, object.Node, n)
		controllertest.Create(c, object.Pod, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}, Spec: corev1.PodSpec{NodeName: "n"},
			Status: corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
		})
	}, func(env *controller.Env) (controller.Unit, error) {
		return New(env, Config{Period: time.Hour, Grace: time.Hour, Startup: time.Hour, Rates: Rates{Normal: 1, Secondary: 1, Unhealthy: 0.55, Large: 50}}, nil), nil
	})
	say := func(status corev1.ConditionStatus, what string, taints int) {
		n := controllertest.List(c, object.Node)[0].DeepCopy()
		n.Status.Conditions = []corev1.NodeCondition{ready(status)}
		controllertest.UpdateStatus(c, object.Node, n)
		controllertest.Await(c, object.Node, what, func(nodes []*corev1.Node) bool { return min(1, len(nodes[0].Spec.Taints)) == taints })
	}
	say(corev1.ConditionFalse, "a tainted node", 1)
	say(corev1.ConditionTrue, "no taints", 0) // by the reconcile after the one that saw it not ready
	if p := controllertest.List(c, object.Pod)[0]; p.Status.Conditions[0].Status != corev1.ConditionTrue {
		t.Error("the pod is not ready")
	}
	for {
		select {
		case e := <-c.Events.Events:
			if strings.Contains(e, "NodeNotReady") {
				t.Errorf("told of: %s", e)
			}
			continue
		default:
		}
		break
	}
}

// TestAllNodesSilent: where no node is heard any longer, the fault is likely here. None is emptied, and none goes on being emptied that was.
func TestAllNodesSilent(t *testing.T) {
	t.Parallel()
	for name, taints := range map[string][]corev1.Taint{
		"silent together":   nil,
		"silent one by one": {{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := testclock.NewFakeClock(now)
			c := controllertest.Start(t, clock, func(c *controllertest.Cluster) {
				for _, zone := range []string{"a", "b"} {
					n := newNode("in-"+zone, zone, ready(corev1.ConditionTrue))
					n.Labels[corev1.LabelOSStable] = "linux"
					if taints != nil && zone == "a" {
						n.Spec.Taints, n.Status.Conditions = taints, []corev1.NodeCondition{ready(corev1.ConditionUnknown)}
					}
					controllertest.Create(c, object.Node, n)
				}
			}, func(env *controller.Env) (controller.Unit, error) {
				return New(env, Config{Period: 5 * time.Second, Grace: 40 * time.Second, Startup: time.Minute, Rates: Rates{Normal: 0.1, Unhealthy: 0.55, Large: 50}}, nil), nil
			})
			controllertest.Await(c, object.Node, "the nodes to be known, before time passes", func(nodes []*corev1.Node) bool {
				return !slices.ContainsFunc(nodes, func(n *corev1.Node) bool { return n.Labels["beta.kubernetes.io/os"] == "" })
			})
			evicting := func(nodes []*corev1.Node) bool {
				return slices.ContainsFunc(nodes, func(n *corev1.Node) bool { return slices.ContainsFunc(n.Spec.Taints, evictingTaint) })
			}
			c.Go(tick(clock, func() {
				if taints == nil && evicting(controllertest.List(c, object.Node)) {
					t.Error("a node is emptied")
				}
			}))
			controllertest.Await(c, object.Node, "nodes that are unreachable and not emptied", func(nodes []*corev1.Node) bool {
				unknown := func(n *corev1.Node) bool { return readiness(n) == corev1.ConditionUnknown && len(n.Spec.Taints) > 0 }
				return unknown(nodes[0]) && unknown(nodes[1]) && !evicting(nodes)
			})
		})
	}
}
