package apiserver

import (
	"context"
	"strings"
	"testing"
	"time"

	"howdah.dev/kit/apistatus"
	"howdah.dev/kit/rpc"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/signer/signertest"
)

// TestExternalSigner has tokens signed beside the server, which is ready when the signer has answered, and not before.
func TestExternalSigner(t *testing.T) {
	t.Parallel()
	other := signertest.New(t)
	late := make(chan struct{})
	time.AfterFunc(100*time.Millisecond, func() { defer close(late); other.Listen(t) })
	f := startMemory(t, func(c *Config) { c.Authentication.SigningEndpoint = other.Path })
	<-late
	f.must(f.create("v1/serviceaccounts", "default", `{"metadata":{"name":"default"}}`))
	resp, err := f.api.Create(f.ctx, &apiv1.CreateRequest{Version: "v1", Resource: "serviceaccounts", Namespace: "default", Name: "default", Subresource: "token", Object: []byte(`{"spec":{}}`)})
	if err != nil {
		t.Fatal(apistatus.FromGRPC(err))
	}
	text := at(f.must(resp.GetObject(), nil), "status", "token").(string)
	gateway := f.dial(rpc.User{Name: "howdah:gateway", Groups: []string{"howdah:gateways"}})
	who, err := apiv1.NewDiscoveryServiceClient(gateway).Authenticate(f.ctx, &apiv1.AuthenticateRequest{Token: text})
	if err != nil || who.GetUser() != "system:serviceaccount:default:default" {
		t.Errorf("%v, %v", who, err)
	}
	keys, err := f.docs.Document(f.ctx, &apiv1.DocumentRequest{Path: "/openid/v1/jwks"})
	if err != nil || !strings.Contains(string(keys.GetObject()), `"kid":"one"`) {
		t.Errorf("%s, %v", keys.GetObject(), err)
	}
}

// TestExternalSignerThatCannotBeUsed ends the server.
func TestExternalSignerThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	other := signertest.New(t)
	other.Change(func(s *signertest.Signer) { s.Seconds = 1 })
	other.Listen(t)
	server, err := New(Config{DatabaseURL: "postgres://nobody@127.0.0.1:1/none", Authentication: Authentication{SigningEndpoint: other.Path}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := server.Run(ctx); err == nil || !strings.Contains(err.Error(), "while setting up external-jwt-signer: max token life supported by external-jwt-signer (1s) is less than acceptable (min 600s)") {
		t.Errorf("%v", err)
	}
}
