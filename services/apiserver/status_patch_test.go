package apiserver

import (
	"testing"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// A default of the status may depend on the spec, also where only the status is patched.
func TestStatusPatchIsDefaultedByTheSpec(t *testing.T) {
	f := startMemory(t)
	f.must(f.create("v1/services", "default", `{"metadata":{"name":"lb"},"spec":{"type":"LoadBalancer","ports":[{"port":80}]}}`))
	resp, err := f.api.Patch(f.ctx, &apiv1.PatchRequest{Version: "v1", Resource: "services", Namespace: "default", Name: "lb", Subresource: "status",
		ContentType: "application/merge-patch+json", Object: []byte(`{"status":{"loadBalancer":{"ingress":[{"ip":"203.0.113.1"}]}}}`)})
	got := f.must(resp.GetObject(), err)
	ingress, _ := at(got, "status", "loadBalancer", "ingress").([]any)
	if len(ingress) != 1 || at(ingress[0], "ipMode") != "VIP" {
		t.Errorf("ingress %v", ingress)
	}
	if at(got, "spec", "type") != "LoadBalancer" {
		t.Errorf("the spec is gone: %v", got["spec"])
	}
}

// Whoever mutates a status sees the whole object, as it is after the patch.
func TestStatusPatchIsMutatedAsAWhole(t *testing.T) {
	t.Parallel()
	f := startMemory(t)
	f.must(f.create("v1/serviceaccounts", "default", `{"metadata":{"name":"default"}}`))
	f.must(f.create("v1/pods", "default", `{"metadata":{"name":"p"},"spec":{"schedulerName":"mine","containers":[{"name":"c","image":"i"}]}}`))
	f.must(f.create("v1/nodes", "", `{"metadata":{"name":"n"},"spec":{"unschedulable":true}}`))
	f.bind("mutating", `"matchConstraints":{"resourceRules":[{"operations":["UPDATE"],"apiGroups":[""],"apiVersions":["v1"],"resources":["pods/status","nodes/status"]}]},
		"failurePolicy":"Fail","reinvocationPolicy":"Never","mutations":[{"patchType":"JSONPatch","jsonPatch":{"expression":"[JSONPatch{op: 'add', path: '/status/phase', value: request.resource.resource == 'nodes' ? (object.spec.unschedulable ? 'Pending' : 'Running') : (object.spec.schedulerName == 'mine' && object.spec.containers.size() == 1 && object.status.message == 'hi' ? 'Running' : 'Failed')}]"}}]`, "")
	for media, body := range map[string]string{
		"merge-patch+json": `{"status":{"message":"hi"}}`, "strategic-merge-patch+json": `{"status":{"message":"hi"}}`, "json-patch+json": `[{"op":"add","path":"/status/message","value":"hi"}]`,
	} {
		for resource, name := range map[string]string{"pods": "p", "nodes": "n"} {
			namespace := ""
			if resource == "pods" {
				namespace = "default"
			} else if media == "json-patch+json" {
				continue
			}
			got := f.must(f.change("v1/"+resource, namespace, name, media, body, func(req *apiv1.PatchRequest) { req.Subresource, req.DryRun = "status", []string{"All"} }))
			if want := map[string]any{"pods": "Running", "nodes": "Pending"}[resource]; at(got, "status", "phase") != want {
				t.Errorf("%s of %s: %v", media, resource, got["status"])
			}
		}
	}
}
