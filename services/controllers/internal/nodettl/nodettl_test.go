package nodettl

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/controller/controllertest"
)

func TestNext(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ at, nodes, seconds int }{
		{0, 0, 0}, {0, 100, 0}, {0, 101, 15}, {0, 700, 30}, {0, 5000, 300},
		{1, 90, 15}, {1, 89, 0}, {1, 500, 15}, {1, 501, 30},
		{2, 450, 30}, {2, 449, 15}, {3, 900, 60}, {4, 1800, 300}, {4, 1799, 60}, {4, 3, 0},
	} {
		if got := steps[Next(c.at, c.nodes)].seconds; got != c.seconds {
			t.Errorf("%d nodes at step %d: %d s, want %d", c.nodes, c.at, got, c.seconds)
		}
	}
}

// TestClusterGrowsAndShrinks annotates every node when the cluster comes to another size, and what people write over it.
func TestClusterGrowsAndShrinks(t *testing.T) {
	t.Parallel()
	c := controllertest.Start(t, clock.RealClock{}, nil, func(env *controller.Env) (controller.Unit, error) { return New(env), nil })
	name := func(i int) string { return fmt.Sprintf("n%d", i) }
	all := func(seconds string) func([]*corev1.Node) bool {
		return func(nodes []*corev1.Node) bool {
			for _, n := range nodes {
				if n.Annotations[corev1.ObjectTTLAnnotationKey] != seconds {
					return false
				}
			}
			return true
		}
	}
	for i := range 100 {
		controllertest.Create(c, object.Node, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name(i), Annotations: map[string]string{corev1.ObjectTTLAnnotationKey: "7"}}})
	}
	controllertest.Await(c, object.Node, "no delay", all("0"))
	controllertest.Create(c, object.Node, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name(100)}})
	controllertest.Await(c, object.Node, "15 s", all("15"))
	for i := range 12 {
		controllertest.Delete(c, object.Node, "", name(i), metav1.DeleteOptions{})
	}
	controllertest.Await(c, object.Node, "no delay again", all("0"))
}
