package replicaset

import (
	"errors"
	"math/rand/v2"
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
)

func start(t *testing.T, prepare func(*controllertest.Cluster)) *controllertest.Cluster {
	t.Helper()
	return controllertest.Start(t, clock.RealClock{}, prepare, func(env *controller.Env) (controller.Unit, error) { return New(env, nil), nil })
}

// freshSet is a set as a client sends it.
func freshSet(replicas int32) *appsv1.ReplicaSet {
	rs := newSet(replicas)
	rs.UID = ""
	return rs
}

func status(replicas int32) func([]*appsv1.ReplicaSet) bool {
	return func(sets []*appsv1.ReplicaSet) bool {
		return len(sets) == 1 && sets[0].Status.Replicas == replicas && sets[0].Status.ObservedGeneration == sets[0].Generation &&
			len(sets[0].Status.Conditions) == 0
	}
}

// TestNeverTooMany: while a fifth of the creations fail in one way or another,
// there are never more pods than asked for, and in the end exactly as many.
func TestNeverTooMany(t *testing.T) {
	t.Parallel()
	const want = 200
	var (
		mu      sync.Mutex
		created int
		rng     = rand.New(rand.NewPCG(1, 1))
	)
	c := start(t, func(c *controllertest.Cluster) {
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
	controllertest.Create(c, object.ReplicaSet, freshSet(want))
	controllertest.Await(c, object.ReplicaSet, "all replicas", status(want))
	if n := len(controllertest.List(c, object.Pod)); n != want {
		t.Errorf("%d pods, want %d", n, want)
	}
	mu.Lock()
	defer mu.Unlock()
	if created != want {
		t.Errorf("%d pods were created, want exactly %d", created, want)
	}
}

// TestRefusedTemplateIsTriedGently: a template that admission refuses costs a
// few creations, and the set says why.
func TestRefusedTemplateIsTriedGently(t *testing.T) {
	t.Parallel()
	c := start(t, func(c *controllertest.Cluster) {
		c.API.Intercept = func(w objecttest.Write) error {
			if w.Verb == "create" && w.Resource == "pods" {
				return apierrors.NewForbidden(corev1.Resource("pods"), w.Name, errors.New("exceeded quota"))
			}
			return nil
		}
	})
	controllertest.Create(c, object.ReplicaSet, freshSet(1000))
	controllertest.Await(c, object.ReplicaSet, "a failure", func(sets []*appsv1.ReplicaSet) bool {
		return len(sets[0].Status.Conditions) == 1 && sets[0].Status.Conditions[0].Reason == "FailedCreate" &&
			strings.Contains(sets[0].Status.Conditions[0].Message, "exceeded quota")
	})
	if n := c.API.Calls("create pods"); n > 100 {
		t.Errorf("%d creations were tried, want few", n)
	}
	if e := <-c.Events.Events; !strings.HasPrefix(e, "Warning FailedCreate Error creating: pods ") {
		t.Errorf("event %q", e)
	}
}

func TestScaleDownAdoptAndRelease(t *testing.T) {
	t.Parallel()
	c := start(t, func(c *controllertest.Cluster) {
		orphan := newPod("orphan", func(p *corev1.Pod) { p.OwnerReferences, p.UID, p.Spec.NodeName = nil, "", "" })
		controllertest.Create(c, object.Pod, orphan)
	})
	rs := controllertest.Create(c, object.ReplicaSet, freshSet(5))
	controllertest.Await(c, object.ReplicaSet, "5 replicas", status(5))
	pods := controllertest.List(c, object.Pod)
	if len(pods) != 5 {
		t.Fatalf("%d pods, want 5: the orphan counts", len(pods))
	}
	names := map[string]bool{}
	for _, p := range pods {
		names[p.Name] = true
		if !metav1.IsControlledBy(p, rs) {
			t.Errorf("pod %s is not the set's", p.Name)
		}
		if p.Name != "orphan" && (p.GenerateName != "x-" || !strings.HasPrefix(p.Name, "x-") || len(p.Name) != 7) {
			t.Errorf("pod %s of %s", p.Name, p.GenerateName)
		}
	}
	if !names["orphan"] {
		t.Error("the orphan is gone")
	}

	// A pod that is relabelled leaves the set, which makes another one.
	leaver := pods[0].DeepCopy()
	leaver.Labels = map[string]string{"app": "debug"}
	if _, err := object.For(c.Client, object.Pod).Update(t.Context(), leaver); err != nil {
		t.Fatal(err)
	}
	controllertest.Await(c, object.Pod, "a pod in place of the leaver", func(pods []*corev1.Pod) bool {
		own := 0
		for _, p := range pods {
			if metav1.IsControlledBy(p, rs) {
				own++
			} else if p.Name != leaver.Name {
				return false
			}
		}
		return own == 5 && len(pods) == 6
	})

	live, err := object.For(c.Client, object.ReplicaSet).Get(t.Context(), "default", "x")
	if err != nil {
		t.Fatal(err)
	}
	live.Spec.Replicas = ptr.To[int32](2)
	if _, err := object.For(c.Client, object.ReplicaSet).Update(t.Context(), live); err != nil {
		// The controller may have written the status meanwhile.
		live, _ = object.For(c.Client, object.ReplicaSet).Get(t.Context(), "default", "x")
		live.Spec.Replicas = ptr.To[int32](2)
		if _, err := object.For(c.Client, object.ReplicaSet).Update(t.Context(), live); err != nil {
			t.Fatal(err)
		}
	}
	controllertest.Await(c, object.ReplicaSet, "2 replicas", status(2))
	deleted := 0
	for range len(c.Events.Events) {
		if e := <-c.Events.Events; strings.HasPrefix(e, "Normal SuccessfulDelete Deleted pod: ") {
			deleted++
		}
	}
	if deleted != 3 {
		t.Errorf("%d events of deletions, want 3", deleted)
	}
}
