package proxy

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"howdah.dev/kit/obs"
	"howdah.dev/services/ingress/internal/route"
)

// clientGone is the code in metrics and spans of a request whose client did not wait for the answer; nobody is sent it.
const clientGone = 499

// exchange is one request on its way.
type exchange struct {
	route   *route.Route
	target  *route.Target // of a Gateway's route
	backend *route.Backend
	port    int32
	peer    peer
	origin  string // what a page of another origin is answered with
	patient bool
	tried   []*route.Endpoint // the last one is the one that answers
}

type exchangeKey struct{}

// serve answers a request that came to a port.
func (p *Proxy) serve(w http.ResponseWriter, r *http.Request, port int32) {
	p.handlers.Add(1)
	defer p.handlers.Done()
	start := p.cfg.Now()
	name := hostOf(r.Host)
	e := &exchange{peer: p.peer(r), port: port}
	ctx := otel.GetTextMapPropagator().Extract(r.Context(), propagation.HeaderCarrier(r.Header))
	ctx, span := otel.Tracer("howdah.dev/services/ingress").Start(ctx, "ingress.request", trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
		attribute.String("http.request.method", r.Method), attribute.String("server.address", name),
		attribute.String("url.path", r.URL.Path), attribute.String("client.address", e.peer.client.String()),
	))
	answer := &answer{ResponseWriter: w, idle: p.cfg.Limits.Idle}
	p.cfg.Metrics.active.Inc()
	defer func() { // an answer that breaks off panics; the server knows
		p.cfg.Metrics.active.Dec()
		p.cfg.Metrics.done(e.route, answer.code, p.cfg.Now().Sub(start))
		finish(span, e, answer.code)
	}()
	if !p.find(answer, r, name, e) {
		return
	}
	defer e.release()
	if rule := e.route.Rule; rule != nil && rule.Timeout > 0 && r.Header.Get("Upgrade") == "" {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, rule.Timeout)
		defer cancel()
	}
	p.passing.ServeHTTP(answer, r.WithContext(context.WithValue(ctx, exchangeKey{}, e)))
}

// find looks the route of a request up. It returns false where it has answered the request itself.
func (p *Proxy) find(w *answer, r *http.Request, name string, e *exchange) bool {
	path := r.URL.EscapedPath()
	switch {
	case r.Method == http.MethodConnect:
		http.Error(w, "this is no proxy for connections", http.StatusMethodNotAllowed)
		return false
	case !strings.HasPrefix(path, "/"):
		http.Error(w, "the path does not begin with a slash", http.StatusBadRequest)
		return false
	case route.Climbs(path):
		http.Error(w, `the path has elements "." or ".."`, http.StatusBadRequest)
		return false
	}
	table := p.table.Load()
	q := route.Query{Port: e.port, Host: name, Path: path, Method: r.Method, Header: r.Header, RawQuery: r.URL.RawQuery}
	e.route = table.Find(&q)
	switch {
	case r.TLS != nil && (table.Misdirected(e.route, &q, hostOf(r.TLS.ServerName)) || !proven(table, e, r)):
		e.refuse(w, r, "this connection is for another host: make one for this", http.StatusMisdirectedRequest)
	case e.route == nil:
		e.refuse(w, r, "there is nothing at this host and path", http.StatusNotFound)
	case e.route.Rule != nil:
		return e.find(w, r)
	case e.peer.proto == "http" && e.route.Redirects(name):
		http.Redirect(w, r, p.secured(r), http.StatusPermanentRedirect)
	case len(e.route.Backend.Endpoints) == 0:
		http.Error(w, "there is no backend for this path now", http.StatusServiceUnavailable)
	default:
		e.backend = e.route.Backend
		return true
	}
	return false
}

