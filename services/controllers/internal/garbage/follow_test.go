package garbage

import (
	"context"
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/kit/object"
	"howdah.dev/kit/object/objecttest"
	"howdah.dev/services/controllers/internal/controller/controllertest"
	"howdah.dev/services/controllers/internal/discovery"
)

// TestAnotherVersionIsFollowed has a kind served in another version from some time on. What became of its objects meanwhile is known, and what becomes of
// them from then on.
func TestAnotherVersionIsFollowed(t *testing.T) {
	t.Parallel()
	late, client := objecttest.New().ServeLate(t)
	cluster := &controllertest.Cluster{T: t, Client: client}
	budget := func(name string) *policyv1.PodDisruptionBudget {
		return controllertest.Create(cluster, object.PodDisruptionBudget, &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: name}})
	}
	in := func(version string) []discovery.Resource {
		return []discovery.Resource{{
			GVK:  schema.GroupVersionKind{Group: "policy", Version: version, Kind: "PodDisruptionBudget"},
			Name: "poddisruptionbudgets", Namespaced: true, Verbs: []string{"list", "watch", "delete"},
		}}
	}
	c := &collector{client: client, graph: newGraph()}
	kinds := followed{collector: c, running: map[schema.GroupResource]informing{}}
	ctx, stop := context.WithCancel(t.Context())
	defer func() { stop(); kinds.Wait() }()

	kinds.are(ctx, in("v1beta1"), true)
	goes, stays := budget("goes"), budget("stays")
	known := func(b *policyv1.PodDisruptionBudget) bool { return c.graph.get(b.UID) != nil }
	until(t, "they are known", func() bool { return known(goes) && known(stays) })
	release := late.Hold("poddisruptionbudgets")
	defer release()
	controllertest.Delete(cluster, object.PodDisruptionBudget, "n", "goes", metav1.DeleteOptions{})
	kinds.are(ctx, in("v1"), true)
	owner := metav1.OwnerReference{APIVersion: "policy/v1", Kind: "PodDisruptionBudget", Name: "goes", UID: goes.UID}
	until(t, "the end of one is known", func() bool { return !known(goes) && c.graph.ended(owner, "n") })
	for what, ended := range map[string]bool{
		"of another namespace": c.graph.ended(owner, "other"),
		"of no namespace":      c.graph.ended(owner, ""),
		"of another name":      c.graph.ended(metav1.OwnerReference{APIVersion: owner.APIVersion, Kind: owner.Kind, Name: "stays", UID: owner.UID}, "n"),
	} {
		if ended {
			t.Errorf("it ended as the owner %s", what)
		}
	}
	if n := c.graph.get(stays.UID); n == nil || n.resource.GVK.Version != "v1" {
		t.Errorf("the other is known as %v", n)
	}
	release()
	later := budget("later")
	until(t, "one that came later is known", func() bool { return known(later) })
	kinds.are(ctx, nil, true)
	if len(kinds.running) > 0 {
		t.Errorf("%v is followed still", kinds.running)
	}
}
