package stream

import (
	"context"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// node answers a request to the agent itself, as nodes/proxy makes them: health, pods, metrics.
func (s *Server) node(ctx context.Context, c *conn, open *apiv1.ConnectOpen) error {
	if s.cfg.Node == nil {
		return apierrors.NewServiceUnavailable("this agent answers no requests to its node")
	}
	path := "/" + strings.TrimPrefix(open.GetPath(), "/")
	if open.GetQuery() != "" {
		path += "?" + open.GetQuery()
	}
	request, err := http.NewRequestWithContext(ctx, open.GetMethod(), "http://node"+path, http.NoBody)
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	for _, h := range open.GetHeaders() {
		request.Header.Add(h.GetName(), h.GetValue())
	}
	w := &answer{c: c, header: http.Header{}}
	s.cfg.Node.ServeHTTP(w, request)
	w.WriteHeader(http.StatusOK)
	return w.err
}

// answer is a response that leaves as frames.
type answer struct {
	c      *conn
	header http.Header
	begun  bool
	err    error
}

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(code int) {
	if a.begun {
		return
	}
	a.begun = true
	var headers []*apiv1.Header
	for name, values := range a.header {
		for _, v := range values {
			headers = append(headers, &apiv1.Header{Name: name, Value: v})
		}
	}
	a.err = a.c.accept(int32(code), headers...)
}

// Write implements http.ResponseWriter.
func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	if a.err != nil {
		return 0, a.err
	}
	n, err := channel{a.c, responseBody}.Write(p)
	a.err = err
	return n, err
}
