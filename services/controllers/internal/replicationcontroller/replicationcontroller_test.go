package replicationcontroller

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/controller/controllertest"
)

func start(t *testing.T, prepare func(*controllertest.Cluster)) *controllertest.Cluster {
	t.Helper()
	return controllertest.Start(t, clock.RealClock{}, prepare, func(env *controller.Env) (controller.Unit, error) { return New(env, nil), nil })
}

func newController(replicas int32) *corev1.ReplicationController {
	labels := map[string]string{"app": "web"}
	return &corev1.ReplicationController{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec: corev1.ReplicationControllerSpec{Replicas: ptr.To(replicas), Selector: labels, Template: &corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "x"}}},
		}},
	}
}

func replicas(n int32) func([]*corev1.ReplicationController) bool {
	return func(list []*corev1.ReplicationController) bool {
		return len(list) == 1 && list[0].Status.Replicas == n && list[0].Status.ObservedGeneration == list[0].Generation && len(list[0].Status.Conditions) == 0
	}
}

func TestPodsFollowTheReplicas(t *testing.T) {
	t.Parallel()
	c := start(t, nil)
	rc := controllertest.Create(c, object.ReplicationController, newController(5))
	controllertest.Await(c, object.ReplicationController, "5 replicas", replicas(5))
	for _, p := range controllertest.List(c, object.Pod) {
		ref := metav1.GetControllerOf(p)
		if ref == nil || ref.APIVersion != "v1" || ref.Kind != "ReplicationController" || ref.UID != rc.UID || !strings.HasPrefix(p.Name, "web-") {
			t.Errorf("pod %s is controlled by %v", p.Name, ref)
		}
	}
	rc = controllertest.List(c, object.ReplicationController)[0].DeepCopy()
	rc.Spec.Replicas = ptr.To[int32](2)
	if _, err := object.For(c.Client, object.ReplicationController).Update(t.Context(), rc); err != nil {
		t.Fatal(err)
	}
	controllertest.Await(c, object.ReplicationController, "2 replicas", replicas(2))
	controllertest.Await(c, object.Pod, "2 pods", func(p []*corev1.Pod) bool { return len(p) == 2 })
}

// A pod that no longer matches is let go and replaced; one that matches and has no controller is adopted.
func TestReleaseAndAdopt(t *testing.T) {
	t.Parallel()
	c := start(t, func(c *controllertest.Cluster) {
		controllertest.Create(c, object.Pod, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "orphan", Labels: map[string]string{"app": "web"}}})
	})
	controllertest.Create(c, object.ReplicationController, newController(1))
	owned := func(name string, wanted bool) func([]*corev1.Pod) bool {
		return func(pods []*corev1.Pod) bool {
			for _, p := range pods {
				if p.Name == name {
					return (metav1.GetControllerOf(p) != nil) == wanted
				}
			}
			return false
		}
	}
	controllertest.Await(c, object.Pod, "the adoption", owned("orphan", true))
	orphan := controllertest.List(c, object.Pod)[0].DeepCopy()
	orphan.Labels = map[string]string{"app": "other"}
	if _, err := object.For(c.Client, object.Pod).Update(t.Context(), orphan); err != nil {
		t.Fatal(err)
	}
	controllertest.Await(c, object.Pod, "the release", owned("orphan", false))
	controllertest.Await(c, object.Pod, "the replacement", func(p []*corev1.Pod) bool { return len(p) == 2 })
}

func TestFailureIsTold(t *testing.T) {
	t.Parallel()
	c := start(t, func(c *controllertest.Cluster) {
		c.API.Intercept = func(w objecttest.Write) error {
			if w.Verb == "create" && w.Resource == "pods" {
				return apierrors.NewForbidden(corev1.Resource("pods"), w.Name, errors.New("exceeded quota"))
			}
			return nil
		}
	})
	controllertest.Create(c, object.ReplicationController, newController(3))
	controllertest.Await(c, object.ReplicationController, "a failure", func(list []*corev1.ReplicationController) bool {
		conditions := list[0].Status.Conditions
		return len(conditions) == 1 && conditions[0].Type == corev1.ReplicationControllerReplicaFailure && conditions[0].Reason == "FailedCreate"
	})
	if e := <-c.Events.Events; !strings.HasPrefix(e, "Warning FailedCreate Error creating: pods ") {
		t.Errorf("event %q", e)
	}
}

// The two forms carry the same.
func TestFormsAgree(t *testing.T) {
	t.Parallel()
	rc := newController(3)
	rc.Status = corev1.ReplicationControllerStatus{
		Replicas: 3, ReadyReplicas: 2, AvailableReplicas: 1, FullyLabeledReplicas: 3, ObservedGeneration: 7,
		Conditions: []corev1.ReplicationControllerCondition{{Type: corev1.ReplicationControllerReplicaFailure, Status: "True", Reason: "r", Message: "m"}},
	}
	rs := asSet(rc)
	if *rs.Spec.Replicas != 3 || rs.Kind != "ReplicationController" || rs.Spec.Selector.MatchLabels["app"] != "web" || rs.Spec.Template.Labels["app"] != "web" {
		t.Errorf("as a set: %+v", rs)
	}
	if got := status(rs.Status); len(got.Conditions) != 1 || got.Conditions[0] != rc.Status.Conditions[0] || got.ReadyReplicas != 2 || got.ObservedGeneration != 7 {
		t.Errorf("status %+v", got)
	}
}
