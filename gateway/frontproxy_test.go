package gateway_test

import (
	"crypto/tls"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc/metadata"

	"howdah.dev/gateway"
	"howdah.dev/kit/pki"
)

func TestFrontProxy(t *testing.T) {
	t.Parallel()
	proxies := setup(t) // another authority
	seen := make(chan metadata.MD, 1)
	c := setup(t, func(config *gateway.Config) {
		config.FrontProxy = &gateway.FrontProxy{
			CAs: authorities(t, proxies), AllowedNames: []string{"kubernetes-admin", "howdah:gateway"},
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
	c := setup(t, func(config *gateway.Config) { config.ClientCAs = authorities(t, others) })
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

// authorities are those that have signed the certificates of another cluster.
func authorities(t *testing.T, of *cluster) *pki.Authorities {
	t.Helper()
	a, err := pki.NewAuthorities(of.pki.PEM())
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// changing are authorities that are others whenever a test says so.
type changing struct {
	atomic.Pointer[pki.Authorities]
}

func (c *changing) Now() *pki.Authorities { return c.Load() }

// TestAuthoritiesChange takes users of an authority from when it is named until it is not named any more, on connections that stand, too.
func TestAuthoritiesChange(t *testing.T) {
	t.Parallel()
	before, after := setup(t), setup(t)
	var named, own changing
	named.Store(authorities(t, before))
	c := setup(t, func(config *gateway.Config) { config.ClientCAs, config.Authority = &named, &own })
	own.Store(authorities(t, c))
	of := func(cluster *cluster) *http.Client {
		client := cluster.client("admin")
		client.Transport.(*http.Transport).TLSClientConfig.RootCAs = c.pki.Pool()
		return client
	}
	one, other := of(before), of(after)
	ask := func(client *http.Client) int { return c.do(client, "GET", "/api/v1/pods/x", "").StatusCode }
	if code := ask(one); code == http.StatusUnauthorized {
		t.Errorf("a user of the authority: %d", code)
	}
	if code := ask(other); code != http.StatusUnauthorized {
		t.Errorf("a user of an authority that is not named: %d", code)
	}
	named.Store(authorities(t, after))
	if code := ask(one); code != http.StatusUnauthorized {
		t.Errorf("a user of an authority that is not named any more: %d", code)
	}
	if code := ask(other); code == http.StatusUnauthorized {
		t.Errorf("a user of an authority that is named now: %d", code)
	}
	own.Store(authorities(t, before))
	if code := ask(one); code == http.StatusUnauthorized {
		t.Errorf("a user of the cluster's new authority: %d", code)
	}
	if code := ask(c.client("admin")); code != http.StatusUnauthorized {
		t.Errorf("a user of the cluster's authority before: %d", code)
	}
	// Clients with several certificates choose one by the authorities that the handshake names.
	var asked [][]byte
	config := of(after).Transport.(*http.Transport).TLSClientConfig.Clone()
	certificates := config.Certificates
	config.GetClientCertificate = func(info *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		asked = info.AcceptableCAs
		return &certificates[0], nil
	}
	config.NextProtos = []string{"h2"}
	conn, err := tls.Dial("tcp", strings.TrimPrefix(c.url, "https://"), config)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if protocol := conn.ConnectionState().NegotiatedProtocol; protocol != "h2" || len(asked) != 2 {
		t.Errorf("%q, %d authorities", protocol, len(asked))
	}
}
