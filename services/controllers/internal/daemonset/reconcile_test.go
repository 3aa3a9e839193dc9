package daemonset

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/controller/controllertest"
	"howdah.dev/services/controllers/internal/revision"
)

// start runs the controller in a cluster of n nodes.
func start(t *testing.T, n int, prepare ...func(*controllertest.Cluster)) *controllertest.Cluster {
	t.Helper()
	return controllertest.Start(t, clock.RealClock{}, func(c *controllertest.Cluster) {
		for _, node := range nodes(n) {
			controllertest.Create(c, object.Node, node)
		}
		for _, p := range prepare {
			p(c)
		}
	}, func(env *controller.Env) (controller.Unit, error) { return New(env, nil), nil })
}

// freshSet is a set as a client sends it.
func freshSet(change ...func(*appsv1.DaemonSet)) *appsv1.DaemonSet {
	ds := newSet(change...)
	ds.UID = ""
	return ds
}

// edit changes an object until nobody else does so at the same time.
func edit[T object.Object](c *controllertest.Cluster, kind object.Kind[T], namespace, name string, change func(T)) {
	c.Helper()
	for {
		o, err := object.For(c.Client, kind).Get(c.Context(), namespace, name)
		if err != nil {
			c.Fatal(err)
		}
		change(o)
		if _, err = object.For(c.Client, kind).Update(c.Context(), o); err == nil {
			return
		}
		if !apierrors.IsConflict(err) {
			c.Fatal(err)
		}
	}
}

