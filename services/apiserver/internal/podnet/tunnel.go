package podnet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"

	"google.golang.org/grpc"

	"howdah.dev/kit/apistatus"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	nodev1 "howdah.dev/proto/gen/howdah/node/v1"
)

// maxFrame bounds the data of one frame, in bytes.
const maxFrame = 32 << 10

// tunnel connects to a backend through its node's agent. The connection owns agent, and lives until it is closed; ctx bounds
// only the time until it stands.
func tunnel(ctx context.Context, agent *grpc.ClientConn, b Backend) (net.Conn, error) {
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	unbind := context.AfterFunc(ctx, end)
	fail := func(err error) (net.Conn, error) {
		unbind()
		end()
		_ = agent.Close()
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: address(b.Address), Err: err}
	}
	stream, err := nodev1.NewNodeServiceClient(agent).Connect(life)
	if err != nil {
		return fail(fmt.Errorf("agent of node %s: %w", b.Node, apistatus.FromGRPC(err)))
	}
	err = stream.Send(&nodev1.ConnectRequest{Message: &nodev1.ConnectRequest_Open{Open: &apiv1.ConnectOpen{
		Version: "v1", Resource: "nodes", Name: b.Node, Subresource: "tunnel", Query: url.Values{"address": {b.Address}}.Encode(),
	}}})
	if err != nil && !errors.Is(err, io.EOF) {
		return fail(err)
	}
	first, err := stream.Recv()
	if err != nil {
		return fail(apistatus.FromGRPC(err))
	}
	if first.GetAccepted() == nil {
		return fail(errors.New("the agent of node " + b.Node + " speaks out of turn"))
	}
	if !unbind() {
		return fail(ctx.Err())
	}
	near, far := net.Pipe()
	go receive(stream, far, func() { end(); _ = agent.Close() })
	go send(stream, far)
	return &conn{Conn: near, remote: address(b.Address)}, nil
}

// receive carries the backend's bytes, and ends the stream with the connection.
func receive(stream grpc.BidiStreamingClient[nodev1.ConnectRequest, nodev1.ConnectResponse], far net.Conn, end func()) {
	defer end()
	defer far.Close()
	for {
		m, err := stream.Recv()
		if err != nil {
			return
		}
		if data := m.GetFrame().GetData(); len(data) > 0 {
			if _, err := far.Write(data); err != nil {
				return
			}
		}
		if m.GetFrame().GetClose() {
			return
		}
	}
}

// send carries the caller's bytes until its side is closed. Closing far makes receive end at its next frame; closing the stream's
// sending side makes the agent close the connection, which brings that frame.
func send(stream grpc.BidiStreamingClient[nodev1.ConnectRequest, nodev1.ConnectResponse], far net.Conn) {
	defer far.Close()
	buffer := make([]byte, maxFrame)
	for {
		n, err := far.Read(buffer)
		if n > 0 {
			frame := &apiv1.ConnectFrame{Data: append([]byte(nil), buffer[:n]...)}
			if stream.Send(&nodev1.ConnectRequest{Message: &nodev1.ConnectRequest_Frame{Frame: frame}}) != nil {
				return
			}
		}
		if err != nil {
			_ = stream.CloseSend()
			return
		}
	}
}

// conn is a tunnel's end; it names the backend as its peer.
type conn struct {
	net.Conn
	remote address
}

// RemoteAddr implements net.Conn.
func (c *conn) RemoteAddr() net.Addr { return c.remote }

// address is host:port.
type address string

// Network implements net.Addr.
func (address) Network() string { return "tcp" }

// String implements net.Addr.
func (a address) String() string { return string(a) }
