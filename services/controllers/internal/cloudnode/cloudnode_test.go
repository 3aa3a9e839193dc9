package cloudnode

import (
	"context"
	"slices"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/controller/controllertest"
)

type machines map[string]*Instance

func (m machines) Instance(_ context.Context, n *corev1.Node) (*Instance, error) {
	return m[n.Name], nil
}

func waiting(name string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "a", Effect: "NoSchedule"}, {Key: uninitialized, Value: "true", Effect: "NoSchedule"}}},
		Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name}}},
	}
}

// TestNodesAreCompleted completes the node whose machine is known, once, and leaves the other one waiting.
func TestNodesAreCompleted(t *testing.T) {
	t.Parallel()
	known := machines{"n1": {ProviderID: "test://1", Type: "small", Zone: "z", Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}}}}
	m := NewMetrics(prometheus.NewRegistry())
	c := controllertest.Start(t, clock.RealClock{}, nil, func(env *controller.Env) (controller.Unit, error) { return New(env, known, m), nil })
	controllertest.Create(c, object.Node, waiting("n2"))
	controllertest.Create(c, object.Node, waiting("n1"))
	list := controllertest.Await(c, object.Node, "a node without the taint", func(list []*corev1.Node) bool {
		return slices.ContainsFunc(list, func(n *corev1.Node) bool { return !waits(n) })
	})
	for _, n := range list {
		switch {
		case n.Name == "n2":
			if !waits(n) || n.Spec.ProviderID != "" {
				t.Errorf("the unknown one: %+v", n.Spec)
			}
		case n.Spec.ProviderID != "test://1" || len(n.Spec.Taints) != 1 || n.Labels[corev1.LabelInstanceTypeStable] != "small" || n.Labels[corev1.LabelTopologyZone] != "z" || len(n.Labels) != 4:
			t.Errorf("the known one: %+v, labels %v", n.Spec, n.Labels)
		case len(n.Status.Addresses) != 2 || n.Status.Addresses[1].Type != corev1.NodeHostName:
			t.Errorf("its addresses: %v", n.Status.Addresses)
		}
	}
	if e := <-c.Events.Events; e != "Normal Synced Node synced successfully" {
		t.Errorf("event %s", e)
	}
	for _, metric := range []prometheus.Histogram{m.synced, m.untainted} {
		var told dto.Metric
		if err := metric.Write(&told); err != nil || told.GetHistogram().GetSampleCount() != 1 {
			t.Errorf("%v: %v, %v", metric.Desc(), told.GetHistogram(), err)
		}
	}
}