// end lets pods go that were deleted.
func end(c *controllertest.Cluster, pods []*corev1.Pod) {
	c.Helper()
	for _, p := range pods {
		if p.DeletionTimestamp != nil {
			controllertest.Delete(c, object.Pod, p.Namespace, p.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
		}
	}
}

// run binds pods to their nodes and makes them ready.
func run(c *controllertest.Cluster, pods []*corev1.Pod) {
	c.Helper()
	for _, p := range pods {
		if p.DeletionTimestamp != nil || p.Spec.NodeName != "" {
			continue
		}
		edit(c, object.Pod, p.Namespace, p.Name, func(o *corev1.Pod) { o.Spec.NodeName = target(o) })
		setStatus(c, p, newPod("", "").Status)
	}
}

func setStatus(c *controllertest.Cluster, p *corev1.Pod, s corev1.PodStatus) {
	c.Helper()
	o, err := object.For(c.Client, object.Pod).Get(c.Context(), p.Namespace, p.Name)
	if err != nil {
		c.Fatal(err)
	}
	o.Status = s
	controllertest.UpdateStatus(c, object.Pod, o)
}

// perNode awaits exactly one pod for each of n nodes; meanwhile it runs and ends pods as kubelets do.
func perNode(c *controllertest.Cluster, what string, n int, ok func(*corev1.Pod) bool) []*corev1.Pod {
	c.Helper()
	return controllertest.Await(c, object.Pod, what, func(pods []*corev1.Pod) bool {
		run(c, pods)
		end(c, pods)
		seen := map[string]bool{}
		for _, p := range pods {
			if p.DeletionTimestamp != nil || !ok(p) {
				return false
			}
			seen[target(p)] = true
		}
		return len(pods) == n && len(seen) == n
	})
}

func everyPod(*corev1.Pod) bool { return true }

func image(name string) func(*corev1.Pod) bool {
	return func(p *corev1.Pod) bool { return p.Spec.Containers[0].Image == name }
}

func setImage(c *controllertest.Cluster, name string) {
	c.Helper()
	edit(c, object.DaemonSet, "default", "agent", func(ds *appsv1.DaemonSet) {
		ds.Spec.Template.Spec.Containers[0].Image = name
		n, _ := strconv.Atoi(generation(ds)) // the real API counts
		ds.Annotations[appsv1.DeprecatedTemplateGeneration] = strconv.Itoa(n + 1)
	})
}

// rolledOut awaits that the set tells of n nodes with updated, available pods.
func rolledOut(c *controllertest.Cluster, n int32) *appsv1.DaemonSet {
	c.Helper()
	return controllertest.Await(c, object.DaemonSet, "a complete roll-out", func(sets []*appsv1.DaemonSet) bool {
		s := sets[0].Status
		return s.ObservedGeneration == sets[0].Generation && s.DesiredNumberScheduled == n && s.UpdatedNumberScheduled == n && s.NumberAvailable == n
	})[0]
}

func revisions(c *controllertest.Cluster, what string, numbers ...int64) []*appsv1.ControllerRevision {
	c.Helper()
	return controllertest.Await(c, object.ControllerRevision, what, func(list []*appsv1.ControllerRevision) bool {
		revision.Sort(list)
		if len(list) != len(numbers) {
			return false
		}
		for i, n := range numbers {
			if list[i].Revision != n {
				return false
			}
		}
		return true
	})
}

func TestAPodOnEveryNode(t *testing.T) {
	t.Parallel()
	c := start(t, 3)
	ds := controllertest.Create(c, object.DaemonSet, freshSet())
	pods := perNode(c, "3 pods", 3, everyPod)
	for _, p := range pods {
		if !metav1.IsControlledBy(p, ds) || p.GenerateName != "agent-" || p.Labels[hashLabel] == "" || p.Labels[generationLabel] != "2" {
			t.Errorf("pod %+v", p.ObjectMeta)
		}
	}
	rolledOut(c, 3)
	if r := revisions(c, "one revision", 1)[0]; r.Labels[hashLabel] != pods[0].Labels[hashLabel] || !metav1.IsControlledBy(r, ds) {
		t.Errorf("revision %+v", r.ObjectMeta)
	}

	controllertest.Delete(c, object.Pod, "default", pods[0].Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
	perNode(c, "a pod in place of the deleted one", 3, func(p *corev1.Pod) bool { return p.Name != pods[0].Name })
}

func TestNodesComeAndGo(t *testing.T) {
	t.Parallel()
	c := start(t, 2)
	controllertest.Create(c, object.DaemonSet, freshSet(func(ds *appsv1.DaemonSet) {
		ds.Spec.Template.Spec.NodeSelector = map[string]string{"color": "blue"}
	}))
	desired := func(n, misscheduled int32) {
		t.Helper()
		controllertest.Await(c, object.DaemonSet, fmt.Sprintf("%d desired, %d misscheduled pods", n, misscheduled), func(sets []*appsv1.DaemonSet) bool {
			s := sets[0].Status
			return s.ObservedGeneration == sets[0].Generation && s.DesiredNumberScheduled == n && s.NumberMisscheduled == misscheduled
		})
	}
	desired(0, 0)
	paint := func(color string) {
		t.Helper()
		edit(c, object.Node, "", "n1", func(n *corev1.Node) { n.Labels["color"] = color })
	}
	paint("blue")
	perNode(c, "a pod on the blue node", 1, func(p *corev1.Pod) bool { return target(p) == "n1" })
	paint("green")
	controllertest.Await(c, object.Pod, "the pod's end", func(pods []*corev1.Pod) bool { return len(pods) == 0 || pods[0].DeletionTimestamp != nil })
	desired(0, 1) // until the node has ended it

	blue := newNode("n2")
	blue.Labels = map[string]string{"color": "blue"}
	controllertest.Create(c, object.Node, blue)
	controllertest.Await(c, object.Pod, "a pod on the new node", func(pods []*corev1.Pod) bool {
		run(c, pods)
		for _, p := range pods {
			if target(p) == "n2" && p.Spec.NodeName == "n2" {
				return true
			}
		}
		return false
	})
	desired(1, 1)
	edit(c, object.Node, "", "n2", func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{taint("x", corev1.TaintEffectNoSchedule)} })
	desired(0, 2)
	edit(c, object.Node, "", "n2", func(n *corev1.Node) { n.Spec.Taints = nil })
	desired(1, 1)
	controllertest.Delete(c, object.Node, "", "n2", metav1.DeleteOptions{})
	desired(0, 1)
}

func TestNodeReportsWakeNobody(t *testing.T) {
	t.Parallel()
	fit := NewFit(newSet())
	n := newNode("n")
	reported := n.DeepCopy()
	reported.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady}}
	labelled := n.DeepCopy()
	labelled.Labels["more"] = ""
	replaced := n.DeepCopy()
	replaced.UID = "another"
	tainted := newNode("n", taint("x", corev1.TaintEffectNoExecute))
	if !alike(n, reported) || alike(n, labelled) || alike(n, tainted) {
		t.Error("nodes that are alike are told apart, or others are not")
	}
	for name, tt := range map[string]struct {
		old, new *corev1.Node
		want     bool
	}{
		"new": {nil, n, true}, "new, not wanted": {nil, tainted, false}, "gone": {n, nil, true}, "gone, not wanted": {tainted, nil, false},
		"another label": {n, labelled, false}, "a taint": {n, tainted, true}, "no taint": {tainted, n, true}, "replaced": {n, replaced, true},
	} {
		if got := differs(fit, tt.old, tt.new); got != tt.want {
			t.Errorf("%s: %t, want %t", name, got, tt.want)
		}
	}
}

