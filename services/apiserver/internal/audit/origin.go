package audit

import (
	"cmp"
	"context"
	"net"
	"strings"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"k8s.io/apimachinery/pkg/util/uuid"

	"howdah.dev/kit/rpc"
	"howdah.dev/services/apiserver/internal/authn"
	"howdah.dev/services/apiserver/internal/authz"
)

// Origin is where a request came from.
type Origin struct {
	AuditID, UserAgent, URI string
	SourceIPs               []string
}

// originKey is the metadata by which a gateway passes on an audit ID, the source addresses (separated by commas), the client's User-Agent
// and the request's URI, a line each.
const originKey = "howdah-origin-bin"

// OriginOf reads a call's metadata. Only gateways are believed; who calls directly gets an ID and has the address of its connection.
func OriginOf(ctx context.Context) Origin {
	var o Origin
	if from, ok := rpc.Peer(ctx); ok && from.In(authn.GatewayGroup) {
		if lines := strings.SplitN(first(ctx, originKey), "\n", 4); len(lines) == 4 {
			o.AuditID, o.UserAgent, o.URI = lines[0], strings.ToValidUTF8(lines[2], "?"), strings.ToValidUTF8(lines[3], "?")
			if lines[1] != "" {
				o.SourceIPs = strings.Split(lines[1], ",")
			}
		}
	} else if p, ok := peer.FromContext(ctx); ok && p.Addr != nil {
		if host, _, err := net.SplitHostPort(p.Addr.String()); err == nil {
			o.SourceIPs = []string{host}
		}
	}
	if o.AuditID == "" {
		o.AuditID = string(uuid.NewUUID())
	}
	if o.UserAgent == "" {
		o.UserAgent = first(ctx, "user-agent")
	}
	return o
}

// URIOf is the URI of the request that a call is made for, or that it would have.
func URIOf(ctx context.Context, a *authz.Attributes) string {
	r := Request{Path: a.Path, Group: a.Group, Version: a.Version, Resource: a.Resource, Subresource: a.Subresource, Namespace: a.Namespace, Name: a.Name}
	return cmp.Or(OriginOf(ctx).URI, r.path())
}

// path is the URI of a request that came without one.
func (r *Request) path() string {
	if r.Path != "" {
		return r.Path
	}
	parts := []string{"/api", r.Version}
	if r.Group != "" {
		parts = []string{"/apis", r.Group, r.Version}
	}
	if r.Namespace != "" && (r.Group != "" || r.Resource != "namespaces") { // a namespace is of itself, but its path is not in its own
		parts = append(parts, "namespaces", r.Namespace)
	}
	parts = append(parts, r.Resource)
	for _, part := range []string{r.Name, r.Subresource} {
		if part != "" {
			parts = append(parts, part)
		}
	}
	return strings.Join(parts, "/")
}

func first(ctx context.Context, key string) string {
	if values := metadata.ValueFromIncomingContext(ctx, key); len(values) > 0 {
		return values[0]
	}
	return ""
}
