package garbage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	"howdah.dev/kit/object"
	"howdah.dev/services/controllers/internal/controller"
	"howdah.dev/services/controllers/internal/controller/controllertest"
)

func start(t *testing.T, prepare func(*controllertest.Cluster)) *controllertest.Cluster {
	t.Helper()
	return controllertest.Start(t, clock.RealClock{}, prepare, func(env *controller.Env) (controller.Unit, error) { return New(env, nil), nil })
}

// family makes a Deployment that owns a ReplicaSet that owns n pods.
func family(c *controllertest.Cluster, n int) (*appsv1.Deployment, *appsv1.ReplicaSet) {
	d := controllertest.Create(c, object.Deployment, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}})
	rs := controllertest.Create(c, object.ReplicaSet, &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "web-1", OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(d, appsv1.SchemeGroupVersion.WithKind("Deployment"))},
	}})
	for i := range n {
		controllertest.Create(c, object.Pod, newPod(fmt.Sprint("web-1-", i), *metav1.NewControllerRef(rs, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))))
	}
	return d, rs
}

func newPod(name string, owners ...metav1.OwnerReference) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, OwnerReferences: owners}}
}

func policy(p metav1.DeletionPropagation) metav1.DeleteOptions {
	return metav1.DeleteOptions{PropagationPolicy: &p}
}

func TestBackground(t *testing.T) {
	t.Parallel()
	c := start(t, nil)
	family(c, 1200)
	controllertest.Create(c, object.Pod, newPod("bystander"))
	controllertest.Delete(c, object.Deployment, "default", "web", policy(metav1.DeletePropagationBackground))
	pods := controllertest.Await(c, object.Pod, "end of the dependents", func(p []*corev1.Pod) bool { return len(p) == 1 })
	if pods[0].Name != "bystander" {
		t.Errorf("%s is left", pods[0].Name)
	}
	controllertest.Gone(c, object.ReplicaSet)
	if n := c.API.Calls("batch"); n > 300 {
		t.Errorf("1,200 pods took %d calls, want few", n)
	}
	// A pod whose creation is told after its owner's end makes the graph ask once
	// more; what must not happen is a question a pod.
	if n := c.API.Calls("get replicasets"); n > 300 {
		t.Errorf("the owner of 1,200 pods was asked for %d times, want few", n)
	}
}

// TestForeground: the owners stay until all that block them are gone.
func TestForeground(t *testing.T) {
	t.Parallel()
	c := start(t, nil)
	_, rs := family(c, 2)
	controllertest.Create(c, object.Pod, func() *corev1.Pod {
		p := newPod("held", *metav1.NewControllerRef(rs, appsv1.SchemeGroupVersion.WithKind("ReplicaSet")))
		p.Finalizers = []string{"example.com/hold"}
		return p
	}())
	// Owners do not wait for dependents that the collector has not heard of, as in Kubernetes. It hears of pods in their order: once it
	// has removed this one, it knows the others.
	controllertest.Create(c, object.Pod, newPod("orphan", metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "gone", UID: "gone"}))
	controllertest.Await(c, object.Pod, "the end of the orphan", func(p []*corev1.Pod) bool { return len(p) == 3 })
	controllertest.Delete(c, object.Deployment, "default", "web", policy(metav1.DeletePropagationForeground))
	pods := controllertest.Await(c, object.Pod, "the held pod alone", func(p []*corev1.Pod) bool { return len(p) == 1 && p[0].DeletionTimestamp != nil })
	if sets := controllertest.List(c, object.ReplicaSet); len(sets) != 1 || sets[0].DeletionTimestamp == nil {
		t.Fatalf("sets %v, want the one, being deleted", sets)
	}
	if ds := controllertest.List(c, object.Deployment); len(ds) != 1 {
		t.Fatal("the deployment went before its pods")
	}
	held := pods[0].DeepCopy()
	held.Finalizers = nil
	if _, err := object.For(c.Client, object.Pod).Update(t.Context(), held); err != nil {
		t.Fatal(err)
	}
	controllertest.Gone(c, object.Deployment)
	controllertest.Gone(c, object.ReplicaSet)
}

