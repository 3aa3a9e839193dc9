package objecttest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"

	"google.golang.org/grpc"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// Extend makes an extension API server part of the API, before the first call: its kinds are told of in discovery, and Connect
// passes requests on to it.
func (s *Server) Extend(e *Extension) { s.extension = e }

// Connect implements apiv1.ObjectServiceServer for what an extension API server serves.
func (s *Server) Connect(stream grpc.BidiStreamingServer[apiv1.ConnectRequest, apiv1.ConnectResponse]) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	open := first.GetOpen()
	if s.extension == nil || open.GetGroup() != ExtensionGroup.Group || open.GetVersion() != ExtensionGroup.Version {
		return apierrors.NewNotFound(ExtensionGroup.WithResource(open.GetResource()).GroupResource(), open.GetName())
	}
	body, feed := io.Pipe()
	defer body.Close()
	go func() { // ends with the stream
		for {
			m, err := stream.Recv()
			if err != nil {
				_ = feed.Close()
				return
			}
			_, _ = feed.Write(m.GetFrame().GetData())
		}
	}()
	request := httptest.NewRequestWithContext(stream.Context(), open.GetMethod(), open.GetPath()+"?"+open.GetQuery(), body)
	for _, h := range open.GetHeaders() {
		request.Header.Add(h.GetName(), h.GetValue())
	}
	out := &streamWriter{stream: stream, header: http.Header{}}
	s.extension.ServeHTTP(out, request)
	out.WriteHeader(http.StatusOK)
	return out.err
}

// streamWriter is a response that goes into a stream.
type streamWriter struct {
	stream interface {
		Send(*apiv1.ConnectResponse) error
	}
	header http.Header
	begun  bool
	err    error
}

func (w *streamWriter) Header() http.Header { return w.header }
func (w *streamWriter) Flush()              {}

func (w *streamWriter) WriteHeader(code int) {
	if w.begun {
		return
	}
	w.begun = true
	accepted := &apiv1.ConnectAccepted{Code: int32(code)}
	for name, values := range w.header {
		for _, v := range values {
			accepted.Headers = append(accepted.Headers, &apiv1.Header{Name: name, Value: v})
		}
	}
	w.err = w.stream.Send(&apiv1.ConnectResponse{Message: &apiv1.ConnectResponse_Accepted{Accepted: accepted}})
}

func (w *streamWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.err != nil {
		return 0, w.err
	}
	frame := &apiv1.ConnectFrame{Channel: 1, Data: append([]byte(nil), p...)}
	if w.err = w.stream.Send(&apiv1.ConnectResponse{Message: &apiv1.ConnectResponse_Frame{Frame: frame}}); w.err != nil {
		return 0, errors.New("the client has gone")
	}
	return len(p), nil
}

// contextEnds wakes who waits on the condition when the request ends.
func contextEnds(r *http.Request, c *sync.Cond) (stop func() bool) {
	return context.AfterFunc(r.Context(), func() {
		c.L.Lock()
		defer c.L.Unlock()
		c.Broadcast()
	})
}