// proven reports whether the client has shown the certificate that the route's listener asks for: it may have come by a connection for another one.
func proven(t *route.Table, e *exchange, r *http.Request) bool {
	if e.route == nil || e.route.Listener() == nil {
		return true
	}
	v := e.route.Listener().Validation
	if v == nil || v.Insecure {
		return true
	}
	l, _ := t.Identity(e.port, hostOf(r.TLS.ServerName))
	return l != nil && l.Validation == v && len(r.TLS.VerifiedChains) > 0
}

// secured is the URL of the same request over HTTPS.
func (p *Proxy) secured(r *http.Request) string {
	host, port, err := net.SplitHostPort(r.Host)
	if err != nil {
		host, port = r.Host, ""
	} else if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if n := p.cfg.RedirectPort; n != 0 && n != 443 && port != "" && port != "80" {
		host += ":" + strconv.Itoa(n)
	}
	return "https://" + host + r.URL.RequestURI()
}

// rewrite makes the request for the endpoint: as it came, with headers that say from where.
func (p *Proxy) rewrite(r *httputil.ProxyRequest) {
	e := r.In.Context().Value(exchangeKey{}).(*exchange)
	r.Out.Host = r.In.Host
	r.Out.URL.RawQuery = r.In.URL.RawQuery // what does not parse is the backend's to judge
	e.peer.forward(r)
	p.changed(r, e)
	otel.GetTextMapPropagator().Inject(r.In.Context(), propagation.HeaderCarrier(r.Out.Header))
}

// failed answers a request that no endpoint answered.
func (p *Proxy) failed(w http.ResponseWriter, r *http.Request, err error) {
	code := http.StatusBadGateway
	var timeout net.Error
	switch {
	case errors.Is(r.Context().Err(), context.DeadlineExceeded):
		code = http.StatusGatewayTimeout
	case r.Context().Err() != nil:
		if a, ok := w.(*answer); ok {
			a.code = clientGone
		}
		return
	case errors.As(err, &timeout) && timeout.Timeout():
		code = http.StatusGatewayTimeout
	}
	trace.SpanFromContext(r.Context()).RecordError(err)
	if e, ok := r.Context().Value(exchangeKey{}).(*exchange); ok {
		e.refuse(w, r, "the backend did not answer", code)
	}
}

// release lets the endpoint know that the request is over.
func (e *exchange) release() {
	if n := len(e.tried); n > 0 {
		e.tried[n-1].Active.Add(-1)
	}
}

func finish(span trace.Span, e *exchange, code int) {
	if r := e.route; r != nil {
		span.SetAttributes(obs.KeyAttributes(r.Kind, r.Namespace, r.Name)...)
		span.SetAttributes(attribute.String("http.route", r.Path))
		if l := r.Listener(); l != nil {
			span.SetAttributes(attribute.String("howdah.gateway", l.Gateway), attribute.String("howdah.listener", l.Name))
		}
	}
	if b := e.backend; b != nil {
		span.SetAttributes(attribute.String("k8s.service.name", b.Service))
	}
	if n := len(e.tried); n > 0 {
		span.SetAttributes(attribute.String("howdah.endpoint", e.tried[n-1].Address))
	}
	span.SetAttributes(attribute.Int("http.response.status_code", code))
	if code >= http.StatusInternalServerError {
		span.SetStatus(codes.Error, http.StatusText(code))
	}
	span.End()
}

// answer notes the code of a response.
type answer struct {
	http.ResponseWriter
	idle time.Duration // of a connection that is upgraded
	code int
}

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(code int) {
	if a.code == 0 && code >= 200 {
		a.code = code
	}
	a.ResponseWriter.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (a *answer) Write(p []byte) (int, error) {
	if a.code == 0 {
		a.code = http.StatusOK
	}
	return a.ResponseWriter.Write(p)
}

// Hijack implements http.Hijacker, for connections that are upgraded.
func (a *answer) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	a.code = http.StatusSwitchingProtocols
	conn, buffered, err := http.NewResponseController(a.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	return &idleConn{Conn: conn, idle: a.idle}, buffered, nil
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
