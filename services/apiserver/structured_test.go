package apiserver

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/metadata"

	"howdah.dev/kit/rpc"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

func TestAuthorizersOfAFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "authorization.yaml")
	write := func(authorizers string) {
		t.Helper()
		text := "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers: " + authorizers
		if err := os.WriteFile(path+".next", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".next", path); err != nil {
			t.Fatal(err)
		}
	}
	write("[{type: AlwaysDeny, name: alwaysdeny}, {type: RBAC, name: rbac}]")
	f := startMemory(t, func(c *Config) { c.AuthorizationModes, c.Authorization.ConfigFile = nil, path })
	// Roles are made, since the file names RBAC; nobody's opinion is the reason of the one that denies.
	jane := f.as("jane")
	_, err := jane.list(&apiv1.ListRequest{Version: "v1", Resource: "pods"})
	if s := status(err); s.Code != 403 || !strings.HasSuffix(s.Message, "Everything is forbidden.") {
		t.Fatal(s.Message)
	}
	if _, err := f.get(rbacGroup+"clusterroles", "", "view"); err != nil {
		t.Error(err)
	}
}

func TestAnonymousRequestsOfAFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "authentication.yaml")
	text := "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\nanonymous: {enabled: true, conditions: [{path: /healthz}, {path: /api/v1/pods}]}"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f := startMemory(t, func(c *Config) { c.Authentication.ConfigFile = path })
	conn := f.dial(rpc.User{Name: "howdah:gateway", Groups: []string{"howdah:gateways"}})
	nobody := func(uri string) metadata.MD {
		return metadata.Pairs("howdah-user", "system:anonymous", "howdah-group", "system:unauthenticated", "howdah-origin-bin", "id\n\n\n"+uri)
	}
	for uri, want := range map[string]int32{"/healthz": 200, "/version": 401, "/livez?verbose": 401} {
		document, _, _ := strings.Cut(uri, "?")
		_, err := apiv1.NewDiscoveryServiceClient(conn).Document(metadata.NewOutgoingContext(f.ctx, nobody(uri)), &apiv1.DocumentRequest{Path: document})
		if code := status(err).Code; err == nil && want != 200 || err != nil && code != want {
			t.Errorf("%s: %v", uri, err)
		}
	}
	for uri, want := range map[string]int32{"/api/v1/pods?limit=5": 403, "/api/v1/namespaces/default/pods": 401} {
		stream, err := apiv1.NewObjectServiceClient(conn).List(metadata.NewOutgoingContext(f.ctx, nobody(uri)), &apiv1.ListRequest{Version: "v1", Resource: "pods"})
		if err == nil {
			_, err = stream.Recv()
		}
		if code := status(err).Code; code != want {
			t.Errorf("%s: %v", uri, err)
		}
	}
}

func TestFilesThatAreNotGood(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"no file":        {func(c *Config) { c.Authorization.ConfigFile = "/nonexistent" }, "no such file"},
		"both for users": {func(c *Config) { c.Authentication.ConfigFile, c.Authentication.OIDC = "/nonexistent", &OIDC{} }, "mutually exclusive"},
	} {
		cfg := Config{}
		c.change(&cfg)
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