func TestRollOutAndBack(t *testing.T) {
	t.Parallel()
	c := start(t, 3)
	controllertest.Create(c, object.DaemonSet, freshSet())
	perNode(c, "3 pods", 3, everyPod)
	rolledOut(c, 3)

	setImage(c, "agent:2")
	perNode(c, "3 new pods", 3, image("agent:2"))
	rolledOut(c, 3)
	two := revisions(c, "two revisions", 1, 2)

	setImage(c, "agent:1")
	pods := perNode(c, "3 old pods", 3, image("agent:1"))
	three := revisions(c, "the first revision as the third", 2, 3)
	if three[1].Name != two[0].Name || pods[0].Labels[hashLabel] != three[1].Labels[hashLabel] {
		t.Errorf("revisions %s and %s, pods %v", two[0].Name, three[1].Name, pods[0].Labels)
	}
}

func TestSurge(t *testing.T) {
	t.Parallel()
	c := start(t, 2)
	controllertest.Create(c, object.DaemonSet, freshSet(rolling("0", "1")))
	perNode(c, "2 pods", 2, everyPod)
	rolledOut(c, 2)
	setImage(c, "agent:2")
	controllertest.Await(c, object.Pod, "a second pod on one node", func(pods []*corev1.Pod) bool { return len(pods) == 3 })
	perNode(c, "2 new pods", 2, image("agent:2"))
	rolledOut(c, 2)
}

func TestFailedPodIsReplaced(t *testing.T) {
	t.Parallel()
	c := start(t, 1)
	controllertest.Create(c, object.DaemonSet, freshSet())
	for range 2 { // the second time after a second
		p := perNode(c, "a pod", 1, func(p *corev1.Pod) bool { return p.Status.Phase != corev1.PodFailed })[0]
		setStatus(c, p, corev1.PodStatus{Phase: corev1.PodFailed})
		perNode(c, "another pod", 1, func(o *corev1.Pod) bool { return o.Name != p.Name })
	}
	failures := 0
	for range len(c.Events.Events) {
		if e := <-c.Events.Events; strings.HasPrefix(e, "Warning FailedDaemonPod Found failed daemon pod default/agent-") {
			failures++
		}
	}
	if failures != 2 {
		t.Errorf("%d events of failed pods, want 2", failures)
	}
}

func TestAdoptAndRelease(t *testing.T) {
	t.Parallel()
	c := start(t, 1, func(c *controllertest.Cluster) {
		controllertest.Create(c, object.Pod, newPod("orphan", "n0", func(p *corev1.Pod) { p.OwnerReferences, p.UID = nil, "" }))
	})
	ds := controllertest.Create(c, object.DaemonSet, freshSet(onDelete))
	controllertest.Await(c, object.Pod, "the orphan's adoption", func(pods []*corev1.Pod) bool { return len(pods) == 1 && metav1.IsControlledBy(pods[0], ds) })
	edit(c, object.Pod, "default", "orphan", func(p *corev1.Pod) { p.Labels = map[string]string{"app": "debug"} })
	controllertest.Await(c, object.Pod, "a pod in place of the released one", func(pods []*corev1.Pod) bool {
		return len(pods) == 2 && metav1.IsControlledBy(pods[0], ds) != metav1.IsControlledBy(pods[1], ds)
	})
}

func TestEqualRevisionsBecomeOne(t *testing.T) {
	t.Parallel()
	c := start(t, 2)
	ds := controllertest.Create(c, object.DaemonSet, freshSet())
	perNode(c, "2 pods", 2, everyPod)
	rolledOut(c, 2)
	first := revisions(c, "a revision", 1)[0]
	twin := first.DeepCopy()
	twin.ObjectMeta = metav1.ObjectMeta{
		Namespace: "default", Name: "agent-twin", Labels: map[string]string{"app": "agent"}, OwnerReferences: first.OwnerReferences,
	}
	twin.Revision = 2
	controllertest.Create(c, object.ControllerRevision, twin)
	// The set is left alone until something else wakes it.
	edit(c, object.ControllerRevision, "default", twin.Name, func(r *appsv1.ControllerRevision) { r.Annotations = map[string]string{"wake": "up"} })

	left := revisions(c, "one revision", 2)[0]
	if left.Name != "agent-twin" || left.Labels[hashLabel] != "agent-twin" || !metav1.IsControlledBy(left, ds) {
		t.Errorf("revision %+v", left.ObjectMeta)
	}
	for _, p := range controllertest.List(c, object.Pod) {
		if p.Labels[hashLabel] != "agent-twin" || p.DeletionTimestamp != nil {
			t.Errorf("pod %+v", p.ObjectMeta)
		}
	}
}

