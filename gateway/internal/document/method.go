package document

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"howdah.dev/gateway/internal/answer"
	"howdah.dev/gateway/internal/report"
	"howdah.dev/gateway/internal/request"
	"howdah.dev/kit/apistatus"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// OriginKey is the metadata that tells the API server where a request came from: its audit ID, the source addresses, the client's
// User-Agent and the URI, a line each. The API server believes it from gateways only.
const OriginKey = "howdah-origin-bin"

// allowed says whether a document can be had by a request whose method is not GET, or whose body is in an encoding that is not taken. Some take any,
// as Kubernetes has them; the others take none, HEAD included. What is not there is not there by any method.
func (h *Handler) allowed(ctx context.Context, w http.ResponseWriter, r *http.Request) error {
	path := r.URL.Path
	access := &apiv1.Access{Verb: strings.ToLower(r.Method), Path: path}
	var told metadata.MD
	_, err := h.client.Authenticate(ctx, &apiv1.AuthenticateRequest{Access: access}, grpc.Header(&told))
	answer.Classified(w.Header(), told)
	if err != nil {
		return err
	}
	if byAny(path) {
		return nil
	}
	_, custom, err := h.lookUp(ctx, path)
	switch {
	case absent(err):
		return &apierrors.StatusError{ErrStatus: apistatus.Of(err)}
	case custom: // of which one handler tells, whatever the method is
		return nil
	case r.Method == http.MethodGet:
		return &apierrors.StatusError{ErrStatus: answer.Unsupported()}
	}
	return &apierrors.StatusError{ErrStatus: answer.NotAllowed()}
}

// consumed reports whether a document's handler takes a body of the request's Content-Type, though it reads none.
func consumed(r *http.Request) bool {
	said := r.Header.Get("Content-Type")
	if said == "" {
		return true
	}
	var taken []string
	switch root, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/"); root {
	case "api", "apis":
		taken = []string{answer.JSON, answer.YAML, answer.Protobuf}
	case "version":
		taken = []string{answer.JSON}
	default:
		return true
	}
	for one := range strings.SplitSeq(said, ",") {
		media, _, _ := strings.Cut(one, ";")
		if slices.Contains(taken, strings.TrimSpace(media)) {
			return true
		}
	}
	return false
}

// customKey is the metadata by which the API server says that a document lists custom resources.
const customKey = "howdah-custom"

// lookUp reads a document in the caller's name for the gateway's own use: that is not the client's request, and does not count as its
// answer. custom says that it lists custom resources.
func (h *Handler) lookUp(ctx context.Context, path string) (resp *apiv1.DocumentResponse, custom bool, err error) {
	md, _ := metadata.FromOutgoingContext(ctx)
	md = md.Copy()
	delete(md, OriginKey)
	var told metadata.MD
	ctx = report.With(metadata.NewOutgoingContext(ctx, md), nil)
	resp, err = h.client.Document(ctx, &apiv1.DocumentRequest{Path: path, Accept: answer.JSON}, grpc.Header(&told))
	return resp, len(told.Get(customKey)) > 0, err
}

// absent reports whether a call failed because there is nothing.
func absent(err error) bool { return err != nil && apistatus.Of(err).Code == http.StatusNotFound }

// aggregation is the group of API services, which in Kubernetes the aggregator serves itself.
const aggregation = "apiregistration.k8s.io"

// byAny reports whether what stands at the path is answered to any method: all but what is about a version, and those that Kubernetes
// describes in its OpenAPI.
func byAny(path string) bool {
	switch parts := strings.Split(strings.Trim(path, "/"), "/"); parts[0] {
	case "api", "version", ".well-known", "openid":
		return false
	case "apis":
		return len(parts) == 1 || len(parts) == 2 && !strings.HasSuffix(path, "//") && parts[1] != aggregation
	default:
		return true
	}
}

// Unusable says why a resource's path cannot be used by the request's method: 405, or 404 where discovery tells of no such path. md says
// who asks; who may not have discovery is told of the method. Without an error, the path is a custom resource's that takes the method as
// what is returned.
func (h *Handler) Unusable(r *http.Request, info request.Info, md metadata.MD) (request.Info, error) {
	path := "/api/" + info.Version
	if info.Group != "" {
		path = "/apis/" + info.Group + "/" + info.Version
	}
	resp, custom, err := h.lookUp(metadata.NewOutgoingContext(r.Context(), md), path)
	if absent(err) {
		return info, &apierrors.StatusError{ErrStatus: apistatus.Of(err)}
	}
	var list metav1.APIResourceList
	if err == nil && json.Unmarshal(resp.GetObject(), &list) == nil {
		across := info
		switch verb := info.Authorized(r.Method, r.URL); {
		case !custom && info.Nameless:
			across.Name = "-"
		case custom && verb != request.List && verb != request.Watch: // which alone are of all namespaces
			across.Name = cmp.Or(info.Name, "-")
		}
		across.Spaceless = info.Spaceless && !custom
		found := hasPath(list, across)
		switch {
		case found && custom:
			return info.OfCustom(r.Method, r.URL)
		case !found && custom:
			return info, absentCustom(list, across)
		case !found || info.Beyond():
			return info, &apierrors.StatusError{ErrStatus: answer.NotFound()}
		case info.Nameless && r.Method == http.MethodPatch && info.Subresource != "proxy" && takes(list, info, r.Method):
			info.Verb = request.Patch // whose kind is judged before the name is asked for
			return info, nil
		case info.Nameless && takes(list, info, r.Method):
			return info, apierrors.NewBadRequest("name must be provided")
		}
	}
	return info, &apierrors.StatusError{ErrStatus: answer.NotAllowed()}
}

// absentCustom is the refusal of a path at which there is no custom resource: of a subresource that its kind has not, or of anything else.
func absentCustom(list metav1.APIResourceList, info request.Info) error {
	whole := info
	if whole.Subresource = ""; info.Subresource != "" && hasPath(list, whole) {
		name := info.Name
		if info.Nameless {
			name = ""
		}
		return apierrors.NewNotFound(schema.GroupResource{Group: info.Group, Resource: info.Resource}, name)
	}
	return &apierrors.StatusError{ErrStatus: answer.PageNotFound()}
}

// hasPath reports whether one of the resources is at the path.
func hasPath(list metav1.APIResourceList, info request.Info) bool {
	name := info.Resource
	if info.Subresource != "" {
		name += "/" + info.Subresource
	}
	for _, one := range list.APIResources {
		if one.Name != name || info.Name != "" && slices.Equal(one.Verbs, metav1.Verbs{"create"}) && info.Subresource == "" { // nothing is there by name
			continue
		}
		if !one.Namespaced {
			return info.Namespace == "" && !info.Spaceless
		}
		return info.Namespace != "" || info.Spaceless || info.Name == "" // a list may be of all namespaces
	}
	return false
}

// takes reports whether the subresource takes the method. A proxy takes any.
func takes(list metav1.APIResourceList, info request.Info, method string) bool {
	verb := request.Info{Name: "-"}.Authorized(method, nil)
	at := slices.IndexFunc(list.APIResources, func(one metav1.APIResource) bool { return one.Name == info.Resource+"/"+info.Subresource })
	return info.Subresource == "proxy" || at >= 0 && method != http.MethodHead && slices.Contains(list.APIResources[at].Verbs, verb)
}
