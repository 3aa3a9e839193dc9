package rpc

import (
	"context"
	"io"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/runtime/protoiface"
)

// Local is a wire within a process. Calls on it are what they are on a network: messages are encoded and
// decoded, so that nobody shares memory, metadata and trace context travel, the server's interceptors run,
// deadlines and cancellation pass, and a sender waits for a slow receiver. What is left out is HTTP/2, which costs
// several times more than all of that.
type Local struct {
	serving chan struct{} // closed when server is set
	server  *Server
	life    context.Context // of the streams: ended when it serves no more
	end     context.CancelFunc
}

// NewLocal returns a wire that nobody serves yet: calls wait until Server.ServeLocal.
func NewLocal() *Local {
	life, end := context.WithCancel(context.Background())
	return &Local{serving: make(chan struct{}), life: life, end: end}
}

// Dial returns a connection that speaks for user.
func (l *Local) Dial(user User) grpc.ClientConnInterface {
	return &localConn{wire: l, user: user, stats: clientStats()}
}

// ServeLocal serves the wire until ctx ends. Then its streams end at once, as Unavailable, and calls that
// have begun have 5 s to end. A wire can be served once.
func (s *Server) ServeLocal(ctx context.Context, l *Local) error {
	l.server = s
	close(l.serving)
	<-ctx.Done()
	s.health.Shutdown()
	l.end()
	done := make(chan struct{})
	go func() { s.local.calls.Wait(); close(done) }()
	timer := time.NewTimer(stopTimeout)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
	return nil
}

// localService is what a server knows of its methods, for local calls.
type localService struct {
	unary  map[string]localUnary
	stream map[string]localHandler
	stats  stats.Handler
	aroundUnary
	aroundStream
	calls sync.WaitGroup
}

type (
	aroundUnary  = grpc.UnaryServerInterceptor
	aroundStream = grpc.StreamServerInterceptor
)

type localUnary struct {
	implementation any
	handler        grpc.MethodHandler
}

type localHandler struct {
	implementation any
	desc           grpc.StreamDesc
}

// RegisterService implements grpc.ServiceRegistrar.
func (s *Server) RegisterService(desc *grpc.ServiceDesc, implementation any) {
	s.Server.RegisterService(desc, implementation)
	for _, m := range desc.Methods {
		s.local.unary["/"+desc.ServiceName+"/"+m.MethodName] = localUnary{implementation, m.Handler}
	}
	for _, m := range desc.Streams {
		s.local.stream["/"+desc.ServiceName+"/"+m.StreamName] = localHandler{implementation, m}
	}
}

// localConn is a connection over a Local.
type localConn struct {
	wire  *Local
	user  User
	stats stats.Handler
}

var _ grpc.ClientConnInterface = (*localConn)(nil)

var errEnded = status.Error(codes.Unavailable, "the server has stopped")

// begin waits for the server and returns it, the client's context and the server's.
func (c *localConn) begin(ctx context.Context, method string) (s *Server, client, server context.Context, err error) {
	select {
	case <-c.wire.serving:
	case <-ctx.Done():
		return nil, nil, nil, status.FromContextError(ctx.Err()).Err()
	}
	if c.wire.life.Err() != nil {
		return nil, nil, nil, errEnded
	}
	s = c.wire.server
	info := &stats.RPCTagInfo{FullMethodName: method}
	client = c.stats.TagRPC(ctx, info)
	md, ok := metadata.FromOutgoingContext(client)
	if !ok {
		md = metadata.MD{}
	}
	server = metadata.NewIncomingContext(WithUser(client, c.user), md)
	// Calls that the handler makes in its turn are its own.
	server = metadata.NewOutgoingContext(server, metadata.MD{})
	return s, client, s.local.stats.TagRPC(server, info), nil
}

// observe tells a stats handler of a call's beginning, and returns what tells it of its end.
func observe(ctx context.Context, h stats.Handler, client bool) func(error) {
	begin := time.Now()
	h.HandleRPC(ctx, &stats.Begin{Client: client, BeginTime: begin})
	return func(err error) {
		if err == io.EOF {
			err = nil
		}
		h.HandleRPC(ctx, &stats.End{Client: client, BeginTime: begin, EndTime: time.Now(), Error: err})
	}
}

