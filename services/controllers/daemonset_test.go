package controllers

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"howdah.dev/kit/object"
)

// bindDaemons binds pods to the node that their affinity names, as the scheduler does.
func bindDaemons(t *testing.T, client *object.Client) {
	t.Helper()
	informers := object.NewInformers(client)
	object.InformerFor(informers, object.Pod).AddHandler(func(_, p *corev1.Pod) {
		if p == nil || p.Spec.NodeName != "" || p.DeletionTimestamp != nil {
			return
		}
		node := p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields[0].Values[0]
		item := object.For(client, object.Pod).PostItem(p.Namespace, p.Name, "binding", &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: p.UID}, Target: corev1.ObjectReference{Kind: "Node", Name: node},
		})
		if _, err := client.Batch(context.Background(), []object.Item{item}, false); err != nil {
			t.Logf("bind: %v", err)
		}
	})
	start(t, informers.Run)
}

// onEachNode says whether the set's pods are on the nodes, one each and of the image, and the set's status says so.
func onEachNode(t *testing.T, client *object.Client, image string, nodes ...string) *appsv1.DaemonSet {
	t.Helper()
	await(t, client, object.Pod, fmt.Sprintf("pods of %s on %v", image, nodes), func(pods []*corev1.Pod) bool {
		on := map[string]int{}
		for _, p := range pods {
			if p.Spec.Containers[0].Image != image {
				return false
			}
			on[p.Spec.NodeName]++
		}
		for _, n := range nodes {
			if on[n] != 1 {
				return false
			}
		}
		return len(pods) == len(nodes)
	})
	n := int32(len(nodes))
	return await(t, client, object.DaemonSet, "a status of them", func(sets []*appsv1.DaemonSet) bool {
		s := sets[0].Status
		return s.ObservedGeneration == sets[0].Generation && s.DesiredNumberScheduled == n && s.CurrentNumberScheduled == n &&
			s.NumberReady == n && s.NumberAvailable == n && s.UpdatedNumberScheduled == n && s.NumberUnavailable == 0 && s.NumberMisscheduled == 0
	})[0]
}

// TestDaemonSetOnTheRealAPI is the life of a DaemonSet on the real API, which defaults and numbers templates, keeps revisions as they were
// written, and tells of nodes.
func TestDaemonSetOnTheRealAPI(t *testing.T) {
	t.Parallel()
	client := setupReal(t, "daemonset,garbagecollector,serviceaccount,nodelifecycle")
	bindDaemons(t, client)
	kubelet(t, client)
	for _, name := range []string{"a", "b"} {
		readyNode(t, client, name)
	}
	await(t, client, object.ServiceAccount, "the default account", func(s []*corev1.ServiceAccount) bool { return in(s, "default", "default") })

	labels := map[string]string{"app": "agent"}
	create(t, client, object.DaemonSet, &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "agent"},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					NodeSelector: map[string]string{"agents": "yes"},
					Containers:   []corev1.Container{{Name: "agent", Image: "agent:1", Args: []string{"<>"}}},
				},
			},
		},
	})
	patch(t, client, object.Node, "", "a", `{"metadata":{"labels":{"agents":"yes"}}}`)
	onEachNode(t, client, "agent:1", "a")
	patch(t, client, object.Node, "", "b", `{"metadata":{"labels":{"agents":"yes"}},"spec":{"unschedulable":true}}`)
	onEachNode(t, client, "agent:1", "a", "b")

	patch(t, client, object.DaemonSet, "default", "agent", `{"spec":{"template":{"spec":{"containers":[{"name":"agent","image":"agent:2"}]}}}}`)
	ds := onEachNode(t, client, "agent:2", "a", "b")
	revisions := await(t, client, object.ControllerRevision, "two revisions", func(r []*appsv1.ControllerRevision) bool { return len(r) == 2 })
	current := revisions[0]
	if current.Revision != 2 {
		current = revisions[1]
	}
	if want := templatePatch(t, ds); current.Revision != 2 || !bytes.Equal(current.Data.Raw, want) {
		t.Errorf("revision %d holds\n%s\nwant\n%s", current.Revision, current.Data.Raw, want)
	}
	if ds.Generation != 2 {
		t.Errorf("generation %d, want 2: the controller's own writes must not count", ds.Generation)
	}

	// Back to what was before, as kubectl rollout undo does it.
	former := revisions[0]
	if former == current {
		former = revisions[1]
	}
	patch(t, client, object.DaemonSet, "default", "agent", string(former.Data.Raw))
	onEachNode(t, client, "agent:1", "a", "b")
	await(t, client, object.ControllerRevision, "the first revision as the third", func(r []*appsv1.ControllerRevision) bool {
		return len(r) == 2 && in(r, "default", former.Name) && max(r[0].Revision, r[1].Revision) == 3
	})

	patch(t, client, object.Node, "", "a", `{"metadata":{"labels":{"agents":"no"}}}`)
	onEachNode(t, client, "agent:1", "b")
	if err := object.For(client, object.Node).Delete(t.Context(), "", "b", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, client, object.DaemonSet, "no desired pods", func(sets []*appsv1.DaemonSet) bool { return sets[0].Status.DesiredNumberScheduled == 0 })

	foreground := metav1.DeletePropagationForeground
	if err := object.For(client, object.DaemonSet).Delete(t.Context(), "default", "agent", metav1.DeleteOptions{PropagationPolicy: &foreground}); err != nil {
		t.Fatal(err)
	}
	await(t, client, object.DaemonSet, "the end of the set", func(s []*appsv1.DaemonSet) bool { return len(s) == 0 })
	await(t, client, object.ControllerRevision, "the end of its history", func(r []*appsv1.ControllerRevision) bool { return len(r) == 0 })
}

// templatePatch is what Kubernetes' tests expect a revision of the set to hold: its template as JSON, with sorted keys and a directive.
func templatePatch(t *testing.T, ds *appsv1.DaemonSet) []byte {
	t.Helper()
	encoded, err := json.Marshal(ds)
	if err != nil {
		t.Fatal(err)
	}
	var set struct {
		Spec struct {
			Template map[string]any `json:"template"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(encoded, &set); err != nil {
		t.Fatal(err)
	}
	set.Spec.Template["$patch"] = "replace"
	want, err := json.Marshal(map[string]any{"spec": map[string]any{"template": set.Spec.Template}})
	if err != nil {
		t.Fatal(err)
	}
	return want
}

func patch[T object.Object](t *testing.T, client *object.Client, kind object.Kind[T], namespace, name, text string) {
	t.Helper()
	if _, err := object.For(client, kind).Patch(t.Context(), namespace, name, types.StrategicMergePatchType, []byte(text), ""); err != nil {
		t.Fatalf("patch %s %s: %v", kind.GVK.Kind, name, err)
	}
}
