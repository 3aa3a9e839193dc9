package rpc

import (
	"context"
	"io"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"
)

// Local is a wire within a process. Calls on it are what they are on a network: each side has a message of its own,
// metadata and trace context travel, the server's interceptors run, deadlines and cancellation pass, and a sender waits for
// a slow receiver. What is left out is HTTP/2, which costs several times more than all of that, and the encoding:
// what a message refers to, as the bytes of an object, is passed on by reference. So nobody may change it once the message
// is sent, which gRPC asks of senders anyway, or received; the message itself is its owner's to change or use again.
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
	default:
		select {
		case <-c.wire.serving:
		case <-ctx.Done():
			return nil, nil, nil, status.FromContextError(ctx.Err()).Err()
		}
	}
	if c.wire.life.Err() != nil {
		return nil, nil, nil, errEnded
	}
	s = c.wire.server
	client = ctx
	info := &stats.RPCTagInfo{FullMethodName: method}
	if recorded(ctx) {
		client = c.stats.TagRPC(ctx, info)
	}
	md, ok := metadata.FromOutgoingContext(client)
	if !ok {
		md = metadata.MD{}
	}
	server = metadata.NewIncomingContext(WithUser(client, c.user), md)
	// Calls that the handler makes in its turn are its own.
	server = metadata.NewOutgoingContext(server, metadata.MD{})
	if recorded(ctx) {
		server = s.local.stats.TagRPC(server, info)
	}
	return s, client, server, nil
}

// recorded reports whether a call may be recorded: telling the stats handlers of one that is not costs more than the call.
func recorded(ctx context.Context) bool {
	if _, none := otel.GetTracerProvider().(noop.TracerProvider); none {
		return false
	}
	parent := trace.SpanContextFromContext(ctx)
	return !parent.IsValid() || parent.IsSampled()
}

// observe tells a stats handler of a call's beginning, and returns what tells it of its end.
func observe(ctx context.Context, h stats.Handler, client bool) func(error) {
	if !recorded(ctx) {
		return func(error) {}
	}
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
	if err := fits(args); err != nil {
		return err
	}
	s.local.calls.Add(1)
	defer s.local.calls.Done()
	transport := &localTransport{method: method}
	server = grpc.NewContextWithServerTransportStream(server, transport)
	ended := observe(server, s.local.stats, false)
	answer, err := m.handler(m.implementation, server, func(into any) error { return pass(args, into) }, s.local.aroundUnary)
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
	if err := fits(answer); err != nil {
		return err
	}
	return pass(answer, reply)
}

// asStatus is what arrives of a handler's error.
func asStatus(err error) error {
	if s, ok := status.FromError(err); ok {
		return s.Err()
	}
	return status.FromContextError(err).Err()
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