func TestOrphan(t *testing.T) {
	t.Parallel()
	c := start(t, nil)
	family(c, 3)
	controllertest.Delete(c, object.ReplicaSet, "default", "web-1", policy(metav1.DeletePropagationOrphan))
	controllertest.Gone(c, object.ReplicaSet)
	pods := controllertest.List(c, object.Pod)
	if len(pods) != 3 {
		t.Fatalf("%d pods, want all 3", len(pods))
	}
	for _, p := range pods {
		if len(p.OwnerReferences) != 0 {
			t.Errorf("pod %s still has owners %v", p.Name, p.OwnerReferences)
		}
	}
}

// TestANamespacedOwnerDecidesNothingOfTheCluster: what is in no namespace cannot be owned by what is in one, and outlives it however that is deleted.
func TestANamespacedOwnerDecidesNothingOfTheCluster(t *testing.T) {
	t.Parallel()
	for _, how := range []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan} {
		t.Run(string(how), func(t *testing.T) {
			t.Parallel()
			c := start(t, nil)
			_, rs := family(c, 0)
			ref := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: rs.Name, UID: rs.UID}
			controllertest.Create(c, object.Node, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node", OwnerReferences: []metav1.OwnerReference{ref}}})
			controllertest.Create(c, object.Pod, newPod("owned", ref))
			awaitInvalid(t, c)
			controllertest.Delete(c, object.ReplicaSet, "default", rs.Name, policy(how))
			controllertest.Gone(c, object.ReplicaSet)
			if how == metav1.DeletePropagationOrphan {
				controllertest.Await(c, object.Node, "the node to be let go", func(n []*corev1.Node) bool { return len(n) == 1 && len(n[0].OwnerReferences) == 0 })
				return
			}
			controllertest.Gone(c, object.Pod)
			if how == metav1.DeletePropagationBackground {
				awaitInvalid(t, c) // it was asked about again
			}
			if nodes := controllertest.List(c, object.Node); len(nodes) != 1 || len(nodes[0].OwnerReferences) != 1 || nodes[0].DeletionTimestamp != nil {
				t.Errorf("the node that refers to it: %v", nodes)
			}
		})
	}
}

// awaitInvalid returns when an owner was told of that cannot be one.
func awaitInvalid(t *testing.T, c *controllertest.Cluster) {
	t.Helper()
	deadline := time.After(time.Minute)
	for {
		select {
		case e := <-c.Events.Events:
			if strings.HasPrefix(e, "Warning OwnerRefInvalidNamespace") {
				return
			}
		case <-deadline:
			t.Fatal("no event of an invalid owner")
		}
	}
}

// TestWhatTheAPIKnowsCounts: objects whose owners the graph does not have are
// judged by the API, and one with any owner left stays.
func TestWhatTheAPIKnowsCounts(t *testing.T) {
	t.Parallel()
	ref := func(kind, name string, uid types.UID) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: "apps/v1", Kind: kind, Name: name, UID: uid}
	}
	c := start(t, func(c *controllertest.Cluster) {
		_, rs := family(c, 0)
		controllertest.Create(c, object.Pod, newPod("never-owned", ref("ReplicaSet", "none", "no-such-uid")))
		controllertest.Create(c, object.Pod, newPod("namesake", ref("ReplicaSet", "web-1", "another-uid")))
		controllertest.Create(c, object.Pod, newPod("half-owned", ref("ReplicaSet", "none", "no-such-uid"), ref("ReplicaSet", "web-1", rs.UID)))
		controllertest.Create(c, object.Pod, newPod("unknown-kind", metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Thing", Name: "x", UID: "thing"}))
		controllertest.Create(c, object.Pod, newPod("misnamed", ref("ReplicaSet", "web-2", rs.UID)))
		stranger := newPod("stranger", ref("ReplicaSet", "web-1", rs.UID))
		stranger.Namespace = "elsewhere"
		controllertest.Create(c, object.Pod, stranger)
		controllertest.Create(c, object.Node, &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: "node", OwnerReferences: []metav1.OwnerReference{ref("ReplicaSet", "web-1", "another-uid")},
		}})
	})
	pods := controllertest.Await(c, object.Pod, "two pods", func(p []*corev1.Pod) bool {
		return len(p) == 2 && len(p[0].OwnerReferences) == 1 && len(p[1].OwnerReferences) == 1
	})
	names := []string{pods[0].Name, pods[1].Name}
	slices.Sort(names)
	if names[0] != "half-owned" || names[1] != "unknown-kind" {
		t.Errorf("%v are left", names)
	}
	invalid := 0
	deadline := time.After(time.Minute)
	for invalid < 2 {
		select {
		case e := <-c.Events.Events:
			if strings.HasPrefix(e, "Warning OwnerRefInvalidNamespace") {
				invalid++
			}
			if strings.Contains(e, "web-2") {
				t.Errorf("an owner of this namespace is told of: %s", e)
			}
		case <-deadline:
			t.Fatalf("%d events of invalid owners, want 2", invalid)
		}
	}
	if nodes := controllertest.List(c, object.Node); len(nodes) != 1 {
		t.Error("a cluster-scoped object was deleted for a namespaced owner")
	}
}

