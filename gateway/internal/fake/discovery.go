package fake

import (
	"context"
	"strings"

	"google.golang.org/grpc/metadata"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

var documents = map[string]string{
	"/version": `{"major":"1","minor":"36","gitVersion":"v1.36.3+howdah"}`,
	"/api":     `{"kind":"APIVersions","versions":["v1"]}`,
	"/api/v1": `{"kind":"APIResourceList","groupVersion":"v1","resources":[
		{"name":"pods","singularName":"pod","namespaced":true,"kind":"Pod","verbs":["get","list","create","delete"]},
		{"name":"configmaps","singularName":"configmap","namespaced":true,"kind":"ConfigMap","verbs":["get","list"]}]}`,
	"/": "{\n  \"paths\": [\n    \"/.well-known/openid-configuration\",\n    \"/api\"\n  ]\n}",
	"/apis": `{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"apps","versions":[{"groupVersion":"apps/v1","version":"v1"}],
		"preferredVersion":{"groupVersion":"apps/v1","version":"v1"}}]}`,
	"/apis/apps/v1": `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"apps/v1","resources":[
		{"name":"deployments","singularName":"deployment","namespaced":true,"kind":"Deployment","verbs":["get","list"]}]}`,
	"/howdah/v1/authorities": `"a certificate"`,

	"/openapi/v2": `{"swagger":"2.0"}` + strings.Repeat(" ", 200<<10),
}

// etag is the ETag of every document.
const etag = `"0123"`

// Document implements DiscoveryService.
func (s *Server) Document(ctx context.Context, r *apiv1.DocumentRequest) (*apiv1.DocumentResponse, error) {
	if err := s.before(ctx, "Document", r); err != nil {
		return nil, err
	}
	if strings.HasSuffix(r.Path, "z") {
		return &apiv1.DocumentResponse{Object: []byte("ok"), ContentType: "text/plain; charset=utf-8"}, nil
	}
	text, ok := documents[r.Path]
	if !ok {
		return nil, apierrors.NewGenericServerResponse(404, "get", schema.GroupResource{}, "", "", 0, false)
	}
	if r.IfNoneMatch == etag {
		return &apiv1.DocumentResponse{Etag: etag, NotModified: true}, nil
	}
	return &apiv1.DocumentResponse{Object: []byte(text), ContentType: "application/json", Etag: etag}, nil
}

// Authenticate implements DiscoveryService: the token "good" is a service account's, and those who are known may do everything.
func (s *Server) Authenticate(ctx context.Context, _ *apiv1.AuthenticateRequest) (*apiv1.AuthenticateResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	if token := md.Get("authorization"); len(token) > 0 {
		if token[0] != "Bearer good" {
			return nil, apierrors.NewUnauthorized("Unauthorized")
		}
		return &apiv1.AuthenticateResponse{User: "system:serviceaccount:default:default", Groups: []string{"system:serviceaccounts"}}, nil
	}
	users := md.Get("howdah-user")
	if len(users) == 0 || users[0] == "system:anonymous" {
		return nil, apierrors.NewUnauthorized("Unauthorized")
	}
	return &apiv1.AuthenticateResponse{User: users[0], Groups: md.Get("howdah-group")}, nil
}

// Report implements DiscoveryService: what is reported is kept.
func (s *Server) Report(ctx context.Context, r *apiv1.ReportRequest) (*apiv1.ReportResponse, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	select {
	case s.Reports <- Report{r, md}:
	default:
	}
	return &apiv1.ReportResponse{}, nil
}

// Report is one that the server got, and what came with it.
type Report struct {
	Message  *apiv1.ReportRequest
	Metadata metadata.MD
}
