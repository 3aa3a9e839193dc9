package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"howdah.dev/gateway/internal/socket"
	"howdah.dev/kit/apistatus"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
)

const (
	forwardProtocol = "portforward.k8s.io"
	tunnelProtocol  = "SPDY/3.1+" + forwardProtocol
	// maxForwards bounds the connections of one portforward at a time.
	maxForwards = 1000
)

// Each forwarded connection is a Connect call of its own, so that one whose
// client does not read holds up no other. One more call, without a
// connection, stands for the whole: it fails before the upgrade where the pod
// is not there, and ends when the pod does.

func (s *session) forwardOverSPDY() error {
	ctx, cancel := context.WithCancel(s.r.Context())
	defer cancel()
	c, _, err := s.connect(ctx)
	if err != nil {
		return err
	}
	if _, err := httpstream.Handshake(s.r, s.w, []string{forwardProtocol}); err != nil {
		return nil // answered by the handshake
	}
	f := newForwards(s, ctx)
	conn := spdy.NewResponseUpgraderWithPings(socket.PingEvery).UpgradeResponse(s.w, s.r, f.accept)
	if conn == nil {
		return nil // answered by the upgrader
	}
	f.serve(cancel, conn, c)
	return nil
}

// forwardOverTunnel is SPDY inside the messages of a WebSocket.
func (s *session) forwardOverTunnel() error {
	ctx, cancel := context.WithCancel(s.r.Context())
	defer cancel()
	c, _, err := s.connect(ctx)
	if err != nil {
		return err
	}
	ws, err := socket.Upgrade(s.w, s.r, []string{tunnelProtocol})
	if err != nil {
		return nil // answered by the upgrader
	}
	f := newForwards(s, ctx)
	conn, err := spdy.NewServerConnectionWithPings(tunnel{portforward.NewTunnelingConnection("server", ws), ws}, f.accept, socket.PingEvery)
	if err != nil {
		_ = ws.Close()
		return nil
	}
	f.serve(cancel, conn, c)
	return nil
}

// tunnel bounds how long the client may leave a message unread.
type tunnel struct {
	*portforward.TunnelingConnection
	ws *websocket.Conn
}

func (t tunnel) Write(p []byte) (int, error) {
	if err := t.ws.SetWriteDeadline(time.Now().Add(socket.SendTimeout)); err != nil {
		return 0, err
	}
	return t.TunnelingConnection.Write(p)
}

// forwards pairs the streams of a SPDY connection to forwarded connections.
type forwards struct {
	session *session
	ctx     context.Context // of the whole portforward
	ready   chan struct{}   // closed once conn is set
	conn    httpstream.Connection

	mu     sync.Mutex
	pairs  map[string]*pair // by request id, those that wait for their other half
	active int
	wg     sync.WaitGroup
}

type pair struct{ data, err httpstream.Stream }

func newForwards(s *session, ctx context.Context) *forwards {
	return &forwards{session: s, ctx: ctx, ready: make(chan struct{}), pairs: map[string]*pair{}}
}

// serve waits for the end of the connection or of the pod.
func (f *forwards) serve(cancel context.CancelFunc, conn httpstream.Connection, whole *call) {
	f.conn = conn
	close(f.ready)
	podEnded := make(chan struct{})
	go func() {
		defer close(podEnded)
		for {
			if _, err := whole.receive(); err != nil {
				return
			}
		}
	}()
	select {
	case <-conn.CloseChan():
	case <-podEnded:
	}
	cancel()
	_ = conn.Close()
	f.wg.Wait()
	<-podEnded
}

// accept takes a stream that the client has opened.
func (f *forwards) accept(stream httpstream.Stream, replySent <-chan struct{}) error {
	h := stream.Headers()
	port, err := strconv.ParseUint(h.Get(corev1.PortHeader), 10, 16)
	if err != nil || port == 0 {
		return fmt.Errorf("unable to parse %q as a port", h.Get(corev1.PortHeader))
	}
	id := h.Get(corev1.PortForwardRequestIDHeader)
	if id == "" {
		return fmt.Errorf("%q header is required", corev1.PortForwardRequestIDHeader)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	p := f.pairs[id]
	if p == nil {
		if len(f.pairs)+f.active >= maxForwards {
			return errors.New("too many connections")
		}
		p = &pair{}
		f.pairs[id] = p
	}
	switch kind := h.Get(corev1.StreamType); {
	case kind == corev1.StreamTypeData && p.data == nil:
		p.data = stream
	case kind == corev1.StreamTypeError && p.err == nil:
		p.err = stream
	default:
		return fmt.Errorf("unexpected stream type %q", kind)
	}
	if p.data == nil || p.err == nil {
		return nil
	}
	delete(f.pairs, id)
	f.active++
	f.wg.Go(func() {
		select { // no byte before the client knows that the streams stand
		case <-replySent:
		case <-f.ctx.Done():
		}
		<-f.ready
		if err := f.session.forward(f.ctx, uint32(port), p.data); err != nil {
			_, _ = io.WriteString(p.err, apistatus.Of(err).Message)
		}
		_ = p.data.Close()
		_ = p.err.Close()
		f.conn.RemoveStreams(p.data, p.err)
		f.mu.Lock()
		f.active--
		f.mu.Unlock()
	})
	return nil
}

// connection is the client's end of a forwarded connection; Close ends its
// writing half only.
type connection interface {
	io.ReadWriteCloser
}

// forward joins a client's connection with one to a port of the pod, until
// the pod's end is closed. The error is for the client to read.
func (s *session) forward(ctx context.Context, port uint32, client connection) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c, _, err := s.connect(ctx)
	if err != nil {
		return err
	}
	if err := c.send(&apiv1.ConnectFrame{Channel: forwardData, Port: port}); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	go func() {
		if err := c.copyIn(forwardData, client); err != nil && !errors.Is(err, io.EOF) {
			cancel() // the client broke its connection off
		}
	}()
	var message []byte
	for {
		frame, err := c.receive()
		switch {
		case err != nil && (errors.Is(err, io.EOF) || ctx.Err() != nil):
			return failure(message)
		case err != nil:
			return err
		case frame.GetChannel() == forwardError:
			message = append(message, frame.GetData()...)
		case frame.GetChannel() == forwardData:
			if len(frame.GetData()) > 0 {
				if _, err := client.Write(frame.GetData()); err != nil {
					return nil // the client has gone
				}
			}
			if frame.GetClose() { // the call itself may go on; nothing more is wanted of it
				_ = client.Close()
				c.finishSending()
			}
		}
	}
}

// failure turns what the pod's end says on the error channel into an error.
func failure(message []byte) error {
	if len(message) == 0 {
		return nil
	}
	s := apierrors.NewInternalError(errors.New("")).ErrStatus
	s.Message = string(plainOutcome(message))
	return &apierrors.StatusError{ErrStatus: s}
}
