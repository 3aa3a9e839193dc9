package identity

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/metadata"
)

func certificate(verified bool, subject pkix.Name) *tls.ConnectionState {
	cert := &x509.Certificate{Raw: []byte("raw"), Subject: subject}
	state := &tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}}
	if verified {
		state.VerifiedChains = [][]*x509.Certificate{{cert}}
	}
	return state
}

func TestOf(t *testing.T) {
	t.Parallel()
	anonymous := metadata.MD{"howdah-user": {"system:anonymous"}, "howdah-group": {"system:unauthenticated"}}
	id := []string{"authentication.kubernetes.io%2Fcredential-id=X509SHA256%3Dd7439bee24773bcbfa2d0a97947ee36227b10d1022b1a55847e928965bb6bfde"}
	jane := pkix.Name{CommonName: "jane", Organization: []string{"devs", "ops"}}
	tests := []struct {
		name   string
		tls    *tls.ConnectionState
		header http.Header
		want   metadata.MD // nil is an error
	}{
		{"nothing", nil, nil, anonymous},
		{"certificate", certificate(true, jane), nil, metadata.MD{"howdah-user": {"jane"}, "howdah-group": {"devs", "ops"}, "howdah-extra": id}},
		{"certificate that nobody verified", certificate(false, jane), nil, anonymous},
		{"certificate without a name", certificate(true, pkix.Name{Organization: []string{"system:masters"}}), nil, anonymous},
		{"certificate with a name that is no header", certificate(true, pkix.Name{CommonName: "ja\nne"}), nil, nil},
		{"token", nil, http.Header{"Authorization": {"bearer  abc "}}, metadata.MD{"authorization": {"Bearer abc"}}},
		{"certificate before token", certificate(true, jane), http.Header{"Authorization": {"Bearer abc"}}, metadata.MD{"howdah-user": {"jane"}, "howdah-group": {"devs", "ops"}, "howdah-extra": id}},
		{"password", nil, http.Header{"Authorization": {"basic abc"}}, metadata.MD{
			"authorization": {"Basic abc"}, "howdah-user": {"system:anonymous"}, "howdah-group": {"system:unauthenticated"}}},
		{"another scheme", nil, http.Header{"Authorization": {"Digest abc"}}, anonymous},
		{"impersonation", nil, http.Header{"Authorization": {"Bearer abc"}, "Impersonate-User": {"jürgen"}, "Impersonate-Group": {"a b", "c"}, "Impersonate-Uid": {"u"},
			"Impersonate-Extra-Acme.com%2fproject": {"x=y", "z"}}, metadata.MD{
			"authorization": {"Bearer abc"}, "howdah-as-user": {"j%C3%BCrgen"}, "howdah-as-group": {"a+b", "c"}, "howdah-as-uid": {"u"},
			"howdah-as-extra": {"acme.com%2Fproject=x%3Dy", "acme.com%2Fproject=z"}}},
		{"impersonation of a part", nil, http.Header{"Impersonate-Group": {"g"}}, metadata.MD{
			"howdah-user": {"system:anonymous"}, "howdah-group": {"system:unauthenticated"}, "howdah-as-group": {"g"}}},
		{"impersonation by metadata", nil, http.Header{"Howdah-As-User": {"root"}, "Impersonate": {"root"}}, anonymous},
		{"empty token", nil, http.Header{"Authorization": {"Bearer "}}, anonymous},
		{"names of the client's own", nil, http.Header{"Howdah-User": {"root"}, "Howdah-Group": {"system:masters"}, "Grpc-Metadata-Howdah-User": {"root"}}, anonymous},
		{"token of a WebSocket", nil, http.Header{"Upgrade": {"websocket"}, "Sec-Websocket-Protocol": {"v4.channel.k8s.io, base64url.bearer.authorization.k8s.io.YWJj"}}, metadata.MD{"authorization": {"Bearer abc"}}},
		{"malformed token of a WebSocket", nil, http.Header{"Upgrade": {"websocket"}, "Sec-Websocket-Protocol": {"base64url.bearer.authorization.k8s.io.%"}}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			caller, err := Identifier{}.Of(&http.Request{TLS: tt.tls, Header: tt.header})
			if (err != nil) != (tt.want == nil) {
				t.Fatal(err)
			}
			if err != nil {
				return
			}
			if diff := cmp.Diff(tt.want, caller.Metadata()); diff != "" {
				t.Error(diff)
			}
		})
	}
}
