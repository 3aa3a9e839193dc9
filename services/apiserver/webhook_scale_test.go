package apiserver

import (
	"encoding/json"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// TestWebhooksSeeWhoScaled has the Scales that mutating webhooks are shown say who set the replicas. Validating ones are not told.
func TestWebhooksSeeWhoScaled(t *testing.T) {
	t.Parallel()
	f, h := startMemory(t), startHooks(t)
	f.must(f.create("apps/v1/deployments", "default", `{"metadata":{"name":"d"},"spec":{"replicas":1,"selector":{"matchLabels":{"a":"b"}},
		"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`))
	rule := `,"rules":[{"operations":["UPDATE"],"apiGroups":["apps"],"apiVersions":["v1"],"resources":["deployments/scale"]}]`
	managed := func(raw []byte) []metav1.ManagedFieldsEntry {
		t.Helper()
		var scale autoscalingv1.Scale
		if err := json.Unmarshal(raw, &scale); err != nil {
			t.Fatal(err)
		}
		return scale.ManagedFields
	}
	shown := func(kind string, write func()) *admissionv1.AdmissionRequest {
		t.Helper()
		defer f.configure(kind, "w", h.hook("w", "/allow", rule))()
		h.requests()
		write()
		seen := h.requests()
		if len(seen) == 0 {
			t.Fatalf("%s: nothing is asked", kind)
		}
		return seen[len(seen)-1] // of several, where it was planned again
	}
	put := func() { f.must(f.scale("d", 2)) }
	patch := func() {
		f.must(f.change("apps/v1/deployments", "default", "d", "merge-patch+json", `{"spec":{"replicas":3}}`, func(r *apiv1.PatchRequest) { r.Subresource = "scale" }))
	}
	apply := func() {
		f.must(f.change("apps/v1/deployments", "default", "d", "apply-patch+yaml", `{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"d"},"spec":{"replicas":4}}`,
			func(r *apiv1.PatchRequest) { r.Subresource, r.FieldManager, r.Force = "scale", "applier", "true" }))
	}
	for _, c := range []struct {
		write     func()
		operation metav1.ManagedFieldsOperationType
	}{{put, "Update"}, {patch, "Update"}, {apply, "Apply"}} {
		seen := shown("mutatingwebhookconfigurations", c.write)
		now, before := managed(seen.Object.Raw), managed(seen.OldObject.Raw)
		if len(now) == 0 || len(before) == 0 {
			t.Fatalf("%s is shown as %s, before %s", c.operation, seen.Object.Raw, seen.OldObject.Raw)
		}
		if e := now[0]; e.APIVersion != "autoscaling/v1" || e.Operation != c.operation || string(e.FieldsV1.Raw) != `{"f:spec":{"f:replicas":{}}}` {
			t.Errorf("%s: %+v", c.operation, now)
		}
	}
	if seen := shown("validatingwebhookconfigurations", put); managed(seen.Object.Raw) != nil || managed(seen.OldObject.Raw) != nil {
		t.Errorf("a validating webhook is shown %s", seen.Object.Raw)
	}
}
