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
