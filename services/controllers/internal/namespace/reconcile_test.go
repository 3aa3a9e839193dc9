package namespace

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
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

// TestAccessOutlastsWhatIsHeld deletes a namespace in which an object waits for its finalizer: who might remove it is let in for a
// while, and not for ever.
func TestAccessOutlastsWhatIsHeld(t *testing.T) {
	t.Parallel()
	clock := &shifted{}
	c := controllertest.Start(t, clock, func(c *controllertest.Cluster) {
		controllertest.Create(c, object.Namespace, &corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: "doomed"}, Spec: corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{corev1.FinalizerKubernetes}},
		})
		controllertest.Create(c, object.ConfigMap, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "doomed", Name: "held", Finalizers: []string{"example.com/hold"}}})
		controllertest.Create(c, object.Secret, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "doomed", Name: "free"}})
		controllertest.Create(c, object.ServiceAccount, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "doomed", Name: "operator"}})
	}, func(env *controller.Env) (controller.Unit, error) { return New(env), nil })

	controllertest.Delete(c, object.Namespace, "", "doomed", metav1.DeleteOptions{})
	controllertest.Await(c, object.Namespace, "conditions that tell of the finalizer", func(all []*corev1.Namespace) bool {
		return slices.ContainsFunc(all[0].Status.Conditions, func(c corev1.NamespaceCondition) bool {
			return c.Type == corev1.NamespaceContentRemaining && c.Message == "Some resources are remaining: configmaps. has 1 resource instances"
		})
	})
	if len(controllertest.List(c, object.Secret)) != 0 {
		t.Error("what nothing holds is there yet")
	}
	if len(controllertest.List(c, object.ServiceAccount)) != 1 {
		t.Error("who may have to remove the finalizer is not let in any more")
	}
	clock.by.Store(int64(accessOutlasts))
	controllertest.Gone(c, object.ServiceAccount)
	held := controllertest.List(c, object.ConfigMap)[0].DeepCopy()
	held.Finalizers = nil
	if _, err := object.For(c.Client, object.ConfigMap).Update(t.Context(), held); err != nil {
		t.Fatal(err)
	}
	controllertest.Gone(c, object.Namespace)
}

// shifted is a clock that can be put forward.
type shifted struct {
	clock.RealClock
	by atomic.Int64
}

func (s *shifted) Now() time.Time { return s.RealClock.Now().Add(time.Duration(s.by.Load())) }

// TestNamesakeKeepsItsContent has a cache that still shows a namespace which has ended, while another of its name is there.
func TestNamesakeKeepsItsContent(t *testing.T) {
	t.Parallel()
	client := objecttest.New().Serve(t)
	cluster := &controllertest.Cluster{T: t, Client: client}
	resource := object.For(client, object.Namespace)
	made := func() *corev1.Namespace {
		return controllertest.Create(cluster, object.Namespace, &corev1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: "again"}, Spec: corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{corev1.FinalizerKubernetes}},
		})
	}
	ending := made()
	ending.Status.Phase = corev1.NamespaceTerminating
	controllertest.UpdateStatus(cluster, object.Namespace, ending)
	controllertest.Delete(cluster, object.Namespace, "", "again", metav1.DeleteOptions{})

	informers := object.NewInformers(client)
	c := &namespaces{client: client, namespaces: object.InformerFor(informers, object.Namespace), clock: clock.RealClock{}}
	controllertest.Freeze(t, informers)

	ending, err := resource.Get(t.Context(), "", "again")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := resource.UpdateSubresource(t.Context(), "finalize", finalized(ending)); err != nil {
		t.Fatal(err)
	}
	for _, when := range []string{"nobody", "a namesake"} {
		if when == "a namesake" {
			made()
			controllertest.Create(cluster, object.ConfigMap, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "again", Name: "m"}})
		}
		if cached, ok := c.namespaces.Get("", "again"); !ok || cached.UID != ending.UID {
			t.Fatalf("the cache shows %v", cached)
		}
		if after, err := c.reconcile(t.Context(), "again"); after != 0 || err != nil {
			t.Errorf("%s is there: again after %s, %v", when, after, err)
		}
	}
	if len(controllertest.List(cluster, object.ConfigMap)) != 1 {
		t.Error("what the namesake holds has gone")
	}
}

