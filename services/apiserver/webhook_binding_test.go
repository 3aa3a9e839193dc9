package apiserver

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"howdah.dev/kit/apistatus"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// Webhooks are shown a Binding as it was posted, to a pod or to bindings, with who owns what of it; and what they change of it counts.
func TestWebhooksChangeBindings(t *testing.T) {
	t.Parallel()
	f, h := startMemory(t), startHooks(t)
	f.must(f.create("v1/serviceaccounts", "default", `{"metadata":{"name":"default"}}`))
	const rules = `,"rules":[{"operations":["CREATE"],"apiGroups":[""],"apiVersions":["v1"],"resources":["pods/binding","bindings"]}]`
	defer f.configure("mutatingwebhookconfigurations", "m", h.hook("m", "/patch-binding", rules))()
	defer f.configure("validatingwebhookconfigurations", "v", h.hook("v", "/validate", rules))()
	for _, tt := range []struct {
		pod, resource, subresource string
	}{{"a", "pods", "binding"}, {"b", "bindings", ""}} {
		f.must(f.create("v1/pods", "default", `{"metadata":{"name":"`+tt.pod+`"},"spec":{"containers":[{"name":"c","image":"i"}]}}`))
		request := &apiv1.CreateRequest{
			Version: "v1", Resource: tt.resource, Namespace: "default", Subresource: tt.subresource, FieldManager: "me",
			Object: []byte(`{"metadata":{"name":"` + tt.pod + `"},"target":{"kind":"Node","name":"asked"}}`),
		}
		if tt.subresource != "" {
			request.Name = tt.pod
		}
		if _, err := f.api.Create(f.ctx, request); err != nil {
			t.Fatal(apistatus.FromGRPC(err))
		}
		seen := h.requests()
		if len(seen) != 2 {
			t.Fatalf("%d reviews of one Binding", len(seen))
		}
		for i, node := range []string{"asked", "chosen"} {
			binding := &corev1.Binding{}
			if err := json.Unmarshal(seen[i].Object.Raw, binding); err != nil {
				t.Fatal(err)
			}
			if seen[i].Resource.Resource != tt.resource || seen[i].SubResource != tt.subresource || seen[i].Name != tt.pod || binding.Target.Name != node ||
				!strings.Contains(string(seen[i].Options.Raw), `"fieldManager":"me"`) {
				t.Errorf("%s: %+v", tt.resource, seen[i])
			}
			if owned := binding.ManagedFields; len(owned) != 1 || owned[0].Manager != "me" || owned[0].Subresource != tt.subresource || string(owned[0].FieldsV1.Raw) != `{"f:target":{}}` {
				t.Errorf("%s: owned by %+v", tt.resource, owned)
			}
		}
		pod := &corev1.Pod{}
		b, err := f.get("v1/pods", "default", tt.pod)
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(b, pod); err != nil || pod.Spec.NodeName != "chosen" || pod.Annotations["by"] != "webhook" {
			t.Errorf("%s: %v %s %v", tt.resource, err, pod.Spec.NodeName, pod.Annotations)
		}
	}
}

func TestWebhooksChangeEvictions(t *testing.T) {
	t.Parallel()
	f, h := startMemory(t), startHooks(t)
	f.must(f.create("v1/serviceaccounts", "default", `{"metadata":{"name":"default"}}`))
	f.must(f.create("v1/pods", "default", `{"metadata":{"name":"a"},"spec":{"nodeName":"n","containers":[{"name":"c","image":"i"}]}}`))
	defer f.configure("mutatingwebhookconfigurations", "m", h.hook("m", "/patch-eviction",
		`,"rules":[{"operations":["CREATE"],"apiGroups":[""],"apiVersions":["v1"],"resources":["pods/eviction"]}]`))()
	if _, err := f.api.Create(f.ctx, &apiv1.CreateRequest{
		Version: "v1", Resource: "pods", Namespace: "default", Name: "a", Subresource: "eviction",
		Object: []byte(`{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"a"},"deleteOptions":{"gracePeriodSeconds":5}}`),
	}); err != nil {
		t.Fatal(apistatus.FromGRPC(err))
	}
	if pod := f.object(f.get("v1/pods", "default", "a")); pod.GetDeletionGracePeriodSeconds() == nil || *pod.GetDeletionGracePeriodSeconds() != 66 {
		t.Errorf("the pod is given %v", pod.GetDeletionGracePeriodSeconds())
	}
}

func TestWebhookSeesAnEvictionsOptions(t *testing.T) {
	t.Parallel()
	f, h := startMemory(t), startHooks(t)
	f.must(f.create("v1/serviceaccounts", "default", `{"metadata":{"name":"default"}}`))
	f.must(f.create("v1/pods", "default", `{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"i"}]}}`))
	defer f.configure("validatingwebhookconfigurations", "v", h.hook("v", "/allow",
		`,"rules":[{"operations":["CREATE","DELETE"],"apiGroups":[""],"apiVersions":["v1"],"resources":["pods","pods/eviction"]}]`))()
	if _, err := f.api.Create(f.ctx, &apiv1.CreateRequest{
		Version: "v1", Resource: "pods", Namespace: "default", Name: "a", Subresource: "eviction", FieldManager: "me", FieldValidation: "Warn",
		Object: []byte(`{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"a"}}`),
	}); err != nil {
		t.Fatal(apistatus.FromGRPC(err))
	}
	seen := h.requests()
	if len(seen) != 1 || seen[0].SubResource != "eviction" {
		t.Fatalf("reviews of an eviction: %+v", seen)
	}
	if got := string(seen[0].Options.Raw); got != `{"kind":"CreateOptions","apiVersion":"meta.k8s.io/v1","fieldManager":"me","fieldValidation":"Warn"}` {
		t.Errorf("the options are %s", got)
	}
}