func TestDecide(t *testing.T) {
	t.Parallel()
	refs := []metav1.OwnerReference{{UID: "a"}, {UID: "b"}}
	for _, c := range []struct {
		name       string
		owners     []ownerState
		finalizers []string
		deleting   bool
		dependents bool
		want       action
	}{
		{"all present", []ownerState{present, present}, nil, false, true, action{}},
		{"one absent", []ownerState{absent, present}, nil, false, true, action{Drop: []types.UID{"a"}}},
		{"one waiting", []ownerState{present, waiting}, nil, false, true, action{Drop: []types.UID{"b"}}},
		{"one invalid", []ownerState{absent, invalid}, nil, false, true, action{}},
		{"all absent", []ownerState{absent, absent}, nil, false, true, action{Delete: true, Policy: metav1.DeletePropagationBackground}},
		{"waiting, with dependents", []ownerState{waiting, absent}, nil, false, true, action{Delete: true, Policy: metav1.DeletePropagationForeground}},
		{"waiting, alone", []ownerState{waiting, absent}, nil, false, false, action{Delete: true, Policy: metav1.DeletePropagationBackground}},
		{"wants orphans", []ownerState{absent, absent}, []string{"orphan"}, false, true, action{Delete: true, Policy: metav1.DeletePropagationOrphan}},
		{"on its way", []ownerState{absent, absent}, nil, true, true, action{}},
	} {
		meta := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{OwnerReferences: refs, Finalizers: c.finalizers}}
		if c.deleting {
			meta.DeletionTimestamp = ptr.To(metav1.Now())
		}
		if got := decide(meta, c.owners, c.dependents, false); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

// What the API answers of kinds that only an extension API server has says nothing about their objects.
func TestARefusalOfTheKindIsNotOneOfTheObject(t *testing.T) {
	t.Parallel()
	pods := schema.GroupResource{Resource: "pods"}
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"the object": {apierrors.NewNotFound(pods, "p"), true},
		"wrapped":    {fmt.Errorf("get: %w", apierrors.NewNotFound(pods, "p")), true},
		"the kind":   {&apierrors.StatusError{ErrStatus: metav1.Status{Code: 404, Reason: metav1.StatusReasonNotFound, Details: &metav1.StatusDetails{}}}, false},
		"the path":   {&apierrors.StatusError{ErrStatus: metav1.Status{Code: 404, Reason: metav1.StatusReasonNotFound}}, false},
		"no status":  {errors.New("gone"), false},
	} {
		if got := namesObject(c.err); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestAKindThatCannotBeListedKeepsNobodyWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &collector{discovered: make(chan struct{})}
		close(c.discovered)
		c.addSynced(func(ctx context.Context) bool { <-ctx.Done(); return false })
		c.addSynced(func(context.Context) bool { return true })
		start := time.Now()
		if err := c.ready(t.Context()); err != nil || time.Since(start) != fill {
			t.Errorf("ready after %v: %v", time.Since(start), err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := c.ready(ended); !errors.Is(err, context.Canceled) {
			t.Errorf("ready though it is to end: %v", err)
		}
	})
}
