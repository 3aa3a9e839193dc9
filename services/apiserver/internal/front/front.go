// Package front stands before the services: it finds out who calls, once a call, and lets calls run by priority and fairness. It wraps the
// services where they are registered, whatever methods they have.
package front

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"howdah.dev/kit/apistatus"
	apiv1 "howdah.dev/proto/gen/howdah/api/v1"
	"howdah.dev/services/apiserver/internal/audit"
	"howdah.dev/services/apiserver/internal/authn"
	"howdah.dev/services/apiserver/internal/authz"
	"howdah.dev/services/apiserver/internal/flow"
)

// Headers that tell a client by what its request was classified, as metadata and over HTTP.
const (
	schemaHeader = "x-kubernetes-pf-flowschema-uid"
	levelHeader  = "x-kubernetes-pf-prioritylevel-uid"
)

// Config is what a front needs.
type Config struct {
	// Know waits until everything is known that the call says was decided before it, and fails where that takes too long; nil: nothing is waited for.
	Know func(context.Context) error
	// Authenticator finds out who calls. The services behind must ask Remembering, so that it is done once.
	Authenticator Authenticator
	// Flow lets calls run; nil lets them all.
	Flow *flow.Dispatcher
	// Count says what a list of a resource costs.
	Count Count
	// Audit records calls; nil records none.
	Audit *audit.Log
	// Authorizer tells the audit why a request that a gateway answered might be made; nil tells nothing.
	Authorizer authz.Authorizer
	// Other counts calls that are for no resource, or were refused before they came to one.
	Other func(verb, group, version, resource, subresource string, code int32)
	// Document counts what was asked for at a path of discovery, health and the like.
	Document func(path string, code int32)
	// Panics counts handlers that panicked.
	Panics prometheus.Counter
}

// Front wraps services.
type Front struct{ cfg Config }

// New returns a front.
func New(cfg Config) *Front { return &Front{cfg} }

// Registrar returns one that registers services behind the front.
func (f *Front) Registrar(r grpc.ServiceRegistrar) grpc.ServiceRegistrar { return registrar{r, f} }

type registrar struct {
	grpc.ServiceRegistrar
	front *Front
}

// RegisterService implements grpc.ServiceRegistrar.
func (r registrar) RegisterService(desc *grpc.ServiceDesc, implementation any) {
	wrapped := *desc
	wrapped.Methods = append([]grpc.MethodDesc(nil), desc.Methods...)
	for i := range wrapped.Methods {
		m := &wrapped.Methods[i]
		inner := m.Handler
		m.Handler = func(srv any, ctx context.Context, decode func(any) error, around grpc.UnaryServerInterceptor) (any, error) {
			return inner(srv, ctx, decode, func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
				fronted := func(ctx context.Context, req any) (any, error) { return r.front.unary(ctx, req, handler) }
				if around == nil {
					return fronted(ctx, req)
				}
				return around(ctx, req, info, fronted)
			})
		}
	}
	wrapped.Streams = append([]grpc.StreamDesc(nil), desc.Streams...)
	for i := range wrapped.Streams {
		s := &wrapped.Streams[i]
		inner := s.Handler
		s.Handler = func(srv any, ss grpc.ServerStream) error { return r.front.stream(srv, ss, inner) }
	}
	r.ServiceRegistrar.RegisterService(&wrapped, implementation)
}

func (f *Front) unary(ctx context.Context, req any, handler grpc.UnaryHandler) (resp any, err error) {
	c, ctx := f.begin(ctx)
	defer func() { c.end(ctx, resp, &err, recover()) }()
	if err := c.admit(ctx, req, func(md metadata.MD) { _ = grpc.SetHeader(ctx, md) }); err != nil {
		return nil, err
	}
	return handler(ctx, req)
}

func (f *Front) stream(srv any, ss grpc.ServerStream, handler grpc.StreamHandler) (err error) {
	c, ctx := f.begin(ss.Context())
	s := &stream{ServerStream: ss, ctx: ctx, call: c}
	defer func() { c.end(ctx, s.told, &err, recover()) }()
	err = handler(srv, s)
	if s.refused != nil {
		return s.refused
	}
	return err
}

// stream judges the call by the first message that it receives.
type stream struct {
	grpc.ServerStream
	ctx     context.Context
	call    *call
	judged  bool
	refused error
	told    *list // what was answered, where the audit wants it
}

func (s *stream) Context() context.Context { return s.ctx }

// takesOver are the subresources whose streams take over the client's connection. No target tells the code of that.
var takesOver = map[string]bool{"exec": true, "attach": true, "portforward": true}

func (s *stream) RecvMsg(m any) error {
	if err := s.ServerStream.RecvMsg(m); err != nil || s.judged {
		return err
	}
	s.judged = true
	if m, ok := m.(*apiv1.ConnectRequest); ok && takesOver[m.GetOpen().GetSubresource()] {
		s.call.code = http.StatusSwitchingProtocols
	}
	s.refused = s.call.admit(s.ctx, m, func(md metadata.MD) { _ = s.SetHeader(md) })
	return s.refused
}