func TestConditionsSayWhatWentWrong(t *testing.T) {
	t.Parallel()
	bad := Conditions(nil, Remains{Discovery: errors.Join(errText("group gone"), errText("another")), Failures: []error{errText("b"), errText("a")}}, metav1.Now())
	texts := ""
	for _, c := range bad {
		texts += string(c.Type) + "=" + string(c.Status) + ":" + c.Reason + ":" + c.Message + "\n"
	}
	for _, want := range []string{
		"NamespaceDeletionDiscoveryFailure=True:DiscoveryFailed:Discovery failed for some groups, 2 failing: group gone\nanother",
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

// TestNamespaceEndsWithWhatExtensionsKeep deletes a namespace with objects of an extension API server, which is broken first: the
// namespace stays and says why, and goes when the server has let go of all.
func TestNamespaceEndsWithWhatExtensionsKeep(t *testing.T) {
	t.Parallel()
	for name, without := range map[string]bool{"as a collection": false, "one by one": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var broken atomic.Bool
			broken.Store(true)
			e := objecttest.NewExtension()
			e.WithoutCollections = without
			e.Fault = func(w http.ResponseWriter, _ *http.Request) bool {
				if broken.Load() {
					http.Error(w, "out of order", http.StatusInternalServerError)
				}
				return broken.Load()
			}
			e.Put("widgets", metav1.ObjectMeta{Namespace: "doomed", Name: "a"})
			e.Put("widgets", metav1.ObjectMeta{Namespace: "doomed", Name: "held", Finalizers: []string{"example.com/hold"}})
			e.Put("widgets", metav1.ObjectMeta{Namespace: "other", Name: "b"})
			e.Put("racks", metav1.ObjectMeta{Name: "r"})
			c := controllertest.Start(t, clock.RealClock{}, func(c *controllertest.Cluster) {
				c.API.Extend(e)
				controllertest.Create(c, object.Namespace, &corev1.Namespace{
					ObjectMeta: metav1.ObjectMeta{Name: "doomed"}, Spec: corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{corev1.FinalizerKubernetes}},
				})
				controllertest.Create(c, object.ConfigMap, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "doomed", Name: "m"}})
			}, func(env *controller.Env) (controller.Unit, error) { return New(env), nil })
			controllertest.Delete(c, object.Namespace, "", "doomed", metav1.DeleteOptions{})
			says := func(kind corev1.NamespaceConditionType, text string) {
				t.Helper()
				controllertest.Await(c, object.Namespace, text, func(all []*corev1.Namespace) bool {
					return len(all) == 1 && slices.ContainsFunc(all[0].Status.Conditions, func(c corev1.NamespaceCondition) bool {
						return c.Type == kind && c.Status == corev1.ConditionTrue && strings.Contains(c.Message, text)
					})
				})
			}
			says(corev1.NamespaceDeletionContentFailure, "out of order")
			if maps := controllertest.List(c, object.ConfigMap); len(maps) > 0 {
				t.Error("what this API has did not go")
			}
			broken.Store(false)
			says(corev1.NamespaceContentRemaining, "widgets.extension.example.com has 1 resource instances")
			says(corev1.NamespaceFinalizersRemaining, "example.com/hold in 1 resource instances")
			e.Release("widgets", "doomed", "held")
			controllertest.Gone(c, object.Namespace)
			if left := e.Names("widgets"); !slices.Equal(left, []string{"b"}) || len(e.Names("racks")) != 1 {
				t.Errorf("left: %v %v", left, e.Names("racks"))
			}
		})
	}
}
