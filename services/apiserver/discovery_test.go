package apiserver

import (
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"

	discoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"google.golang.org/grpc/metadata"

	"howdah.dev/kit/apistatus"
	"howdah.dev/kit/rpc"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

func TestDiscovery(t *testing.T) {
	f := startMemory(t)
	get := func(path, accept string) *apiv1.DocumentResponse {
		t.Helper()
		resp, err := f.docs.Document(f.ctx, &apiv1.DocumentRequest{Path: path, Accept: accept})
		if err != nil {
			t.Fatalf("%s: %v", path, status(err))
		}
		return resp
	}
	const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"
	t.Run("aggregated", func(t *testing.T) {
		resp := get("/apis", aggregated)
		var list discoveryv2.APIGroupDiscoveryList
		if err := json.Unmarshal(resp.GetObject(), &list); err != nil || list.Items[0].Name != "apiregistration.k8s.io" || list.Items[1].Name != "apps" || list.Items[1].Versions[0].Version != "v1" ||
			list.Items[len(list.Items)-1].Name != "extensions" {
			t.Errorf("%v %+v", err, list.Items)
		}
		if resp.GetContentType() != "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList" || resp.GetEtag() == "" {
			t.Errorf("%s %s", resp.GetContentType(), resp.GetEtag())
		}
		same, err := f.docs.Document(f.ctx, &apiv1.DocumentRequest{Path: "/apis", Accept: aggregated, IfNoneMatch: resp.GetEtag()})
		if err != nil || !same.GetNotModified() || len(same.GetObject()) != 0 {
			t.Errorf("by its ETag: %v %v", same, err)
		}
		binary := get("/api", strings.ReplaceAll(aggregated, "application/json", protobuf))
		var unknown runtime.Unknown
		if err := unknown.Unmarshal(binary.GetObject()[4:]); err != nil {
			t.Fatal(err)
		}
		list = discoveryv2.APIGroupDiscoveryList{}
		if err := list.Unmarshal(unknown.Raw); err != nil || len(list.Items) != 1 || len(list.Items[0].Versions[0].Resources) < 9 {
			t.Errorf("protobuf: %v %+v", err, list)
		}
		_, err = f.docs.Document(f.ctx, &apiv1.DocumentRequest{Path: "/apis", Accept: "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"})
		if status := apistatus.Of(apistatus.FromGRPC(err)); status.Code != 406 {
			t.Errorf("a removed version of the document: %v", err)
		}
	})
	t.Run("plain", func(t *testing.T) {
		var resources metav1.APIResourceList
		if err := json.Unmarshal(get("/api/v1", "").GetObject(), &resources); err != nil {
			t.Fatal(err)
		}
		found := map[string]metav1.APIResource{}
		for _, r := range resources.APIResources {
			found[r.Name] = r
		}
		for _, name := range []string{"pods", "pods/status", "pods/binding", "pods/log", "pods/exec", "pods/eviction", "serviceaccounts/token", "namespaces/finalize", "nodes"} {
			if _, ok := found[name]; !ok {
				t.Errorf("%s is missing", name)
			}
		}
		if e := found["pods/eviction"]; e.Group != "policy" || e.Version != "v1" || e.Kind != "Eviction" {
			t.Errorf("%+v", e)
		}
		var groups metav1.APIGroupList
		if err := json.Unmarshal(get("/apis", "").GetObject(), &groups); err != nil || groups.Kind != "APIGroupList" {
			t.Errorf("%v %+v", err, groups)
		}
		for _, g := range groups.Groups {
			get("/apis/"+g.Name, "")
			for _, v := range g.Versions {
				get("/apis/"+v.GroupVersion, "")
			}
		}
	})
	t.Run("others", func(t *testing.T) {
		for _, path := range []string{"/", "/version", "/healthz", "/livez", "/readyz", "/readyz/etcd", "/.well-known/openid-configuration", "/openid/v1/jwks", "/openapi/v2", "/openapi/v3", "/openapi/v3/apis/apps/v1"} {
			if len(get(path, "").GetObject()) == 0 {
				t.Errorf("%s is empty", path)
			}
		}
		for _, path := range []string{"/nonsense", "/apis/nonsense", "/api/v2", "/readyz/nonsense", "/openapi/v3/apis/nonsense/v1"} {
			if _, err := f.docs.Document(f.ctx, &apiv1.DocumentRequest{Path: path}); status(err).Code != 404 {
				t.Errorf("%s: %v", path, err)
			}
		}
	})
	t.Run("by role", func(t *testing.T) {
		docs := apiv1.NewDiscoveryServiceClient(f.dial(rpc.User{Name: "howdah:gateway", Groups: []string{"howdah:gateways"}}))
		for _, c := range []struct {
			user, path string
			want       int32
		}{
			{"system:anonymous", "/version", 200}, {"system:anonymous", "/readyz", 200}, {"system:anonymous", "/apis", 403}, {"system:anonymous", "/readyz/etcd", 403},
			{"system:anonymous", "/openapi/v2", 403}, {"system:anonymous", "/nonsense", 403}, {"jane", "/apis", 200}, {"jane", "/openapi/v3", 200},
			{"jane", "/openid/v1/jwks", 403}, {"jane", "/nonsense", 403}, {"", "/version", 401},
			{"jane", "/howdah/v1/authorities", 404}, {"system:anonymous", "/howdah/v1/authorities", 403},
		} {
			md := metadata.Pairs("howdah-user", c.user)
			if c.user == "system:anonymous" {
				md.Append("howdah-group", "system:unauthenticated")
			}
			ctx := metadata.NewOutgoingContext(f.ctx, md)
			_, err := docs.Document(ctx, &apiv1.DocumentRequest{Path: c.path})
			if code := status(err).Code; c.want == 200 && err != nil || c.want != 200 && code != c.want {
				t.Errorf("%s for %s: %v", c.path, c.user, err)
			}
		}
		_, err := docs.Document(metadata.NewOutgoingContext(f.ctx, metadata.Pairs("howdah-user", "system:anonymous", "howdah-group", "system:unauthenticated")), &apiv1.DocumentRequest{Path: "/apis"})
		if got := status(err).Message; got != `forbidden: User "system:anonymous" cannot get path "/apis"` {
			t.Error(got)
		}
	})
}

// TestAuthoritiesAreTold has a node ask by which authorities the cluster is, as they are now.
func TestAuthoritiesAreTold(t *testing.T) {
	t.Parallel()
	var now atomic.Pointer[[]byte]
	tell := func(text string) { b := []byte(text); now.Store(&b) }
	tell("one")
	f := startMemory(t, func(c *Config) { c.Authorities = func() []byte { return *now.Load() } })
	docs := apiv1.NewDiscoveryServiceClient(f.dial(rpc.User{Name: "system:node:n1", Groups: []string{"system:nodes"}}))
	ask := func(accept, etag string) (*apiv1.DocumentResponse, error) {
		return docs.Document(f.ctx, &apiv1.DocumentRequest{Path: "/howdah/v1/authorities", Accept: accept, IfNoneMatch: etag})
	}
	first, err := ask("", "")
	if err != nil || string(first.GetObject()) != "one" || first.GetContentType() != "application/x-pem-file" || first.GetEtag() == "" {
		t.Fatalf("%v %v", first, err)
	}
	if again, err := ask("application/json, */*", first.GetEtag()); err != nil || !again.GetNotModified() {
		t.Errorf("the same again: %v %v", again, err)
	}
	tell("two")
	if next, err := ask("application/x-pem-file", first.GetEtag()); err != nil || string(next.GetObject()) != "two" {
		t.Errorf("after a change: %v %v", next, err)
	}
	if _, err := ask("application/json", ""); status(err).Code != 406 {
		t.Errorf("in JSON: %v", err)
	}
}
