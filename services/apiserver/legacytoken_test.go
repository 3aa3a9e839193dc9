package apiserver

import (
	"encoding/base64"
	"strings"
	"testing"

	"google.golang.org/grpc/metadata"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"howdah.dev/kit/apistatus"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/token"
)

// TestATokenInASecret is good while the Secret holds it; the day of its use is found on the Secret, and its story in the audit log, refused or not.
func TestATokenInASecret(t *testing.T) {
	t.Parallel()
	f, events := audited(t, withTokens(t))
	f.must(f.create("v1/serviceaccounts", "default", `{"metadata":{"name":"default"}}`))
	f.must(f.create("v1/secrets", "default", `{"metadata":{"name":"s","annotations":{"kubernetes.io/service-account.name":"default"}},"type":"kubernetes.io/service-account-token"}`))
	resp, err := f.api.Create(f.ctx, &apiv1.CreateRequest{Version: "v1", Resource: "serviceaccounts", Namespace: "default", Name: "default", Subresource: "token",
		Object: []byte(`{"metadata":{"annotations":{"howdah.dev/secret-token":"true"}},"spec":{"boundObjectRef":{"kind":"Secret","apiVersion":"v1","name":"s"}}}`)})
	if err != nil {
		t.Fatal(err)
	}
	held := at(f.must(resp.GetObject(), nil), "status", "token").(string)
	ask := func(name string, more ...string) metav1.Status {
		ctx := metadata.NewOutgoingContext(t.Context(), metadata.Pairs(append(more, "authorization", "Bearer "+held)...))
		_, err := f.api.Get(ctx, &apiv1.GetRequest{Version: "v1", Resource: "pods", Namespace: "default", Name: name})
		return apistatus.Of(err)
	}
	if s := ask("before"); s.Code != 401 {
		t.Errorf("before the Secret holds it: %v", s)
	}
	f.must(f.change("v1/secrets", "default", "s", "merge-patch+json", `{"data":{"token":"`+base64.StdEncoding.EncodeToString([]byte(held))+`"}}`))
	if s := ask("good"); s.Code != 403 || !strings.Contains(s.Message, `"system:serviceaccount:default:default"`) {
		t.Errorf("with the Secret: %v", s)
	}
	if s := ask("other", "howdah-as-user", "jane"); s.Code != 403 || !strings.Contains(s.Message, "impersonate") {
		t.Errorf("as somebody else: %v", s)
	}
	f.await("the day of its use", func() bool {
		labels, _ := at(f.must(f.get("v1/secrets", "default", "s")), "metadata", "labels").(map[string]any)
		return labels[token.LastUsedLabel] != nil
	})
	review := f.must(f.create("authentication.k8s.io/v1/tokenreviews", "", `{"spec":{"token":"`+held+`"}}`))
	if at(review, "status", "authenticated") != true || at(review, "status", "user", "extra") != nil {
		t.Errorf("reviewed: %v", review)
	}
	f.must(f.change("v1/secrets", "default", "s", "merge-patch+json", `{"metadata":{"labels":{"`+token.InvalidSinceLabel+`":"2026-01-01"}}}`))
	if s := ask("marked"); s.Code != 401 {
		t.Errorf("marked: %v", s)
	}
	all := events()
	for name, want := range map[string]string{"good": "manual-secret=s", "other": "manual-secret=s", "marked": "invalidated=s/default"} {
		found := about(all, "get", name)
		key, value, _ := strings.Cut(want, "=")
		if len(found) != 1 || found[0].Annotations["authentication.k8s.io/legacy-token-"+key] != value ||
			found[0].Annotations["authentication.k8s.io/legacy-token"] != "system:serviceaccount:default:default" {
			t.Errorf("%s: %v", name, found)
		}
	}
	var reviews []auditv1.Event
	for _, e := range all {
		if e.ObjectRef != nil && e.ObjectRef.Resource == "tokenreviews" {
			reviews = append(reviews, e)
		}
	}
	if len(reviews) != 1 || reviews[0].Annotations["authentication.k8s.io/legacy-token-manual-secret"] != "s" {
		t.Errorf("the review: %v", reviews)
	}
}
