// Package stream serves the byte streams of the API: log, exec, attach,
// portforward and proxy, over plain HTTP, WebSocket and SPDY. Behind each is
// one or more Connect calls, whose frames it translates.
package stream

import (
	"context"
	"net/http"
	"strings"
	"sync"

	"google.golang.org/grpc/metadata"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"

	"howdah.dev/gateway/internal/answer"
	"howdah.dev/gateway/internal/request"
)

// Channels of exec and attach; log uses stdout alone.
const (
	stdin  = 0
	stdout = 1
	stderr = 2
	status = 3
	resize = 4
)

// Channels of a proxied HTTP request.
const (
	requestBody  = 0
	responseBody = 1
)

// Channels of a forwarded connection.
const (
	forwardData  = 0
	forwardError = 1
)

// pieceSize is the most that is read at once from a client, in bytes.
const pieceSize = 32 << 10

// Handler serves streams.
type Handler struct{ client apiv1.ObjectServiceClient }

// New returns a handler that connects through the client.
func New(client apiv1.ObjectServiceClient) *Handler { return &Handler{client} }

// session is one client's request for a stream.
type session struct {
	client   apiv1.ObjectServiceClient
	w        http.ResponseWriter
	r        *http.Request
	info     request.Info
	metadata metadata.MD
	warned   sync.Once
}

// warn tells the client what the first call warns of; further calls are made when the client's answer has begun.
func (s *session) warn(md metadata.MD) { s.warned.Do(func() { answer.Warnings(s.w.Header(), md) }) }

// Serve answers a request for a stream; md says who asks. It returns when
// the stream has ended. Failures before it begins are an HTTP error.
func (h *Handler) Serve(w http.ResponseWriter, r *http.Request, info request.Info, md metadata.MD) {
	s := &session{client: h.client, w: w, r: r, info: info, metadata: md}
	var err error
	switch info.Subresource {
	case "log":
		err = s.log()
	case "proxy":
		err = s.proxy()
	case "exec", "attach":
		switch {
		case upgrades(r, "websocket"):
			err = s.terminalOverWebSocket()
		case upgrades(r, "spdy/3.1"):
			err = s.terminalOverSPDY()
		default:
			err = s.refuse()
		}
	case "portforward":
		switch {
		case upgrades(r, "websocket"):
			err = s.forwardOverWebSocket()
		case upgrades(r, "spdy/3.1"):
			err = s.forwardOverSPDY()
		default:
			err = s.refuse()
		}
	}
	if err != nil {
		answer.Error(w, r, err)
	}
}

// Remote passes a request on to the extension API server that serves a group version.
func (h *Handler) Remote(w http.ResponseWriter, r *http.Request, info request.Info, group, version string, md metadata.MD) {
	s := &session{client: h.client, w: w, r: r, info: info, metadata: md}
	if err := s.remote(group, version); err != nil {
		answer.Error(w, r, err)
	}
}

// Upgrades reports whether a request asks for any other protocol on its connection.
func Upgrades(r *http.Request) bool { return hasToken(r.Header, "Connection", "upgrade") }

// refuse asks what is wrong with a request for a stream that takes another protocol, and does not ask for one that there is.
func (s *session) refuse() error {
	ctx, cancel := context.WithCancel(s.r.Context())
	defer cancel()
	open := s.open()
	open.NoUpgrade = true
	c, err := s.begin(ctx, open)
	if err != nil {
		return err
	}
	if _, err := c.accepted(); err != nil {
		return err
	}
	return apierrors.NewBadRequest("Upgrade request required")
}

// open is the first message of a call for this session.
func (s *session) open() *apiv1.ConnectOpen {
	return &apiv1.ConnectOpen{
		Group: s.info.Group, Version: s.info.Version, Resource: s.info.Resource, Namespace: s.info.Namespace,
		Name: s.info.Name, Subresource: s.info.Subresource, Method: s.r.Method, Query: s.r.URL.RawQuery,
	}
}

// upgrades reports whether a request asks for another protocol on its connection.
func upgrades(r *http.Request, protocol string) bool {
	return hasToken(r.Header, "Connection", "upgrade") && hasToken(r.Header, "Upgrade", protocol)
}

func hasToken(h http.Header, name, token string) bool {
	for _, line := range h.Values(name) {
		for part := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(part), token) {
				return true
			}
		}
	}
	return false
}

// option reads a boolean of the query as Kubernetes does.
func (s *session) option(name string) bool {
	values, ok := s.r.URL.Query()[name]
	return ok && (len(values) == 0 || values[0] != "0" && !strings.EqualFold(values[0], "false"))
}