// Invoke implements grpc.ClientConnInterface.
func (c *localConn) Invoke(ctx context.Context, method string, args, reply any, options ...grpc.CallOption) (err error) {
	s, client, server, err := c.begin(ctx, method)
	if err != nil {
		return err
	}
	observed := observe(client, c.stats, true)
	defer func() { observed(err) }()
	m, ok := s.local.unary[method]
	if !ok {
		return status.Errorf(codes.Unimplemented, "unknown method %s", method)
	}
	request, err := encode(args)
	if err != nil {
		return err
	}
	s.local.calls.Add(1)
	defer s.local.calls.Done()
	transport := &localTransport{method: method}
	server = grpc.NewContextWithServerTransportStream(server, transport)
	ended := observe(server, s.local.stats, false)
	answer, err := m.handler(m.implementation, server, func(into any) error { return decode(request, into) }, s.local.aroundUnary)
	ended(err)
	for _, o := range options {
		switch o := o.(type) {
		case grpc.HeaderCallOption:
			*o.HeaderAddr = transport.header
		case grpc.TrailerCallOption:
			*o.TrailerAddr = transport.trailer
		}
	}
	if err != nil {
		return asStatus(err)
	}
	if err := ctx.Err(); err != nil {
		return status.FromContextError(err).Err()
	}
	response, err := encode(answer)
	if err != nil {
		return err
	}
	return decode(response, reply)
}

// asStatus is what arrives of a handler's error.
func asStatus(err error) error {
	if s, ok := status.FromError(err); ok {
		return s.Err()
	}
	return status.FromContextError(err).Err()
}

func encode(message any) ([]byte, error) {
	m, ok := message.(proto.Message)
	if !ok {
		return nil, status.Errorf(codes.Internal, "%T is no message", message)
	}
	b, err := proto.Marshal(m)
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	if len(b) > MaxMessage {
		return nil, status.Errorf(codes.ResourceExhausted, "the message is larger than max (%d vs. %d)", len(b), MaxMessage)
	}
	return b, nil
}

func decode(b []byte, into any) error {
	m, ok := into.(proto.Message)
	if !ok {
		return status.Errorf(codes.Internal, "%T is no message", into)
	}
	// The message may keep parts of b, which nobody else does: objects are most of what is sent.
	in := protoiface.UnmarshalInput{
		Message: m.ProtoReflect(), Buf: b, Flags: protoiface.UnmarshalAliasBuffer,
		Resolver: protoregistry.GlobalTypes, Depth: protowire.DefaultRecursionLimit,
	}
	var err error
	if methods := in.Message.ProtoMethods(); methods != nil && methods.Unmarshal != nil {
		proto.Reset(m)
		_, err = methods.Unmarshal(in)
	} else {
		err = proto.Unmarshal(b, m)
	}
	if err != nil {
		return status.Error(codes.Internal, err.Error())
	}
	return nil
}

// localTransport takes the headers that a handler sets.
type localTransport struct {
	method          string
	mu              sync.Mutex
	header, trailer metadata.MD
	sent            func() // is called when the headers are to go out; nil where they go with the answer
}

func (t *localTransport) Method() string { return t.method }

func (t *localTransport) SetHeader(md metadata.MD) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.header = join(t.header, md)
	return nil
}

func (t *localTransport) SendHeader(md metadata.MD) error {
	err := t.SetHeader(md)
	if t.sent != nil {
		t.sent()
	}
	return err
}

func (t *localTransport) SetTrailer(md metadata.MD) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.trailer = join(t.trailer, md)
	return nil
}

// join adds md with its keys in lower case, as they arrive over a network.
func join(to, md metadata.MD) metadata.MD {
	if to == nil {
		to = metadata.MD{}
	}
	for key, values := range md {
		key = strings.ToLower(key)
		to[key] = append(to[key], values...)
	}
	return to
}