func (s *stream) SendMsg(m any) error {
	if e := s.call.slot.Load(); e != nil {
		switch m := m.(type) {
		case *apiv1.ListResponse:
			s.told = s.told.add(e, m)
		case *apiv1.ConnectResponse:
			if s.call.code == 0 { // it was passed on, and this is what its target says
				s.call.code = cmp.Or(int(m.GetAccepted().GetCode()), http.StatusOK)
			}
			e.Started(s.call.code)
		default:
			e.Started(http.StatusOK)
		}
	}
	return s.ServerStream.SendMsg(m)
}

// call is one call on its way through.
type call struct {
	front  *Front
	holder flow.Holder
	ticket *flow.Ticket
	user   *authn.User
	// caller is the user, or who wanted to act as somebody else and may not.
	caller *authn.User
	// refused is why it could not be found out who calls.
	refused error
	notes   *authn.Notes // of the caller's credential
	slot    audit.Slot
	code    int            // of the answer to a request that was passed on
	other   *request       // set where nobody behind counts the call
	items   []*audit.Entry // of a batch, an entry a write
}

type callKey struct{}

func (f *Front) begin(ctx context.Context) (*call, context.Context) {
	c := &call{front: f}
	ctx = flow.WithHolder(context.WithValue(ctx, callKey{}, c), &c.holder)
	if f.cfg.Audit != nil {
		ctx = audit.WithSlot(ctx, &c.slot)
	}
	return c, ctx
}

// admit waits until the call may run.
func (c *call) admit(ctx context.Context, req any, header func(metadata.MD)) error {
	if m, ok := req.(*apiv1.ReportRequest); ok {
		return c.front.report(ctx, m)
	}
	if know := c.front.cfg.Know; know != nil {
		if err := know(ctx); err != nil {
			r := read(req, c.front.cfg.Count)
			c.other = &r
			return err
		}
	}
	if m, ok := req.(*apiv1.AuthenticateRequest); ok {
		c.classify(ctx, m, header)
		return nil
	}
	r := read(req, c.front.cfg.Count)
	if r.document {
		c.other = &r
	}
	noting, notes := authn.WithNotes(ctx)
	user, err := c.front.cfg.Authenticator.Authenticate(authn.WithAsked(noting, func() authn.Access { return r.access(req) }))
	c.caller, c.refused, c.notes = user, err, notes
	if err == nil {
		c.user = user
	}
	c.record(ctx, req, &r)
	if err := c.unrecorded(); err != nil {
		c.other = &r
		return err
	}
	switch {
	case err == nil:
	case r.Path == "":
		return nil // the service behind refuses it, and says why
	default:
		user = &authn.User{Name: authn.AnonymousUser, Groups: []string{"system:unauthenticated"}}
	}
	if c.front.cfg.Flow == nil || r.long {
		return nil
	}
	r.User = user
	ticket, err := c.front.cfg.Flow.Enter(ctx, &r.Request)
	if c.refused == nil { // nobody's requests are not told
		header(metadata.Pairs(schemaHeader, ticket.SchemaUID, levelHeader, ticket.LevelUID))
	}
	if err != nil {
		c.other = &r
		return err
	}
	c.ticket = ticket
	c.holder.Put(ticket)
	return nil
}

// classify tells by what a request is classified that a gateway answers by itself, once it knows that the caller may make it. It is let
// through whatever comes: there is no work behind it.
func (c *call) classify(ctx context.Context, m *apiv1.AuthenticateRequest, header func(metadata.MD)) {
	if c.front.cfg.Flow == nil || m.GetAccess() == nil || m.GetToken() != "" {
		return
	}
	r := asked(m.GetAccess())
	if r.long {
		return
	}
	user, err := c.front.cfg.Authenticator.Authenticate(authn.WithAsked(ctx, func() authn.Access { return r.access(m) }))
	if err != nil {
		return // the service behind refuses it
	}
	r.User = user
	schema, level := c.front.cfg.Flow.Classify(&r.Request)
	header(metadata.Pairs(schemaHeader, schema, levelHeader, level))
}

// end gives back what admit took. A panic becomes a 500 that names the trace.
func (c *call) end(ctx context.Context, resp any, err *error, panicked any) {
	c.ticket.End()
	if r := c.other; r != nil {
		defer func() {
			code := int32(200)
			if *err != nil {
				code = apistatus.Of(*err).Code
			}
			if r.document {
				c.front.cfg.Document(r.Path, code)
				return
			}
			c.front.cfg.Other(r.Verb, r.Group, r.Version, r.plain, r.Subresource, code)
		}()
	}
	if panicked == nil {
		c.recordEnd(resp, *err)
		return
	}
	defer func() { c.recordEnd(nil, *err) }()
	c.slot.Load().Panicked()
	c.front.cfg.Panics.Inc()
	slog.ErrorContext(ctx, "panic in a handler", "err", fmt.Sprint(panicked), "stack", string(debug.Stack()))
	*err = apierrors.NewInternalError(fmt.Errorf("this request caused apiserver to panic (trace %s)", trace.SpanContextFromContext(ctx).TraceID()))
}
