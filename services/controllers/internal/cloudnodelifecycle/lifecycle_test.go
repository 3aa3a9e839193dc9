package cloudnodelifecycle

import (
	"context"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/controller/controllertest"
)

type machines struct {
	mu  sync.Mutex
	are map[string]Machine
}

func (m *machines) Machine(_ context.Context, n *corev1.Node) (Machine, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.are[n.Name], nil
}

func node(name string, status corev1.ConditionStatus, taints ...string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
	for _, key := range taints {
		n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
	}
	return n
}

func TestPlan(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		node    *corev1.Node
		machine Machine
		want    action
	}{
		"ready":                         {node("n", "True"), Running, nothing},
		"ready, though it is told gone": {node("n", "True"), Gone, nothing},
		"ready again":                   {node("n", "True", shutdown), Running, unmark},
		"not ready, and it runs":        {node("n", "Unknown"), Running, nothing},
		"not ready, and it runs again":  {node("n", "False", shutdown), Running, nothing},
		"stopped":                       {node("n", "Unknown"), Stopped, mark},
		"stopped, and marked":           {node("n", "Unknown", shutdown), Stopped, nothing},
		"gone":                          {node("n", "Unknown", shutdown), Gone, remove},
	} {
		if got := plan(c.node, c.machine); got != c.want {
			t.Errorf("%s: %d, want %d", what, got, c.want)
		}
	}
}

// TestMachinesStopAndGo marks a node whose machine stops, takes the mark away when it is ready again, and removes one whose machine is gone.
func TestMachinesStopAndGo(t *testing.T) {
	t.Parallel()
	m := &machines{are: map[string]Machine{"stops": Stopped, "goes": Gone}}
	c := controllertest.Start(t, clock.RealClock{}, nil, func(env *controller.Env) (controller.Unit, error) { return New(env, m), nil })
	for _, name := range []string{"runs", "stops", "goes"} {
		controllertest.Create(c, object.Node, node(name, "Unknown", "other"))
	}
	list := controllertest.Await(c, object.Node, "one node less, and one marked", func(list []*corev1.Node) bool {
		n := 0
		for _, node := range list {
			if marked(node) {
				n++
			}
		}
		return len(list) == 2 && n == 1
	})
	for _, n := range list {
		if marked(n) != (n.Name == "stops") {
			t.Errorf("%s: %v", n.Name, n.Spec.Taints)
		}
		if n.Name == "stops" {
			n.Status.Conditions[0].Status = corev1.ConditionTrue
			controllertest.UpdateStatus(c, object.Node, n)
		}
	}
	controllertest.Await(c, object.Node, "nobody marked", func(list []*corev1.Node) bool {
		for _, n := range list {
			if marked(n) || len(n.Spec.Taints) != 1 {
				return false
			}
		}
		return true
	})
}
