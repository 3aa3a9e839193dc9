// Package logs serves the search in what containers have written.
package logs

import (
	"fmt"
	"net/http"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/grpc-ecosystem/grpc-gateway/v2/utilities"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protojson"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	logsv1 "howdah.dev/proto/gen/howdah/logs/v1"

	"howdah.dev/gateway/internal/answer"
	"howdah.dev/gateway/internal/identity"
)

// Path is that of the search.
const Path = "/howdah/v1/logs"

// Handler serves the path.
type Handler struct {
	logs     logsv1.SearchServiceClient
	identity *identity.Resolver
}

// New returns a handler that asks the service of the logs, and the API server who may.
func New(logs grpc.ClientConnInterface, resolver *identity.Resolver) *Handler {
	return &Handler{logsv1.NewSearchServiceClient(logs), resolver}
}

// Serve answers a request. Who may read the logs of the pods of a namespace may search them, and who may in all namespaces may search all.
func (h *Handler) Serve(w http.ResponseWriter, r *http.Request, caller identity.Caller) {
	if r.Method != http.MethodGet {
		answer.Status(w, r, answer.NotAllowed())
		return
	}
	req := &logsv1.SearchRequest{}
	invalid := runtime.PopulateQueryParameters(req, r.URL.Query(), &utilities.DoubleArray{})
	access := &apiv1.Access{Verb: "get", Version: "v1", Resource: "pods", Subresource: "log", Namespace: req.GetNamespace()}
	if invalid != nil {
		access.Namespace = "" // nobody knows of which it is
	}
	var told metadata.MD
	caller, err := h.identity.Resolve(r.Context(), caller, access, grpc.Header(&told))
	answer.Classified(w.Header(), told)
	if err == nil && invalid != nil {
		err = apierrors.NewBadRequest(invalid.Error())
	}
	if err != nil {
		answer.Error(w, r, err)
		return
	}
	resp, err := h.logs.Search(metadata.NewOutgoingContext(r.Context(), caller.Metadata()), req)
	if err != nil {
		answer.Error(w, r, err)
		return
	}
	body, err := protojson.MarshalOptions{EmitUnpopulated: true}.Marshal(resp)
	if err != nil {
		answer.Error(w, r, fmt.Errorf("encode lines: %w", err))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body)
}
