package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"howdah.dev/services/ingress/internal/route"
)

const (
	// connectTimeout bounds making a connection to an endpoint, on the cluster's own network.
	connectTimeout = 2 * time.Second
	// tries is how many endpoints are tried for one request.
	tries = 3
	// rest is how long an endpoint that could not be connected to is left out where there are others.
	rest = 5 * time.Second
	// perEndpoint bounds the connections to one endpoint; requests beyond wait for one.
	perEndpoint = 1024
)

// unconnected is the error of a connection that could not be made: the request was not sent.
type unconnected struct{ error }

func (u unconnected) Unwrap() error { return u.error }

// transport sends requests to the endpoints of their exchange.
type transport struct {
	cfg        Config
	byProtocol map[route.Protocol]*http.Transport
}

func newTransport(cfg Config) *transport {
	t := &transport{cfg: cfg, byProtocol: map[route.Protocol]*http.Transport{}}
	for _, p := range []route.Protocol{route.HTTP, route.H2C, route.HTTPS} {
		var protocols http.Protocols
		protocols.SetHTTP1(p != route.H2C)
		protocols.SetHTTP2(p == route.HTTPS)
		protocols.SetUnencryptedHTTP2(p == route.H2C)
		t.byProtocol[p] = &http.Transport{
			DialContext: t.dial, DisableCompression: true, Protocols: &protocols,
			MaxIdleConns: 1024, MaxIdleConnsPerHost: 64, MaxConnsPerHost: perEndpoint, IdleConnTimeout: 90 * time.Second,
			ResponseHeaderTimeout: cfg.Limits.Answer, TLSHandshakeTimeout: connectTimeout, ExpectContinueTimeout: time.Second,
			// Endpoints are pods: their certificates name services at best, and their addresses come from the API.
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12},
		}
	}
	return t
}

func (t *transport) close() {
	for _, one := range t.byProtocol {
		one.CloseIdleConnections()
	}
}

func (t *transport) dial(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	conn, err := t.cfg.Dial(ctx, network, address)
	if err != nil {
		return nil, unconnected{err}
	}
	return &idleConn{Conn: conn, idle: t.cfg.Limits.Idle}, nil
}

// RoundTrip implements http.RoundTripper. It tries another endpoint only where the request was not sent to the one before.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	e := r.Context().Value(exchangeKey{}).(*exchange)
	b := e.route.Backend
	for {
		endpoint := pick(b, e.peer.client, e.tried, t.cfg.Now())
		e.release()
		endpoint.Active.Add(1)
		e.tried = append(e.tried, endpoint)
		response, err := t.byProtocol[b.Protocol].RoundTrip(aim(r, b.Protocol, endpoint.Address))
		var failed unconnected
		if err == nil || !errors.As(err, &failed) || r.Context().Err() != nil {
			return response, err
		}
		endpoint.Rest(t.cfg.Now().Add(rest))
		t.cfg.Metrics.unconnected(e.route)
		trace.SpanFromContext(r.Context()).AddEvent("endpoint not reached", trace.WithAttributes(
			attribute.String("howdah.endpoint", endpoint.Address), attribute.String("error", err.Error())))
		if len(e.tried) == min(tries, len(b.Endpoints)) {
			return nil, err
		}
	}
}

// aim returns the request for one endpoint.
func aim(r *http.Request, protocol route.Protocol, address string) *http.Request {
	out := *r
	u := *r.URL
	u.Scheme, u.Host = "http", address
	if protocol == route.HTTPS {
		u.Scheme = "https"
	}
	out.URL = &u
	if r.Body != nil {
		out.Body = kept{r.Body}
	}
	return &out
}

// kept is a body that a failed try does not close, so that the next one can read it. Who made the request closes it.
type kept struct{ io.Reader }

func (kept) Close() error { return nil }
