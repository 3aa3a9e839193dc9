// Package document serves discovery, OpenAPI, version and health: whatever
// the API server tells about itself.
package document

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"howdah.dev/kit/apistatus"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"

	"howdah.dev/gateway/internal/answer"
	"howdah.dev/gateway/internal/compress"
)

// roots are the first parts of the paths that are documents.
var roots = []string{"api", "apis", "version", "openapi", "healthz", "livez", "readyz", "openid", ".well-known"}

// authorities is the one document among howdah's own paths.
const authorities = "/howdah/v1/authorities"

// Handler serves documents.
type Handler struct {
	client apiv1.DiscoveryServiceClient
	seen   sightings
	packed *packed
}

// New returns a handler that asks the client.
func New(client apiv1.DiscoveryServiceClient) *Handler {
	return &Handler{client: client, packed: newPacked()}
}

// Is reports whether a path is a document's; the root is one.
func Is(path string) bool {
	root, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return root == "" || path == "/index.html" || path == authorities || slices.Contains(roots, root) || strings.HasPrefix(path, "/debug/api_priority_and_fairness/")
}

// Health reports whether a path is a health check.
func Health(path string) bool {
	root, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	return root == "healthz" || root == "livez" || root == "readyz"
}

// Serve answers with the document at the request's path; md says who asks.
func (h *Handler) Serve(w http.ResponseWriter, r *http.Request, md metadata.MD) {
	ctx := metadata.NewOutgoingContext(r.Context(), md)
	if r.Method != http.MethodGet || !consumed(r) {
		if err := h.allowed(ctx, w, r); err != nil {
			fail(w, r, err)
			return
		}
	}
	var told metadata.MD
	resp, err := h.client.Document(ctx, &apiv1.DocumentRequest{
		Path: r.URL.Path, Query: r.URL.RawQuery,
		Accept: strings.Join(r.Header.Values("Accept"), ", "), IfNoneMatch: known(r),
	}, grpc.Header(&told))
	answer.Classified(w.Header(), told)
	header := w.Header()
	if err != nil {
		if apistatus.Of(err).Code == http.StatusNotAcceptable && strings.HasPrefix(r.URL.Path, openAPI) {
			vary(header, r.URL.Path)
		}
		fail(w, r, err)
		return
	}
	if resp.GetEtag() != "" || strings.HasPrefix(r.URL.Path, openAPI) { // Kubernetes says it of no other document
		vary(header, r.URL.Path)
	}
	if Health(r.URL.Path) && strings.Count(r.URL.Path, "/") == 1 { // of all checks together, as Kubernetes does
		header.Set("X-Content-Type-Options", "nosniff")
	}
	if resp.MaxAgeSeconds != nil {
		header.Set("Cache-Control", fmt.Sprintf("public, max-age=%d", resp.GetMaxAgeSeconds()))
	}
	if strings.HasPrefix(r.URL.Path, openAPI) {
		h.serveOpenAPI(w, r, resp)
		return
	}
	if etag := resp.GetEtag(); etag != "" {
		header.Set("Etag", etag)
	}
	if strings.Contains(resp.GetContentType(), "as=APIGroupDiscoveryList") {
		header.Set("Cache-Control", "public")
	}
	if resp.GetNotModified() {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	body, name := resp.GetObject(), nameOf(resp)
	if strings.HasPrefix(r.URL.Path, "/api") && resp.GetContentType() == answer.JSON && answer.Pretty(r) {
		body, name = answer.Indented(body), "" // the name is that of the other form
	}
	h.write(w, r, resp.GetContentType(), name, body)
}

// fail answers with the Status of err; what is wrong with the server's health, with the text alone, as Kubernetes does.
func fail(w http.ResponseWriter, r *http.Request, err error) {
	status := apistatus.Of(err)
	switch {
	case answer.Late(r):
		answer.Error(w, r, err)
	case Health(r.URL.Path) && status.Code == http.StatusInternalServerError:
		http.Error(w, status.Message, http.StatusInternalServerError)
	case strings.HasPrefix(r.URL.Path, chapters) && status.Code == http.StatusNotFound,
		strings.HasPrefix(r.URL.Path, "/openapi/v") && status.Code == http.StatusNotAcceptable:
		w.WriteHeader(int(status.Code))
	case status.Code == http.StatusNotFound && status.Message == pageNotFound:
		http.NotFound(w, r)
	default:
		answer.Status(w, r, status)
	}
}

// pageNotFound is the message of a Status that stands for Go's own text.
const pageNotFound = "404 page not found"

// write answers with a document; name is that of what it says in its encoding, if it has one.
func (h *Handler) write(w http.ResponseWriter, r *http.Request, contentType, name string, data []byte) {
	if contentType != "" {
		w.Header().Set("Content-Type", contentType)
	}
	if len(data) >= compress.From && r.Method == http.MethodGet && compress.Accepted(r.Header) {
		compress.Announce(w.Header())
		data = h.packed.of(data, name)
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	_, _ = w.Write(data)
}
