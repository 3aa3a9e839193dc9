package objecttest

import (
	"sync"
	"testing"

	"google.golang.org/grpc"

	"howdah.dev/kit/object"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// Late is a Server seen over connections whose watches can be held back, as by an apiserver that is behind.
type Late struct {
	*Server

	mu   sync.Mutex
	held map[string]chan struct{} // by resource, closed by the release
}

// ServeLate serves the API until the test ends and returns a client of it, whose watches can be held back.
func (s *Server) ServeLate(t testing.TB) (*Late, *object.Client) {
	t.Helper()
	l := &Late{Server: s, held: map[string]chan struct{}{}}
	return l, s.serve(t, l)
}

// Hold keeps back what watches of the resource would tell, until release is called.
func (l *Late) Hold(resource string) (release func()) {
	until := make(chan struct{})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[resource] = until
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.held, resource)
		close(until)
	})
}

// Watch implements the API.
func (l *Late) Watch(r *apiv1.WatchRequest, stream grpc.ServerStreamingServer[apiv1.WatchResponse]) error {
	return l.Server.Watch(r, holding{stream, l, r.GetResource()})
}

// holding is the stream of a watch that can be held back.
type holding struct {
	grpc.ServerStreamingServer[apiv1.WatchResponse]
	late     *Late
	resource string
}

func (h holding) Send(response *apiv1.WatchResponse) error {
	h.late.mu.Lock()
	until := h.late.held[h.resource]
	h.late.mu.Unlock()
	if until != nil && len(response.GetEvents()) > 0 {
		select {
		case <-until:
		case <-h.Context().Done():
			return h.Context().Err()
		}
	}
	return h.ServerStreamingServer.Send(response)
}
