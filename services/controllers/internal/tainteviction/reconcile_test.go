package tainteviction

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/controller/controllertest"
	"howdah.dev/services/controllers/internal/pod"
)

// TestPodThatGoesAlready: whoever judges its end has to know that its node would have ended it, too.
func TestPodThatGoesAlready(t *testing.T) {
	t.Parallel()
	c := controllertest.Start(t, clock.RealClock{}, func(c *controllertest.Cluster) {
		controllertest.Create(c, object.Node, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoExecute}}}})
		controllertest.Create(c, object.Pod, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "p", Finalizers: []string{"example.com/held"}}, Spec: corev1.PodSpec{NodeName: "n"}})
		controllertest.Delete(c, object.Pod, "a", "p", metav1.DeleteOptions{})
	}, func(env *controller.Env) (controller.Unit, error) { return New(env, nil), nil })
	controllertest.Await(c, object.Pod, "a pod that is told", func(pods []*corev1.Pod) bool { return len(pods) == 1 && pod.Disrupted(pods[0]) })
}
