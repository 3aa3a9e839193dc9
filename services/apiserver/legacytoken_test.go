package apiserver

import (
	"testing"
	"time"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/token"
)

// TestATokenInASecretTellsItsLastUse uses a token and finds the day on its Secret.
func TestATokenInASecretTellsItsLastUse(t *testing.T) {
	t.Parallel()
	f := startMemory(t, withTokens(t))
	f.must(f.create("v1/serviceaccounts", "default", `{"metadata":{"name":"default"}}`))
	f.must(f.create("v1/secrets", "default", `{"metadata":{"name":"s","annotations":{"kubernetes.io/service-account.name":"default"}},"type":"kubernetes.io/service-account-token"}`))
	resp, err := f.api.Create(f.ctx, &apiv1.CreateRequest{Version: "v1", Resource: "serviceaccounts", Namespace: "default", Name: "default", Subresource: "token",
		Object: []byte(`{"spec":{"boundObjectRef":{"kind":"Secret","apiVersion":"v1","name":"s"}}}`)})
	if err != nil {
		t.Fatal(err)
	}
	held := at(f.must(resp.GetObject(), nil), "status", "token").(string)
	if _, err := f.docs.Authenticate(f.ctx, &apiv1.AuthenticateRequest{Token: held}); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(time.Minute)
	for {
		secret := f.must(f.get("v1/secrets", "default", "s"))
		if labels, ok := at(secret, "metadata", "labels").(map[string]any); ok && labels[token.LastUsedLabel] != nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%v", secret)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
