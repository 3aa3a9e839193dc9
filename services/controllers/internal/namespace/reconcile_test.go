package namespace

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/controller/controllertest"
)

func TestNamespaceEndsWithItsContent(t *testing.T) {
	t.Parallel()
	c := controllertest.Start(t, clock.RealClock{}, func(c *controllertest.Cluster) {
		for _, ns := range []string{"doomed", "other"} {
			controllertest.Create(c, object.Namespace, &corev1.Namespace{
				ObjectMeta: metav1.ObjectMeta{Name: ns}, Spec: corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{corev1.FinalizerKubernetes}},
			})
			controllertest.Create(c, object.ConfigMap, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "m"}})
			controllertest.Create(c, object.Deployment, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "d"}})
		}
		controllertest.Create(c, object.Pod, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "doomed", Name: "held", Finalizers: []string{"example.com/hold"}}})
	}, func(env *controller.Env) (controller.Unit, error) { return New(env), nil })

	controllertest.Delete(c, object.Namespace, "", "doomed", metav1.DeleteOptions{})
	controllertest.Await(c, object.Namespace, "conditions that tell what is left", func(all []*corev1.Namespace) bool {
		for _, ns := range all {
			texts := map[corev1.NamespaceConditionType]string{}
			for _, condition := range ns.Status.Conditions {
				if condition.Status == corev1.ConditionTrue {
					texts[condition.Type] = condition.Message
				}
			}
			if ns.Name == "doomed" && texts[corev1.NamespaceContentRemaining] == "Some resources are remaining: pods. has 1 resource instances" &&
				texts[corev1.NamespaceFinalizersRemaining] == "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances" {
				return true
			}
		}
		return false
	})
	if maps := controllertest.List(c, object.ConfigMap); len(maps) != 2 {
		t.Fatalf("%d config maps: content that pods may use went before the pods", len(maps))
	}
	held := controllertest.List(c, object.Pod)[0].DeepCopy()
	held.Finalizers = nil
	if _, err := object.For(c.Client, object.Pod).Update(t.Context(), held); err != nil {
		t.Fatal(err)
	}
	left := controllertest.Await(c, object.Namespace, "the end of the namespace", func(all []*corev1.Namespace) bool { return len(all) == 1 })
	if left[0].Name != "other" {
		t.Errorf("%s is left", left[0].Name)
	}
	for _, m := range controllertest.List(c, object.ConfigMap) {
		if m.Namespace != "other" {
			t.Errorf("config map %s/%s is left", m.Namespace, m.Name)
		}
	}
	if ds := controllertest.List(c, object.Deployment); len(ds) != 1 {
		t.Errorf("%d deployments, want that of the other namespace", len(ds))
	}
}

func TestConditionsSayWhatWentWrong(t *testing.T) {
	t.Parallel()
	bad := Conditions(nil, Remains{Discovery: errText("group gone"), Failures: []error{errText("b"), errText("a")}}, metav1.Now())
	texts := ""
	for _, c := range bad {
		texts += string(c.Type) + "=" + string(c.Status) + ":" + c.Reason + ":" + c.Message + "\n"
	}
	for _, want := range []string{
		"NamespaceDeletionDiscoveryFailure=True:DiscoveryFailed:Discovery failed for some groups, 1 failing: group gone",
		"NamespaceDeletionContentFailure=True:ContentDeletionFailed:Failed to delete all resource types, 2 remaining: a, b",
		"NamespaceContentRemaining=False:ContentRemoved:All content successfully removed",
	} {
		if !strings.Contains(texts, want+"\n") {
			t.Errorf("no %q in\n%s", want, texts)
		}
	}
	good := Conditions(bad, Remains{}, metav1.Now())
	for _, c := range good {
		if c.Status != corev1.ConditionFalse {
			t.Errorf("%s is %s after a clean pass", c.Type, c.Status)
		}
	}
	if len(good) != 5 {
		t.Errorf("%d conditions, want 5", len(good))
	}
}

type errText string

func (e errText) Error() string { return string(e) }
