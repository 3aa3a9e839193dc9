// Package past serves what Kubernetes has not, from the API server: transactions of many manifests, and the history of objects.
package past

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/grpc-ecosystem/grpc-gateway/v2/utilities"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"

	"howdah.dev/gateway/internal/answer"
	"howdah.dev/gateway/internal/request"
)

const (
	transactions = "/howdah/v1/transactions"
	history      = "/howdah/v1/history"
)

// Is reports whether a path is served here.
func Is(path string) bool { return path == transactions || strings.HasPrefix(path, history+"/") }

// Handler serves the paths.
type Handler struct {
	transactions apiv1.TransactionServiceClient
	history      apiv1.HistoryServiceClient
	maxBody      int64
}

// New returns a handler that calls the API server and takes bodies of at most maxBody bytes.
func New(apiserver grpc.ClientConnInterface, maxBody int64) *Handler {
	return &Handler{apiv1.NewTransactionServiceClient(apiserver), apiv1.NewHistoryServiceClient(apiserver), maxBody}
}

// Serve answers a request; md says who asks.
func (h *Handler) Serve(w http.ResponseWriter, r *http.Request, md metadata.MD) {
	ctx := metadata.NewOutgoingContext(r.Context(), md)
	if r.URL.Path == transactions {
		if r.Method != http.MethodPost {
			answer.Status(w, r, answer.NotAllowed())
			return
		}
		h.transact(ctx, w, r)
		return
	}
	info := request.Resolve(http.MethodGet, behind(r.URL))
	switch {
	case !info.IsResource() || info.Subresource != "":
		answer.Status(w, r, answer.NotFound())
	case r.Method != http.MethodGet:
		answer.Status(w, r, answer.NotAllowed())
	case info.Name != "":
		h.versions(ctx, w, r, info)
	default:
		h.list(ctx, w, r, info)
	}
}

// behind returns the path of the Kubernetes API that a path of the history contains.
func behind(u *url.URL) *url.URL {
	return &url.URL{Path: strings.TrimPrefix(u.Path, history), RawPath: strings.TrimPrefix(u.RawPath, history)}
}

func (h *Handler) transact(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	req := &apiv1.TransactRequest{}
	if err := options(req, r.URL.Query()); err != nil {
		answer.Error(w, r, err)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, h.maxBody))
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		answer.Error(w, r, apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", h.maxBody)))
		return
	}
	if err != nil {
		answer.Error(w, r, apierrors.NewBadRequest("the body did not arrive whole: "+err.Error()))
		return
	}
	req.Object, req.ContentType = body, r.Header.Get("Content-Type")
	resp, err := h.transactions.Transact(ctx, req)
	if err != nil {
		answer.Error(w, r, err)
		return
	}
	w.Header().Set("Content-Type", resp.GetContentType())
	_, _ = w.Write(resp.GetObject())
}

func (h *Handler) versions(ctx context.Context, w http.ResponseWriter, r *http.Request, i request.Info) {
	req := &apiv1.HistoryRequest{}
	err := options(req, r.URL.Query())
	if err != nil {
		answer.Error(w, r, err)
		return
	}
	req.Group, req.Version, req.Resource, req.Namespace, req.Name = i.Group, i.Version, i.Resource, i.Namespace, i.Name
	resp, err := h.history.History(ctx, req)
	if err != nil {
		answer.Error(w, r, err)
		return
	}
	body, err := protojson.MarshalOptions{EmitUnpopulated: true}.Marshal(resp)
	if err != nil {
		answer.Error(w, r, fmt.Errorf("encode the history: %w", err))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body)
}

func (h *Handler) list(ctx context.Context, w http.ResponseWriter, r *http.Request, i request.Info) {
	req := &apiv1.ListAtRequest{}
	if err := options(req, r.URL.Query()); err != nil {
		answer.Error(w, r, err)
		return
	}
	req.Group, req.Version, req.Resource, req.Namespace = i.Group, i.Version, i.Resource, i.Namespace
	req.Accept = strings.Join(r.Header["Accept"], ", ")
	stream, err := h.history.ListAt(ctx, req)
	if err != nil {
		answer.Error(w, r, err)
		return
	}
	for begun := false; ; begun = true {
		piece, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return
		case err != nil && begun:
			panic(http.ErrAbortHandler) // nobody shall take a part for the whole
		case err != nil:
			answer.Error(w, r, err)
			return
		case !begun:
			w.Header().Set("Content-Type", piece.GetContentType())
		}
		_, _ = w.Write(piece.GetObject())
	}
}

// options fills a message from a query. What the message does not have is ignored, as Kubernetes does.
func options(message proto.Message, query url.Values) error {
	if err := runtime.PopulateQueryParameters(message, query, &utilities.DoubleArray{}); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return nil
}
