package gateway_test

import (
	"crypto/x509"
	"net/http"
	"slices"
	"testing"

	"google.golang.org/grpc/metadata"

	"howdah.dev/gateway"
)

func TestFrontProxy(t *testing.T) {
	t.Parallel()
	proxies := setup(t) // another authority
	seen := make(chan metadata.MD, 1)
	c := setup(t, func(config *gateway.Config) {
		config.FrontProxy = &gateway.FrontProxy{
			CAs: []*x509.Certificate{proxies.pki.Certificate}, AllowedNames: []string{"kubernetes-admin", "howdah:gateway"},
			UsernameHeaders: []string{"X-Remote-User"}, UIDHeaders: []string{"X-Remote-Uid"}, GroupHeaders: []string{"X-Remote-Group"}, ExtraPrefixes: []string{"X-Remote-Extra-"},
		}
	})
	c.Before = func(_ string, md metadata.MD) error { seen <- md; return nil }
	headers := []string{"X-Remote-User: jane", "X-Remote-Uid: 7", "X-Remote-Group: devs", "X-Remote-Extra-Scopes: a"}
	for _, tt := range []struct {
		name    string
		ours    bool
		role    string
		headers []string
		want    metadata.MD
	}{
		{"a proxy", false, "admin", headers, metadata.MD{"howdah-user": {"jane"}, "howdah-uid": {"7"}, "howdah-group": {"devs"}, "howdah-extra": {"scopes=a"}}},
		{"a proxy that names somebody in other letters", false, "admin", []string{"X-Remote-User: jürgen"}, metadata.MD{"howdah-user-bin": {"jürgen"}}},
		{"a proxy that names nobody", false, "admin", nil, nil},
		{"another certificate of the proxies' authority", false, "node1", headers, nil},
		{"a client that pretends to be a proxy", true, "admin", headers, metadata.MD{"howdah-user": {"kubernetes-admin"}, "howdah-group": {"system:masters"}}},
	} {
		client := proxies.client(tt.role)
		if tt.ours {
			client = c.client(tt.role)
		} else {
			config := client.Transport.(*http.Transport).TLSClientConfig
			config.RootCAs = c.pki.Pool()
		}
		response := c.do(client, "GET", "/api/v1/pods/x", "", tt.headers...)
		if tt.want == nil {
			if response.StatusCode != http.StatusUnauthorized {
				t.Errorf("%s: %s", tt.name, response.Status)
			}
			continue
		}
		md := <-seen
		for key, want := range tt.want {
			if !slices.Equal(md.Get(key), want) {
				t.Errorf("%s: %s is %v", tt.name, key, md.Get(key))
			}
		}
	}
}

// TestClientsOfOtherAuthorities knows users by certificates of a further authority, but none who would be a part of the cluster.
func TestClientsOfOtherAuthorities(t *testing.T) {
	t.Parallel()
	others, strangers := setup(t), setup(t)
	seen := make(chan metadata.MD, 1)
	c := setup(t, func(config *gateway.Config) { config.ClientCAs = []*x509.Certificate{others.pki.Certificate} })
	c.Before = func(_ string, md metadata.MD) error { seen <- md; return nil }
	for _, tt := range []struct {
		name, role string
		of         *cluster
		user       string // empty: 401
	}{
		{"the cluster's own", "admin", c, "kubernetes-admin"},
		{"the other authority's", "admin", others, "kubernetes-admin"},
		{"one that would be a gateway", "gateway", others, ""},
		{"a stranger's", "admin", strangers, ""},
	} {
		client := tt.of.client(tt.role)
		client.Transport.(*http.Transport).TLSClientConfig.RootCAs = c.pki.Pool()
		response := c.do(client, "GET", "/api/v1/pods/x", "")
		if tt.user == "" {
			if response.StatusCode != http.StatusUnauthorized {
				t.Errorf("%s: %s", tt.name, response.Status)
			}
			continue
		}
		if md := <-seen; !slices.Equal(md.Get("howdah-user"), []string{tt.user}) {
			t.Errorf("%s: %v", tt.name, md)
		}
	}
}
