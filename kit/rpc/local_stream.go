package rpc

import (
	"context"
	"io"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// localBuffer is how many messages may wait for a receiver in each direction.
const localBuffer = 8

// NewStream implements grpc.ClientConnInterface.
func (c *localConn) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, options ...grpc.CallOption) (grpc.ClientStream, error) {
	ctx, cancel := context.WithCancel(ctx)
	s, client, server, err := c.begin(ctx, method)
	if err != nil {
		cancel()
		return nil, err
	}
	observed := observe(client, c.stats, true)
	m, ok := s.local.stream[method]
	if !ok {
		cancel()
		err := status.Errorf(codes.Unimplemented, "unknown method %s", method)
		observed(err)
		return nil, err
	}
	l := &localStream{
		client: client, requests: make(chan any, localBuffer), responses: make(chan any, localBuffer),
		headed: make(chan struct{}), done: make(chan struct{}), over: make(chan struct{}), single: !desc.ServerStreams, sink: sinkOf(options),
	}
	if l.values = valuesOf(options); l.values != nil {
		l.giver = &Giver{sample: l.values.sample}
		server = context.WithValue(server, giverKey{}, l.giver)
	}
	l.transport = localTransport{method: method, sent: l.sendHead}
	l.server = grpc.NewContextWithServerTransportStream(server, &l.transport)
	stop := context.AfterFunc(ctx, func() {
		l.end(status.FromContextError(ctx.Err()).Err())
	})
	s.local.calls.Add(1)
	go func() { // owned by the stream: it ends with the handler, whose context the client's or the server's end cancels
		defer s.local.calls.Done()
		defer close(l.over)
		defer cancel()
		defer stop()
		defer context.AfterFunc(c.wire.life, func() {
			l.end(errEnded)
			cancel()
		})()
		ended := observe(l.server, s.local.stats, false)
		info := &grpc.StreamServerInfo{FullMethod: method, IsClientStream: m.desc.ClientStreams, IsServerStream: m.desc.ServerStreams}
		err := s.local.aroundStream(m.implementation, (*localServerStream)(l), info, m.desc.Handler)
		ended(err)
		if err != nil {
			err = asStatus(err)
		} else {
			err = io.EOF
		}
		l.end(err)
		observed(l.err)
	}()
	return l, nil
}

// localStream is one stream, and the client's end of it.
type localStream struct {
	client, server      context.Context
	requests, responses chan any // messages
	single              bool     // one response, whose reader learns the outcome with it
	transport           localTransport

	head   sync.Once
	headed chan struct{} // closed when the headers have been sent
	finish sync.Once
	done   chan struct{} // closed when err is set
	err    error
	over   chan struct{} // closed when the handler has returned
	sink   func(metadata.MD, any) error
	values *Values // what the client asks for; nil: nothing
	giver  *Giver

	closeSend sync.Once
}

var _ grpc.ClientStream = (*localStream)(nil)

// end decides, once, how the stream ends.
func (l *localStream) end(err error) {
	l.finish.Do(func() { l.err = err; close(l.done) })
}

func (l *localStream) sendHead() { l.head.Do(func() { close(l.headed) }) }

// Header waits until the server has sent something, or the end.
func (l *localStream) Header() (metadata.MD, error) {
	select {
	case <-l.headed:
	case <-l.done:
		if l.err != io.EOF && status.Code(l.err) == codes.Canceled {
			return nil, l.err
		}
	}
	l.transport.mu.Lock()
	defer l.transport.mu.Unlock()
	return l.transport.header.Copy(), nil
}

// Trailer is complete once RecvMsg has failed.
func (l *localStream) Trailer() metadata.MD {
	l.transport.mu.Lock()
	defer l.transport.mu.Unlock()
	return l.transport.trailer.Copy()
}

func (l *localStream) Context() context.Context { return l.client }

// CloseSend tells the handler that no request follows.
func (l *localStream) CloseSend() error {
	l.closeSend.Do(func() { close(l.requests) })
	return nil
}

// SendMsg waits for room. It fails with io.EOF on a stream that has ended; RecvMsg tells why.
func (l *localStream) SendMsg(message any) error {
	sent, err := snapshot(message)
	if err != nil {
		return err
	}
	select {
	case <-l.done:
		return io.EOF
	default:
	}
	select {
	case l.requests <- sent:
		return nil
	case <-l.done:
		return io.EOF
	}
}

// RecvMsg returns the responses in order, and then how the stream ended.
func (l *localStream) RecvMsg(into any) error {
	if l.sink != nil {
		<-l.over // not before: the sink may be at work
		return l.err
	}
	received, err := l.next()
	if err != nil {
		return err
	}
	if err := pass(l.unload(received), into); err != nil {
		return err
	}
	if l.single {
		if _, err := l.next(); err != io.EOF {
			return err
		}
	}
	return nil
}

func (l *localStream) next() (any, error) {
	select {
	case received := <-l.responses:
		return received, nil
	default:
	}
	select {
	case received := <-l.responses:
		return received, nil
	case <-l.done:
	}
	// What was sent before the end comes first, unless the client itself gave up.
	if l.client.Err() == nil || l.err == io.EOF {
		select {
		case received := <-l.responses:
			return received, nil
		default:
		}
	}
	return nil, l.err
}

// localServerStream is the handler's end of a stream.
type localServerStream localStream

var _ grpc.ServerStream = (*localServerStream)(nil)

func (l *localServerStream) Context() context.Context       { return l.server }
func (l *localServerStream) SetHeader(md metadata.MD) error { return l.transport.SetHeader(md) }
func (l *localServerStream) SetTrailer(md metadata.MD)      { _ = l.transport.SetTrailer(md) } // it never fails

// SendHeader sends the headers that were set so far.
func (l *localServerStream) SendHeader(md metadata.MD) error {
	return l.transport.SendHeader(md)
}

// SendMsg waits for room, or fails when the stream has ended.
func (l *localServerStream) SendMsg(message any) error {
	if l.sink != nil {
		return (*localStream)(l).drain(message)
	}
	sent, err := snapshot(message)
	if err != nil {
		return err
	}
	(*localStream)(l).sendHead()
	select {
	case l.responses <- (*localStream)(l).load(sent):
		return nil
	case <-l.done:
		return l.err
	case <-l.server.Done():
		return status.FromContextError(l.server.Err()).Err()
	}
}

// RecvMsg returns the requests in order, and io.EOF when no more follow.
func (l *localServerStream) RecvMsg(into any) error {
	select {
	case received, ok := <-l.requests:
		if !ok {
			return io.EOF
		}
		return pass(received, into)
	case <-l.server.Done():
		return status.FromContextError(l.server.Err()).Err()
	}
}
