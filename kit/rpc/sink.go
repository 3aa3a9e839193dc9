package rpc

import (
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// Sink is an option of a call that is answered by a stream. Over a Local, it hands each message to f when the server sends it, on the
// server's own goroutine, together with the headers that are set; RecvMsg then only waits for the stream's end. That saves a
// thousand watchers a thousand goroutines' waking at every event. f must neither change nor keep the message; its error is the
// sender's. It is never called after RecvMsg has told the end. Connections of other kinds ignore the option, so that the caller
// must be ready to receive messages as well.
func Sink(f func(header metadata.MD, message any) error) grpc.CallOption { return sinkOption{f: f} }

type sinkOption struct {
	grpc.EmptyCallOption
	f func(header metadata.MD, message any) error
}

func sinkOf(options []grpc.CallOption) func(metadata.MD, any) error {
	for _, o := range options {
		if s, ok := o.(sinkOption); ok {
			return s.f
		}
	}
	return nil
}

// drain hands a message over to the sink.
func (l *localStream) drain(message any) error {
	if err := fits(message); err != nil {
		return err
	}
	l.sendHead()
	if err := l.server.Err(); err != nil { // the client's end, and the server's, end it
		return asStatus(err)
	}
	l.transport.mu.Lock()
	header := l.transport.header
	l.transport.mu.Unlock()
	return l.sink(header, message)
}
