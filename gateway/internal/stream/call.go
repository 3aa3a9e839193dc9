package stream

import (
	"context"
	"errors"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

// call is one Connect call. It ends with its context.
type call struct {
	stream grpc.BidiStreamingClient[apiv1.ConnectRequest, apiv1.ConnectResponse]
	warn   func(metadata.MD) // passes the warnings of the answer on

	mu       sync.Mutex // gRPC allows one sender at a time
	finished bool       // and none after the end of sending: such a message would break the call off
}

// begin makes a call and sends its first message.
func (s *session) begin(ctx context.Context, open *apiv1.ConnectOpen) (*call, error) {
	stream, err := s.client.Connect(metadata.NewOutgoingContext(ctx, s.metadata))
	if err != nil {
		return nil, err
	}
	c := &call{stream: stream, warn: s.warn}
	err = stream.Send(&apiv1.ConnectRequest{Message: &apiv1.ConnectRequest_Open{Open: open}})
	if err != nil && !errors.Is(err, io.EOF) { // EOF: the answer says why
		return nil, err
	}
	return c, nil
}

// accepted waits for the target's first message; the error carries the
// Status where the stream does not come about.
func (c *call) accepted() (*apiv1.ConnectAccepted, error) {
	resp, err := c.stream.Recv()
	if md, failed := c.stream.Header(); failed == nil {
		c.warn(md)
	}
	if errors.Is(err, io.EOF) {
		return nil, apierrors.NewInternalError(errors.New("the stream ended before it began"))
	}
	if err != nil {
		return nil, err
	}
	if resp.GetAccepted() == nil {
		return nil, apierrors.NewInternalError(errors.New("the stream began without being accepted"))
	}
	return resp.GetAccepted(), nil
}

// connect makes a call and waits until the stream stands.
func (s *session) connect(ctx context.Context, headers ...*apiv1.Header) (*call, *apiv1.ConnectAccepted, error) {
	open := s.open()
	open.Headers = headers
	c, err := s.begin(ctx, open)
	if err != nil {
		return nil, nil, err
	}
	a, err := c.accepted()
	return c, a, err
}

// send sends a frame; it blocks while the target does not read. It fails with io.EOF where nobody waits for the frame: after
// finishSending, and when the call has ended, for what reason receive tells.
func (c *call) send(frame *apiv1.ConnectFrame) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.finished {
		return io.EOF
	}
	return c.stream.Send(&apiv1.ConnectRequest{Message: &apiv1.ConnectRequest_Frame{Frame: frame}})
}

// start tells the target of exec or attach that the client's connection stands. A command that began before it would speak, and end,
// while clients before Kubernetes 1.33 do not listen yet: they lose what comes then. What it fails with, receive tells.
func (c *call) start() { _ = c.send(&apiv1.ConnectFrame{Channel: stdin}) }

// finishSending tells the target that no frame follows.
func (c *call) finishSending() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.finished = true
	_ = c.stream.CloseSend()
}

// receive returns the next frame; io.EOF is a clean end.
func (c *call) receive() (*apiv1.ConnectFrame, error) {
	for {
		resp, err := c.stream.Recv()
		if err != nil {
			return nil, err
		}
		if frame := resp.GetFrame(); frame != nil {
			return frame, nil
		}
	}
}

// copyIn sends what a reader gives on a channel, and closes the channel at its end.
func (c *call) copyIn(channel uint32, from io.Reader) error {
	for {
		piece := make([]byte, pieceSize) // the call keeps it after send
		n, err := from.Read(piece)
		if n > 0 {
			if serr := c.send(&apiv1.ConnectFrame{Channel: channel, Data: piece[:n]}); serr != nil {
				return serr
			}
		}
		if errors.Is(err, io.EOF) {
			return c.send(&apiv1.ConnectFrame{Channel: channel, Close: true})
		}
		if err != nil {
			return err
		}
	}
}
