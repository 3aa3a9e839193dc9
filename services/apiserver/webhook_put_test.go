package apiserver

import (
	"encoding/json"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"

	"howdah.dev/kit/apistatus"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// Mutating webhooks see an update as it was sent, even one that conflicts; validating ones what becomes of it.
func TestWebhooksSeeUpdates(t *testing.T) {
	t.Parallel()
	f, h := startMemory(t), startHooks(t)
	f.must(f.create(configMaps, "default", guardedMap("x")))
	defer f.configure("mutatingwebhookconfigurations", "m", h.hook("m", "/mutate", ""))()
	defer f.configure("validatingwebhookconfigurations", "v", h.hook("v", "/validate", ""))()
	update := func(body string) error {
		_, err := f.api.Update(f.ctx, &apiv1.UpdateRequest{Version: "v1", Resource: "configmaps", Namespace: "default", Name: "x", Object: []byte(body)})
		return err
	}
	shown := func(r *admissionv1.AdmissionRequest) *corev1.ConfigMap {
		cm := &corev1.ConfigMap{}
		if err := json.Unmarshal(r.Object.Raw, cm); err != nil {
			t.Fatal(err)
		}
		return cm
	}
	h.requests()
	if err := update(`{"metadata":{"name":"x"},"data":{"a":"c"}}`); err != nil {
		t.Fatal(err)
	}
	seen := h.requests()
	if len(seen) < 2 { // more, where it was planned again
		t.Fatalf("%d reviews of one update", len(seen))
	}
	if cm := shown(seen[0]); cm.UID != "" || cm.ResourceVersion != "" || !cm.CreationTimestamp.IsZero() || cm.Data["a"] != "c" || len(cm.ManagedFields) == 0 {
		t.Errorf("mutating: %s", seen[0].Object.Raw)
	}
	if cm := shown(seen[len(seen)-1]); cm.UID == "" || cm.ResourceVersion == "" || cm.CreationTimestamp.IsZero() {
		t.Errorf("validating: %s", seen[len(seen)-1].Object.Raw)
	}
	if s := apistatus.Of(update(`{"metadata":{"name":"x","resourceVersion":"1"}}`)); s.Code != 409 {
		t.Errorf("an old version: %d %s", s.Code, s.Message)
	}
	if seen := h.requests(); len(seen) == 0 || shown(seen[0]).ResourceVersion != "1" { // it may have been asked of the newest state again
		t.Errorf("a conflict is shown %d times", len(seen))
	}
}
