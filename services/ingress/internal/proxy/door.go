package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"

	"howdah.dev/services/ingress/internal/route"
)

// door is a port that is open.
type door struct {
	p      *Proxy
	port   int32
	secure bool
	server *http.Server
	l      net.Listener
	shuts  atomic.Bool
}

func (p *Proxy) door(port int32, secure bool, l net.Listener) *door {
	d := &door{p: p, port: port, secure: secure}
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(secure)
	protocols.SetUnencryptedHTTP2(!secure) // gRPC without TLS
	d.server = &http.Server{
		Handler:     http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.serve(w, r, port) }),
		BaseContext: func(net.Listener) context.Context { return p.base }, Protocols: &protocols,
		ReadHeaderTimeout: p.cfg.Limits.Header, IdleTimeout: 2 * p.cfg.Limits.Header, MaxHeaderBytes: 64 << 10,
		ErrorLog: slog.NewLogLogger(slog.Default().Handler(), slog.LevelDebug), // faults of clients
	}
	d.l = p.limited(l)
	if secure {
		d.l = p.sorting(d.l, port)
		d.server.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: d.certificate, GetConfigForClient: d.validated}
	}
	return d
}

// serve serves until the door is shut.
func (d *door) serve() error {
	err := error(nil)
	if d.secure {
		err = d.server.ServeTLS(d.l, "", "")
	} else {
		err = d.server.Serve(d.l)
	}
	if errors.Is(err, http.ErrServerClosed) || d.shuts.Load() {
		return nil
	}
	return fmt.Errorf("serve port %d: %w", d.port, err)
}

// close takes no new connections.
func (d *door) close() {
	d.shuts.Store(true)
	_ = d.l.Close()
}

// shut closes the door, and waits for the requests under way; what is left then is cut off.
func (d *door) shut(ctx context.Context) {
	d.close()
	if d.server.Shutdown(ctx) != nil {
		_ = d.server.Close()
	}
}

// certificate answers for a client's SNI.
func (d *door) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	if _, c := d.p.table.Load().Identity(d.port, hostOf(hello.ServerName)); c != nil {
		return c, nil
	}
	if d.port == route.SecurePort {
		return d.p.cfg.Fallback, nil
	}
	return nil, errors.New("nobody has a certificate for the name here")
}

// validated is what TLS asks of clients of a listener that judges them, nil where none does.
func (d *door) validated(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	l, c := d.p.table.Load().Identity(d.port, hostOf(hello.ServerName))
	if l == nil || l.Validation == nil {
		return nil, nil
	}
	out := &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}, Certificates: []tls.Certificate{*c}, ClientCAs: l.Validation.Roots,
		ClientAuth: tls.RequireAndVerifyClientCert, SessionTicketsDisabled: true, // a session would outlive what clients are judged by
	}
	if l.Validation.Insecure {
		out.ClientAuth = tls.RequestClientCert
	}
	return out, nil
}

// open opens the ports that are to be open beside those of Ingresses, and shuts the others.
func (p *Proxy) open(ports map[int32]bool) map[int32]string {
	closed := map[int32]string{}
	p.mu.Lock()
	defer p.mu.Unlock()
	for port, d := range p.doors {
		if secure, ok := ports[port]; port == route.PlainPort || port == route.SecurePort || ok && secure == d.secure {
			continue
		}
		delete(p.doors, port)
		d.close()
		p.doormen.Go(func() {
			limited, cancel := context.WithTimeout(p.base, p.cfg.Limits.Drain)
			defer cancel()
			d.shut(limited)
		})
	}
	for port, secure := range ports {
		if p.doors[port] != nil {
			continue
		}
		l, err := p.cfg.Listen(port)
		if err != nil {
			closed[port] = reason(err)
			continue
		}
		p.doors[port] = p.door(port, secure, l)
		if p.serving != nil {
			p.serving(p.doors[port])
		}
	}
	return closed
}

// reason is what the system says about a port, without what is known.
func reason(err error) string {
	var op *net.OpError
	if errors.As(err, &op) {
		return op.Err.Error()
	}
	return err.Error()
}
