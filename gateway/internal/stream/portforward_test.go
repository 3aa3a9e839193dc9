package stream

import (
	"context"
	"errors"
	"io"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// pod is a call to a pod that closes its connection first. Like gRPC, it ends with an error when something is sent after the end of sending.
type pod struct {
	apiv1.ObjectServiceClient
	grpc.BidiStreamingClient[apiv1.ConnectRequest, apiv1.ConnectResponse]
	answers  []*apiv1.ConnectResponse
	finished chan struct{}
	broken   chan struct{}
}

var errAfterClose = errors.New("SendMsg called after CloseSend")

func (p *pod) Connect(context.Context, ...grpc.CallOption) (grpc.BidiStreamingClient[apiv1.ConnectRequest, apiv1.ConnectResponse], error) {
	return p, nil
}

func (p *pod) Send(*apiv1.ConnectRequest) error {
	select {
	case <-p.finished:
		close(p.broken)
		time.Sleep(time.Millisecond) // who receives may hear of it before who sends does
		return errAfterClose
	default:
		return nil
	}
}

func (p *pod) Header() (metadata.MD, error) { return nil, nil }

func (p *pod) CloseSend() error { close(p.finished); return nil }

func (p *pod) Recv() (*apiv1.ConnectResponse, error) {
	if len(p.answers) > 0 {
		next := p.answers[0]
		p.answers = p.answers[1:]
		return next, nil
	}
	<-p.finished
	select {
	case <-p.broken:
		return nil, errAfterClose
	case <-time.After(time.Second): // the node's end comes after whatever the gateway has still to say
		return nil, io.EOF
	}
}

// client closes its writing half when it has heard that the pod is done.
type client struct {
	pod    *pod
	closed bool
}

func (c *client) Write(data []byte) (int, error) { return len(data), nil }
func (c *client) Close() error                   { c.closed = true; return nil }
func (c *client) Read([]byte) (int, error) {
	<-c.pod.finished
	return 0, io.EOF
}

// TestForwardEndedByThePod sees a connection that the pod closes first, and the client after it, end without an error: kubectl gives up on all
// connections where one has one.
func TestForwardEndedByThePod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		frame := func(f *apiv1.ConnectFrame) *apiv1.ConnectResponse {
			return &apiv1.ConnectResponse{Message: &apiv1.ConnectResponse_Frame{Frame: f}}
		}
		p := &pod{finished: make(chan struct{}), broken: make(chan struct{}), answers: []*apiv1.ConnectResponse{
			{Message: &apiv1.ConnectResponse_Accepted{Accepted: &apiv1.ConnectAccepted{}}},
			frame(&apiv1.ConnectFrame{Channel: forwardData, Data: []byte("answer")}),
			frame(&apiv1.ConnectFrame{Channel: forwardData, Close: true}),
		}}
		s := &session{client: p, w: httptest.NewRecorder(), r: httptest.NewRequestWithContext(t.Context(), "POST", "/", nil)}
		c := &client{pod: p}
		if err := s.forward(t.Context(), 80, c); err != nil || !c.closed {
			t.Errorf("%v, the client was told: %v", err, c.closed)
		}
	})
}
