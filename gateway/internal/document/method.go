package document

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"google.golang.org/grpc/metadata"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"howdah.dev/gateway/internal/answer"
	"howdah.dev/gateway/internal/report"
	"howdah.dev/gateway/internal/request"
	"howdah.dev/kit/apistatus"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// OriginKey is the metadata that tells the API server where a request came from: its audit ID, the source addresses, the client's
// User-Agent and the URI, a line each. The API server believes it from gateways only.
const OriginKey = "howdah-origin-bin"

// allowed says whether a document can be had by the request's method, which is not GET. Some take any, as Kubernetes has them; the
// others take none, HEAD included. What is not there is not there by any method.
func (h *Handler) allowed(ctx context.Context, r *http.Request) error {
	path := r.URL.Path
	access := &apiv1.Access{Verb: strings.ToLower(r.Method), Path: path}
	if _, err := h.client.Authenticate(ctx, &apiv1.AuthenticateRequest{Access: access}); err != nil {
		return err
	}
	if byAny(path) {
		return nil
	}
	if _, err := h.lookUp(ctx, path); absent(err) {
		return &apierrors.StatusError{ErrStatus: apistatus.Of(err)}
	}
	return &apierrors.StatusError{ErrStatus: answer.NotAllowed()}
}

// lookUp reads a document in the caller's name for the gateway's own use: that is not the client's request, and does not count as its
// answer.
func (h *Handler) lookUp(ctx context.Context, path string) (*apiv1.DocumentResponse, error) {
	md, _ := metadata.FromOutgoingContext(ctx)
	md = md.Copy()
	delete(md, OriginKey)
	return h.client.Document(report.With(metadata.NewOutgoingContext(ctx, md), nil), &apiv1.DocumentRequest{Path: path, Accept: answer.JSON})
}

// absent reports whether a call failed because there is nothing.
func absent(err error) bool { return err != nil && apistatus.Of(err).Code == http.StatusNotFound }

// byAny reports whether what stands at the path is answered to any method: all but what is about a version, and those that Kubernetes
// describes in its OpenAPI.
func byAny(path string) bool {
	switch parts := strings.Split(strings.Trim(path, "/"), "/"); parts[0] {
	case "api", "version", ".well-known", "openid":
		return false
	case "apis":
		return len(parts) <= 2
	default:
		return true
	}
}

// Unusable says why a resource's path cannot be used by the request's method: 405, or 404 where discovery tells of no such path. md says
// who asks; who may not have discovery is told of the method.
func (h *Handler) Unusable(r *http.Request, info request.Info, md metadata.MD) error {
	path := "/api/" + info.Version
	if info.Group != "" {
		path = "/apis/" + info.Group + "/" + info.Version
	}
	resp, err := h.lookUp(metadata.NewOutgoingContext(r.Context(), md), path)
	if absent(err) {
		return &apierrors.StatusError{ErrStatus: apistatus.Of(err)}
	}
	var list metav1.APIResourceList
	if err == nil && json.Unmarshal(resp.GetObject(), &list) == nil && !hasPath(list, info) {
		return &apierrors.StatusError{ErrStatus: answer.NotFound()}
	}
	return &apierrors.StatusError{ErrStatus: answer.NotAllowed()}
}

// hasPath reports whether one of the resources is at the path.
func hasPath(list metav1.APIResourceList, info request.Info) bool {
	name := info.Resource
	if info.Subresource != "" {
		name += "/" + info.Subresource
	}
	for _, one := range list.APIResources {
		if one.Name != name {
			continue
		}
		if !one.Namespaced {
			return info.Namespace == ""
		}
		return info.Namespace != "" || info.Name == "" // a list may be of all namespaces
	}
	return false
}
