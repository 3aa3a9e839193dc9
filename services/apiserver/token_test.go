package apiserver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"strings"
	"testing"

	"google.golang.org/grpc/metadata"

	"howdah.dev/kit/apistatus"
	"howdah.dev/kit/rpc"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// withTokens has the server issue tokens, signed with a key of its own.
func withTokens(t *testing.T) func(*Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return func(c *Config) { c.ServiceAccountKey = key }
}

func TestServiceAccountTokens(t *testing.T) {
	f := startMemory(t, withTokens(t))
	f.must(f.create("v1/serviceaccounts", "default", `{"metadata":{"name":"default"}}`))
	f.must(f.create(rbacGroup+"rolebindings", "default", `{"metadata":{"name":"v"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"system:aggregate-to-view"},`+
		`"subjects":[{"kind":"ServiceAccount","name":"default"}]}`))
	pod := f.must(f.create("v1/pods", "default", `{"metadata":{"name":"p"},"spec":{"nodeName":"n1","containers":[{"name":"c","image":"i"}]}}`))
	uid := at(pod, "metadata", "uid").(string)
	f.fresh()
	request := func(api apiv1.ObjectServiceClient, body string) (string, error) {
		resp, err := api.Create(f.ctx, &apiv1.CreateRequest{Version: "v1", Resource: "serviceaccounts", Namespace: "default", Name: "default", Subresource: "token", Object: []byte(body)})
		if err != nil {
			return "", apistatus.FromGRPC(err)
		}
		return at(f.must(resp.GetObject(), nil), "status", "token").(string), nil
	}
	gateway := f.dial(rpc.User{Name: "howdah:gateway", Groups: []string{"howdah:gateways"}})
	who := func(token string) (string, error) {
		resp, err := apiv1.NewDiscoveryServiceClient(gateway).Authenticate(f.ctx, &apiv1.AuthenticateRequest{Token: token})
		return resp.GetUser(), err
	}
	token, err := request(f.api, `{"spec":{"boundObjectRef":{"kind":"Pod","apiVersion":"v1","name":"p","uid":"`+uid+`"},"expirationSeconds":3607}}`)
	if err != nil {
		t.Fatal(err)
	}
	if name, err := who(token); err != nil || name != "system:serviceaccount:default:default" {
		t.Fatalf("%q %v", name, err)
	}
	api := apiv1.NewObjectServiceClient(gateway)
	ctx := metadata.NewOutgoingContext(f.ctx, metadata.Pairs("authorization", "Bearer "+token))
	if _, err := api.Get(ctx, &apiv1.GetRequest{Version: "v1", Resource: "pods", Namespace: "default", Name: "p"}); err != nil {
		t.Errorf("get with the token: %v", err)
	}
	for name, bad := range map[string]string{
		"signature": token[:len(token)-4] + "AAAA",
		"claims":    strings.Replace(token, ".", ".e30", 1),
		"none":      "eyJhbGciOiJub25lIn0." + strings.Split(token, ".")[1] + ".",
		"nonsense":  "x",
	} {
		if _, err := who(bad); status(err).Code != 401 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := request(f.api, `{"spec":{"expirationSeconds":5}}`); status(err).Code != 422 || !strings.Contains(err.Error(), "may not specify a duration less than 10 minutes") {
		t.Errorf("a short one: %v", err)
	}
	other, err := request(f.api, `{"spec":{"audiences":["elsewhere"]}}`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := who(other); status(err).Code != 401 {
		t.Errorf("another audience: %v", err)
	}
	node := apiv1.NewObjectServiceClient(f.dial(rpc.User{Name: "system:node:n1", Groups: []string{"system:nodes"}}))
	if _, err := request(node, `{"spec":{"boundObjectRef":{"kind":"Pod","apiVersion":"v1","name":"p","uid":"`+uid+`"}}}`); err != nil {
		t.Errorf("the pod's node: %v", err)
	}
	if _, err := request(node, `{}`); status(err).Code != 403 {
		t.Errorf("a node without a pod: %v", err)
	}
	stranger := apiv1.NewObjectServiceClient(f.dial(rpc.User{Name: "system:node:n2", Groups: []string{"system:nodes"}}))
	if _, err := request(stranger, `{"spec":{"boundObjectRef":{"kind":"Pod","apiVersion":"v1","name":"p","uid":"`+uid+`"}}}`); status(err).Code != 403 {
		t.Errorf("another node: %v", err)
	}
	if _, err := f.api.Delete(f.ctx, &apiv1.DeleteRequest{Version: "v1", Resource: "pods", Namespace: "default", Name: "p", GracePeriodSeconds: "0"}); err != nil {
		t.Fatal(err)
	}
	// This connection has nobody who tells what was written last: the cache hears of it by itself.
	f.await("401 after the pod is gone", func() bool {
		_, err := who(token)
		return status(err).Code == 401
	})
}