func TestHistoryIsTrimmed(t *testing.T) {
	t.Parallel()
	c := start(t, 0)
	controllertest.Create(c, object.DaemonSet, freshSet(func(ds *appsv1.DaemonSet) { ds.Spec.RevisionHistoryLimit = ptr.To[int32](1) }))
	revisions(c, "a revision", 1)
	setImage(c, "agent:2")
	revisions(c, "two revisions", 1, 2)
	setImage(c, "agent:3")
	revisions(c, "the last two revisions", 2, 3)
}

func TestNameCollision(t *testing.T) {
	t.Parallel()
	ds := freshSet()
	data, err := revision.Data(&ds.Spec.Template)
	if err != nil {
		t.Fatal(err)
	}
	foreign := revision.New(ownerOf(ds), data, 1)
	foreign.OwnerReferences, foreign.Labels, foreign.Data.Raw = nil, nil, []byte(`{"spec":{}}`)
	c := start(t, 0, func(c *controllertest.Cluster) { controllertest.Create(c, object.ControllerRevision, foreign) })
	controllertest.Create(c, object.DaemonSet, ds)
	controllertest.Await(c, object.DaemonSet, "a collision", func(sets []*appsv1.DaemonSet) bool {
		return sets[0].Status.CollisionCount != nil && *sets[0].Status.CollisionCount == 1
	})
	revisions(c, "two revisions", 1, 1)
}

// TestOnePodANode: while a fifth of the creations fail in one way or another, no node gets a second pod, and in the end each has one.
func TestOnePodANode(t *testing.T) {
	t.Parallel()
	const n = 60
	var (
		mu      sync.Mutex
		created int
		rng     = rand.New(rand.NewPCG(1, 1))
	)
	c := start(t, n, func(c *controllertest.Cluster) {
		c.API.Intercept = func(w objecttest.Write) error {
			if w.Verb != "create" || w.Resource != "pods" {
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			switch rng.IntN(10) {
			case 0:
				return apierrors.NewForbidden(corev1.Resource("pods"), w.Name, errors.New("quota"))
			case 1:
				return apierrors.NewInternalError(errors.New("outcome unknown"))
			}
			created++
			return nil
		}
	})
	controllertest.Create(c, object.DaemonSet, freshSet())
	perNode(c, "a pod on every node", n, everyPod)
	rolledOut(c, n)
	mu.Lock()
	defer mu.Unlock()
	if created != n {
		t.Errorf("%d pods were created, want exactly %d", created, n)
	}
}

func TestRefusedTemplateIsTriedGently(t *testing.T) {
	t.Parallel()
	const n = 100
	var mu sync.Mutex
	refuse := true
	c := start(t, n, func(c *controllertest.Cluster) {
		c.API.Intercept = func(w objecttest.Write) error {
			mu.Lock()
			defer mu.Unlock()
			if refuse && w.Verb == "create" && w.Resource == "pods" {
				return apierrors.NewForbidden(corev1.Resource("pods"), w.Name, errors.New("exceeded quota"))
			}
			return nil
		}
	})
	controllertest.Create(c, object.DaemonSet, freshSet())
	controllertest.Await(c, object.DaemonSet, "a status", func(sets []*appsv1.DaemonSet) bool {
		return sets[0].Status.DesiredNumberScheduled == n && sets[0].Status.ObservedGeneration == sets[0].Generation
	})
	for e := range c.Events.Events {
		if strings.HasPrefix(e, "Warning FailedCreate Error creating: pods ") && strings.Contains(e, "exceeded quota") {
			break
		}
	}
	if tried := c.API.Calls("create pods"); tried > 20 {
		t.Errorf("%d creations were tried, want few", tried)
	}
	mu.Lock()
	refuse = false
	mu.Unlock()
	perNode(c, "all pods", n, everyPod)
}
