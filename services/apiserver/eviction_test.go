package apiserver

import (
	"encoding/json"
	"fmt"
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"howdah.dev/kit/apistatus"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

func TestEvictionKeepsTheBudget(t *testing.T) {
	f := startMemory(t)
	f.must(f.create("v1/serviceaccounts", "default", `{"metadata":{"name":"default"}}`))
	status := func(resource, name string, body map[string]any) {
		t.Helper()
		g, v, r := split(resource)
		data, err := json.Marshal(map[string]any{"status": body})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.api.Patch(f.ctx, &apiv1.PatchRequest{Group: g, Version: v, Resource: r, Namespace: "default", Name: name, Subresource: "status",
			ContentType: "application/merge-patch+json", Object: data}); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 3 {
		name := fmt.Sprintf("p%d", n)
		f.must(f.create("v1/pods", "default", fmt.Sprintf(`{"metadata":{"name":%q,"labels":{"app":"web"}},"spec":{"nodeName":"n","containers":[{"name":"c","image":"i"}]}}`, name)))
		ready := "True"
		if n == 2 {
			ready = "False"
		}
		status("v1/pods", name, map[string]any{"phase": "Running", "conditions": []any{map[string]any{"type": "Ready", "status": ready}}})
	}
	f.must(f.create("policy/v1/poddisruptionbudgets", "default", `{"metadata":{"name":"b"},"spec":{"minAvailable":1,"selector":{"matchLabels":{"app":"web"}}}}`))
	evict := func(name string) error {
		_, err := f.api.Create(f.ctx, &apiv1.CreateRequest{Version: "v1", Resource: "pods", Namespace: "default", Name: name, Subresource: "eviction",
			Object: []byte(fmt.Sprintf(`{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":%q}}`, name))})
		return apistatus.FromGRPC(err)
	}
	refused := func(err error, cause string) {
		t.Helper()
		s := apistatus.Of(err)
		if !apierrors.IsTooManyRequests(err) || s.Message != "Cannot evict pod as it would violate the pod's disruption budget." ||
			s.Details == nil || len(s.Details.Causes) == 0 || s.Details.Causes[len(s.Details.Causes)-1].Message != cause {
			t.Errorf("got %+v, want the cause %s", s, cause)
		}
	}
	refused(evict("p0"), "The disruption budget b is still being processed by the server.")
	status("policy/v1/poddisruptionbudgets", "b", map[string]any{
		"observedGeneration": 1, "disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 3})
	if err := evict("p0"); err != nil {
		t.Fatal(err)
	}
	refused(evict("p1"), "The disruption budget b needs 1 healthy pods and has 2 currently")
	if err := evict("p2"); err != nil { // it is not ready, and enough others are
		t.Errorf("the pod that is not ready: %v", err)
	}
	body, err := f.get("policy/v1/poddisruptionbudgets", "default", "b")
	if err != nil {
		t.Fatal(err)
	}
	var budget policyv1.PodDisruptionBudget
	if err := json.Unmarshal(body, &budget); err != nil {
		t.Fatal(err)
	}
	if _, noted := budget.Status.DisruptedPods["p0"]; !noted || budget.Status.DisruptionsAllowed != 0 || len(budget.Status.DisruptedPods) != 1 {
		t.Errorf("status %+v", budget.Status)
	}
	pod, err := f.get("v1/pods", "default", "p0")
	if err != nil {
		t.Fatal(err)
	}
	var p struct {
		Metadata struct{ DeletionTimestamp string }
		Status   struct {
			Conditions []struct{ Type, Reason string }
		}
	}
	if err := json.Unmarshal(pod, &p); err != nil {
		t.Fatal(err)
	}
	if p.Metadata.DeletionTimestamp == "" || p.Status.Conditions[len(p.Status.Conditions)-1].Reason != "EvictionByEvictionAPI" {
		t.Errorf("the evicted pod: %s", pod)
	}
	// One that came to an end between its announcement and the deletion can be repeated, although nothing is left of the budget.
	status("v1/pods", "p1", map[string]any{"conditions": []any{
		map[string]any{"type": "Ready", "status": "True"}, map[string]any{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}}})
	refused(evict("p1"), "The disruption budget b needs 1 healthy pods and has 2 currently")
	status("policy/v1/poddisruptionbudgets", "b", map[string]any{"disruptedPods": map[string]any{"p1": "2026-01-02T03:04:05Z"}})
	if err := evict("p1"); err != nil {
		t.Errorf("the repeated eviction: %v", err)
	}
	f.must(f.create("v1/pods", "default", `{"metadata":{"name":"p3","labels":{"app":"web"}},"spec":{"nodeName":"n","containers":[{"name":"c","image":"i"}]}}`))
	status("v1/pods", "p3", map[string]any{"phase": "Running", "conditions": []any{map[string]any{"type": "Ready", "status": "True"}}})
	f.must(f.create("policy/v1/poddisruptionbudgets", "default", `{"metadata":{"name":"c"},"spec":{"minAvailable":1,"selector":{}}}`))
	if s := apistatus.Of(evict("p3")); s.Code != 500 || s.Message != "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support." {
		t.Errorf("two budgets: %+v", s)
	}
}

// TestEvictionOfWhatGoes: a pod that is evicted already, and held, is not written again.
func TestEvictionOfWhatGoes(t *testing.T) {
	f := startMemory(t)
	f.must(f.create("v1/serviceaccounts", "default", `{"metadata":{"name":"default"}}`))
	f.must(f.create("v1/pods", "default", `{"metadata":{"name":"p","finalizers":["example.com/kept"]},"spec":{"containers":[{"name":"c","image":"i"}]}}`))
	var after []string
	for range 2 {
		if _, err := f.api.Create(f.ctx, &apiv1.CreateRequest{Version: "v1", Resource: "pods", Namespace: "default", Name: "p", Subresource: "eviction",
			Object: []byte(`{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"p"}}`)}); err != nil {
			t.Fatal(apistatus.FromGRPC(err))
		}
		pod, err := f.get("v1/pods", "default", "p")
		if err != nil {
			t.Fatal(err)
		}
		after = append(after, string(pod))
	}
	if after[0] != after[1] {
		t.Errorf("the second eviction made of\n%s\n%s", after[0], after[1])
	}
}
