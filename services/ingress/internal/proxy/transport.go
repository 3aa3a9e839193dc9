package proxy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
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
	cfg Config

	mu  sync.RWMutex
	all map[way]*http.Transport
}

// way tells apart how endpoints are spoken to.
type way struct {
	protocol route.Protocol
	tls      *route.BackendTLS // nil: none that is asked for
	patient  bool              // an endpoint may take as long as it likes
}

func newTransport(cfg Config) *transport { return &transport{cfg: cfg, all: map[way]*http.Transport{}} }

// by returns the connections to endpoints that are spoken to in a way.
func (t *transport) by(w way) *http.Transport {
	t.mu.RLock()
	found := t.all[w]
	t.mu.RUnlock()
	if found != nil {
		return found
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all[w] == nil {
		t.all[w] = t.make(w)
	}
	return t.all[w]
}

func (t *transport) make(w way) *http.Transport {
	var protocols http.Protocols
	protocols.SetHTTP1(w.protocol != route.H2C)
	protocols.SetHTTP2(w.protocol == route.HTTPS)
	protocols.SetUnencryptedHTTP2(w.protocol == route.H2C)
	out := &http.Transport{
		DialContext: t.dial, DisableCompression: true, Protocols: &protocols,
		MaxIdleConns: 1024, MaxIdleConnsPerHost: 64, MaxConnsPerHost: perEndpoint, IdleConnTimeout: 90 * time.Second,
		ResponseHeaderTimeout: t.cfg.Limits.Answer, TLSHandshakeTimeout: connectTimeout, ExpectContinueTimeout: time.Second,
		// Endpoints are pods: their certificates name services at best, and their addresses come from the API. A policy may ask for more.
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12},
	}
	if w.patient {
		out.ResponseHeaderTimeout = 0
	}
	if w.tls != nil {
		out.TLSClientConfig.ServerName = w.tls.ServerName
		out.TLSClientConfig.VerifyConnection = verify(w.tls)
		if c := w.tls.Certificate; c != nil {
			out.TLSClientConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return c, nil }
		}
	}
	return out
}

// verify judges an endpoint's certificate as a policy says.
func verify(b *route.BackendTLS) func(tls.ConnectionState) error {
	return func(state tls.ConnectionState) error {
		leaf := state.PeerCertificates[0] // a server has one
		options := x509.VerifyOptions{Roots: b.Roots, Intermediates: x509.NewCertPool()}
		for _, c := range state.PeerCertificates[1:] {
			options.Intermediates.AddCert(c)
		}
		if _, err := leaf.Verify(options); err != nil {
			return err
		}
		return b.Verify(leaf)
	}
}

// use lets go of connections that were made as policies said which the table no longer has.
func (t *transport) use(table *route.Table) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for w, one := range t.all {
		if w.tls != nil && !table.Has(w.tls) {
			one.CloseIdleConnections()
			delete(t.all, w)
		}
	}
}

func (t *transport) close() {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, one := range t.all {
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
	b := e.backend
	for {
		endpoint := pick(b, e.peer.client, e.tried, t.cfg.Now())
		e.release()
		endpoint.Active.Add(1)
		e.tried = append(e.tried, endpoint)
		response, err := t.by(way{b.Protocol, b.TLS, e.patient}).RoundTrip(aim(r, b.Protocol, endpoint.Address))
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
