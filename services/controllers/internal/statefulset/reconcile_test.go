package statefulset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/controller/controllertest"
)

// begin runs the controller, and nodes on which every pod becomes ready at once and goes when it should.
func begin(t *testing.T, prepare func(*controllertest.Cluster)) *controllertest.Cluster {
	t.Helper()
	c := controllertest.Start(t, clock.RealClock{}, prepare, func(env *controller.Env) (controller.Unit, error) { return New(env, nil), nil })
	nodes := object.NewInformers(c.Client)
	inf := object.InformerFor(nodes, object.Pod)
	pods := object.For(c.Client, object.Pod)
	inf.AddHandler(func(_, p *corev1.Pod) {
		ctx := context.Background()
		switch {
		case p == nil || p.Labels["unready"] != "":
		case p.DeletionTimestamp != nil:
			_ = pods.Delete(ctx, p.Namespace, p.Name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
		case p.Status.Phase == "":
			p = p.DeepCopy()
			p.Status.Phase = corev1.PodRunning
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
			_, _ = pods.UpdateStatus(ctx, p)
		}
	})
	c.Go(nodes.Run)
	return c
}

// fresh is a set as a client sends it; its pods are on a node already.
func fresh(replicas int32, changes ...func(*appsv1.StatefulSet)) *appsv1.StatefulSet {
	set := newSet(replicas, changes...)
	set.UID = ""
	set.Spec.Template.Spec.NodeName = "node-1"
	return set
}

func ready(n int32) func([]*appsv1.StatefulSet) bool {
	return func(sets []*appsv1.StatefulSet) bool {
		if len(sets) != 1 {
			return false
		}
		s := sets[0].Status
		return s.ObservedGeneration == sets[0].Generation && s.Replicas == n && s.ReadyReplicas == n && s.UpdatedReplicas == n && s.CurrentRevision == s.UpdateRevision
	}
}

func patchSet(c *controllertest.Cluster, patch string) {
	c.Helper()
	if _, err := object.For(c.Client, object.StatefulSet).Patch(context.Background(), "default", "web", types.StrategicMergePatchType, []byte(patch), ""); err != nil {
		c.Fatal(err)
	}
}

func drain(c *controllertest.Cluster) (events []string) {
	for range len(c.Events.Events) {
		events = append(events, <-c.Events.Events)
	}
	return events
}

// TestLife makes a set with claims, rolls it out and back, and scales it down.
func TestLife(t *testing.T) {
	t.Parallel()
	c := begin(t, nil)
	controllertest.Create(c, object.StatefulSet, fresh(3, withClaims, retain(true, true)))
	set := controllertest.Await(c, object.StatefulSet, "3 replicas", ready(3))[0]
	first := set.Status.CurrentRevision
	want := []string{}
	for i := range 3 {
		want = append(want,
			fmt.Sprintf("Normal SuccessfulCreate Create Claim data-web-%d Pod web-%d in StatefulSet web success", i, i),
			fmt.Sprintf("Normal SuccessfulCreate Create Pod web-%d in StatefulSet web successful", i))
	}
	if got := drain(c); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("events\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, claim := range controllertest.List(c, object.PersistentVolumeClaim) {
		if !metav1.IsControlledBy(claim, set) {
			t.Errorf("claim %s has the owners %v", claim.Name, claim.OwnerReferences)
		}
	}

	patchSet(c, `{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"newer"}]}}}}`)
	controllertest.Await(c, object.StatefulSet, "3 newer replicas", func(sets []*appsv1.StatefulSet) bool {
		return ready(3)(sets) && sets[0].Status.CurrentRevision != first
	})
	if got := drain(c); len(got) != 6 || got[0] != "Normal SuccessfulDelete Delete Pod web-2 in StatefulSet web successful" ||
		got[5] != "Normal SuccessfulCreate Create Pod web-0 in StatefulSet web successful" {
		t.Errorf("events %q", got)
	}

	// As kubectl rollout undo does it.
	undo := ""
	for _, r := range controllertest.List(c, object.ControllerRevision) {
		if r.Name == first {
			undo = string(r.Data.Raw)
		}
	}
	patchSet(c, undo)
	controllertest.Await(c, object.StatefulSet, "3 replicas of the first revision", func(sets []*appsv1.StatefulSet) bool {
		return ready(3)(sets) && sets[0].Status.CurrentRevision == first
	})
	for _, r := range controllertest.List(c, object.ControllerRevision) {
		if number := map[bool]int64{true: 3, false: 2}[r.Name == first]; r.Revision != number {
			t.Errorf("revision %s has the number %d, want %d", r.Name, r.Revision, number)
		}
	}

	patchSet(c, `{"spec":{"replicas":1}}`)
	controllertest.Await(c, object.StatefulSet, "1 replica", ready(1))
	for _, claim := range controllertest.List(c, object.PersistentVolumeClaim) {
		if ref := metav1.GetControllerOf(claim); ref == nil || (ref.Kind == "Pod") != (claim.Name != "data-web-0") {
			t.Errorf("claim %s has the owner %v", claim.Name, ref)
		}
	}
}

// TestHistoryIsTruncated keeps one revision beside those in use.
func TestHistoryIsTruncated(t *testing.T) {
	t.Parallel()
	c := begin(t, nil)
	controllertest.Create(c, object.StatefulSet, fresh(1, func(s *appsv1.StatefulSet) { s.Spec.RevisionHistoryLimit = ptr.To[int32](1) }))
	last := ""
	for i := range 4 {
		patchSet(c, fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"v%d"}]}}}}`, i))
		set := controllertest.Await(c, object.StatefulSet, "a roll-out", func(sets []*appsv1.StatefulSet) bool {
			return ready(1)(sets) && sets[0].Status.CurrentRevision != last
		})[0]
		last = set.Status.CurrentRevision
	}
	controllertest.Await(c, object.ControllerRevision, "2 revisions", func(list []*appsv1.ControllerRevision) bool { return len(list) == 2 })
}

func TestAdoptsReleasesAndRepairs(t *testing.T) {
	t.Parallel()
	c := begin(t, nil)
	set := controllertest.Create(c, object.StatefulSet, fresh(1))
	controllertest.Await(c, object.StatefulSet, "1 replica", ready(1))
	change := func(what string, ok func(*corev1.Pod) bool, f func(*corev1.Pod)) {
		t.Helper()
		p, err := object.For(c.Client, object.Pod).Get(t.Context(), "default", "web-0")
		if err != nil {
			t.Fatal(err)
		}
		f(p)
		if _, err := object.For(c.Client, object.Pod).Update(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		controllertest.Await(c, object.Pod, what, func(pods []*corev1.Pod) bool { return len(pods) == 1 && ok(pods[0]) })
	}
	owned := func(p *corev1.Pod) bool { return metav1.IsControlledBy(p, set) }
	change("the orphan adopted", owned, func(p *corev1.Pod) { p.OwnerReferences = nil })
	var had map[string]string
	change("the pod released", func(p *corev1.Pod) bool { return !owned(p) }, func(p *corev1.Pod) { had, p.Labels = p.Labels, nil })
	change("the pod adopted again", owned, func(p *corev1.Pod) { p.Labels = had })
	drain(c)
	change("its name label again", func(p *corev1.Pod) bool { return p.Labels[appsv1.StatefulSetPodNameLabel] == "web-0" && owned(p) },
		func(p *corev1.Pod) { delete(p.Labels, appsv1.StatefulSetPodNameLabel) })
	if e := <-c.Events.Events; e != "Normal SuccessfulUpdate Update Pod web-0 in StatefulSet web successful" {
		t.Errorf("event %q", e)
	}
}

// TestRefusedPod tells why, and what refuses pods refuses few.
func TestRefusedPod(t *testing.T) {
	t.Parallel()
	c := begin(t, func(c *controllertest.Cluster) {
		c.API.Intercept = func(w objecttest.Write) error {
			if w.Verb == "create" && w.Resource == "pods" {
				return apierrors.NewForbidden(corev1.Resource("pods"), w.Name, errors.New("exceeded quota"))
			}
			return nil
		}
	})
	controllertest.Create(c, object.StatefulSet, fresh(500, parallel))
	select {
	case e := <-c.Events.Events:
		if want := `Warning FailedCreate Create Pod web-0 in StatefulSet web failed error: pods "web-0" is forbidden: exceeded quota`; e != want {
			t.Errorf("event %q, want %q", e, want)
		}
	case <-time.After(time.Minute):
		t.Fatal("no event")
	}
	if n := c.API.Calls("create pods"); n > 20 {
		t.Errorf("%d creations were tried, want few", n)
	}
	controllertest.Await(c, object.StatefulSet, "a status", func(sets []*appsv1.StatefulSet) bool { return sets[0].Status.ObservedGeneration == 1 })
}

func TestRefusedClaim(t *testing.T) {
	t.Parallel()
	c := begin(t, func(c *controllertest.Cluster) {
		c.API.Intercept = func(w objecttest.Write) error {
			if w.Verb == "create" && w.Resource == "persistentvolumeclaims" {
				return apierrors.NewForbidden(corev1.Resource("persistentvolumeclaims"), w.Name, errors.New("no"))
			}
			return nil
		}
	})
	controllertest.Create(c, object.StatefulSet, fresh(100, parallel, withClaims))
	for _, want := range []string{
		`Warning FailedCreate Create Claim data-web-0 for Pod web-0 in StatefulSet web failed error: persistentvolumeclaims "data-web-0" is forbidden: no`,
		`Warning FailedCreate Create Pod web-0 in StatefulSet web failed error: failed to create PVC data-web-0: persistentvolumeclaims "data-web-0" is forbidden: no`,
	} {
		if e := <-c.Events.Events; e != want {
			t.Errorf("event %q, want %q", e, want)
		}
	}
	if n := c.API.Calls("create pods"); n > 0 {
		t.Errorf("%d pods were created without claims", n)
	}
}

// TestWaitsForTheEndOfAClaim: the pod is made when the claim that is being deleted has gone.
func TestWaitsForTheEndOfAClaim(t *testing.T) {
	t.Parallel()
	c := begin(t, func(c *controllertest.Cluster) {
		controllertest.Create(c, object.PersistentVolumeClaim, &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "data-web-0", Finalizers: []string{"kubernetes.io/pvc-protection"}},
		})
		controllertest.Delete(c, object.PersistentVolumeClaim, "default", "data-web-0", metav1.DeleteOptions{})
	})
	controllertest.Create(c, object.StatefulSet, fresh(1, withClaims))
	if e := <-c.Events.Events; e != "Warning FailedCreate Create Pod web-0 in StatefulSet web failed error: pvc data-web-0 is being deleted" {
		t.Errorf("event %q", e)
	}
	if _, err := object.For(c.Client, object.PersistentVolumeClaim).Patch(t.Context(), "default", "data-web-0", types.MergePatchType,
		[]byte(`{"metadata":{"finalizers":null}}`), ""); err != nil {
		t.Fatal(err)
	}
	controllertest.Await(c, object.StatefulSet, "1 replica", ready(1))
}

// TestFailedPodIsReplaced as when it was evicted.
func TestFailedPodIsReplaced(t *testing.T) {
	t.Parallel()
	c := begin(t, nil)
	controllertest.Create(c, object.StatefulSet, fresh(2))
	controllertest.Await(c, object.StatefulSet, "2 replicas", ready(2))
	p, err := object.For(c.Client, object.Pod).Get(t.Context(), "default", "web-0")
	if err != nil {
		t.Fatal(err)
	}
	was := p.UID
	p.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted"}
	controllertest.UpdateStatus(c, object.Pod, p)
	controllertest.Await(c, object.Pod, "another web-0", func(pods []*corev1.Pod) bool {
		for _, p := range pods {
			if p.Name == "web-0" && p.UID != was && p.Status.Phase == corev1.PodRunning {
				return len(pods) == 2
			}
		}
		return false
	})
}

// TestNamesakeTakesOver: a set of the name of one that has just been deleted has to wait for the pods of the other.
func TestNamesakeTakesOver(t *testing.T) {
	t.Parallel()
	c := begin(t, func(c *controllertest.Cluster) {
		p := newPod(newSet(1), newRevision, 0)
		p.OwnerReferences[0].UID, p.Labels["unready"], p.Spec.NodeName = "former", "true", "node-1"
		controllertest.Create(c, object.Pod, p)
	})
	set := controllertest.Create(c, object.StatefulSet, fresh(1))
	controllertest.Await(c, object.StatefulSet, "a look at it", func(sets []*appsv1.StatefulSet) bool { return sets[0].Status.ObservedGeneration == 1 })
	controllertest.Delete(c, object.Pod, "default", "web-0", metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
	controllertest.Await(c, object.Pod, "its own pod", func(pods []*corev1.Pod) bool { return len(pods) == 1 && metav1.IsControlledBy(pods[0], set) })
}

// TestRevisionIsKubernetes: the revision is named and labelled as Kubernetes names and labels it.
func TestRevisionIsKubernetes(t *testing.T) {
	t.Parallel()
	c := begin(t, nil)
	controllertest.Create(c, object.StatefulSet, fresh(1))
	set := controllertest.Await(c, object.StatefulSet, "1 replica", ready(1))[0]
	r := controllertest.List(c, object.ControllerRevision)[0]
	var data struct {
		Spec struct{ Template map[string]any }
	}
	if err := json.Unmarshal(r.Data.Raw, &data); err != nil || data.Spec.Template["$patch"] != "replace" {
		t.Errorf("data %s, %v", r.Data.Raw, err)
	}
	if r.Name != set.Status.UpdateRevision || r.Name != "web-"+r.Labels["controller.kubernetes.io/hash"] || r.Labels["app"] != "web" || r.Revision != 1 {
		t.Errorf("revision %+v", r)
	}
	if p := controllertest.List(c, object.Pod)[0]; p.Labels["controller-revision-hash"] != r.Name {
		t.Errorf("pod of the revision %s, want %s", p.Labels["controller-revision-hash"], r.Name)
	}
}

// TestGoneSetTakesNoClaims has a cache that still shows a set which is gone, and whose claims were to stay: owned by it, the garbage collector would take them.
func TestGoneSetTakesNoClaims(t *testing.T) {
	t.Parallel()
	cluster := &controllertest.Cluster{T: t, Client: objecttest.New().Serve(t)}
	set := controllertest.Create(cluster, object.StatefulSet, fresh(1, withClaims, retain(true, false)))
	controllertest.Create(cluster, object.PersistentVolumeClaim, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: "data-web-0"}})
	informers := object.NewInformers(cluster.Client)
	c := build(&controller.Env{
		Client: cluster.Client, Informers: informers, Clock: clock.RealClock{}, Recorder: func(string) record.EventRecorder { return &record.FakeRecorder{} },
	}, nil)
	controllertest.Freeze(t, informers)
	controllertest.Delete(cluster, object.StatefulSet, set.Namespace, set.Name, metav1.DeleteOptions{})
	controllertest.Create(cluster, object.StatefulSet, fresh(1, withClaims))
	if _, err := c.reconcile(t.Context(), object.KeyOf(set)); err == nil {
		t.Error("it is not tried again")
	}
	for _, claim := range controllertest.List(cluster, object.PersistentVolumeClaim) {
		if len(claim.OwnerReferences) > 0 {
			t.Errorf("claim %s is owned by %v", claim.Name, claim.OwnerReferences)
		}
	}
}
