package proxy

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"howdah.dev/kit/obs"
	"howdah.dev/services/ingress/internal/route"
)

// sorting returns a listener whose connections are those of HTTP: what a TLSRoute takes goes its own way.
func (p *Proxy) sorting(l net.Listener, port int32) net.Listener {
	return &sorting{Listener: l, p: p, port: port, ready: make(chan net.Conn), closed: make(chan struct{})}
}

type sorting struct {
	net.Listener
	p      *Proxy
	port   int32
	ready  chan net.Conn
	start  sync.Once
	once   sync.Once
	closed chan struct{}
}

// Accept implements net.Listener. Connections are taken by another goroutine, since those that are asked for their names come later than others; it ends with
// the listener.
func (s *sorting) Accept() (net.Conn, error) {
	s.start.Do(func() { s.p.doormen.Go(s.take) })
	select {
	case conn := <-s.ready:
		return conn, nil
	case <-s.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (s *sorting) Close() error {
	s.once.Do(func() { close(s.closed) })
	return s.Listener.Close()
}

func (s *sorting) take() {
	for {
		conn, err := s.Listener.Accept()
		if err != nil {
			select {
			case <-s.closed:
				return
			default:
			}
			if temporary(err) {
				time.Sleep(5 * time.Millisecond) // as net/http does: the system is short of something
				continue
			}
			_ = s.Close()
			return
		}
		if !s.p.table.Load().Streams(s.port) {
			s.pass(conn)
			continue
		}
		s.p.handlers.Go(func() { s.sort(conn) })
	}
}

func temporary(err error) bool {
	var t interface{ Temporary() bool }
	return errors.As(err, &t) && t.Temporary()
}

func (s *sorting) pass(conn net.Conn) {
	select {
	case s.ready <- conn:
	case <-s.closed:
		_ = conn.Close()
	}
}

// sort reads for whom a connection is, and leads it there.
func (s *sorting) sort(conn net.Conn) {
	name, replayed, err := serverName(conn, s.p.cfg.Limits.Header)
	if err != nil {
		_ = conn.Close()
		return
	}
	if stream := s.p.table.Load().Stream(s.port, hostOf(name)); stream != nil {
		s.p.stream(replayed, stream, hostOf(name))
		return
	}
	s.pass(replayed)
}

var errRead = errors.New("the name is known")

// serverName reads the name that a client of TLS asks for, and returns the connection as it was before.
func serverName(conn net.Conn, within time.Duration) (string, net.Conn, error) {
	if err := conn.SetReadDeadline(time.Now().Add(within)); err != nil {
		return "", nil, err
	}
	name, seen := "", &listening{Conn: conn}
	err := tls.Server(seen, &tls.Config{MinVersion: tls.VersionTLS12, GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		name = hello.ServerName
		return nil, errRead
	}}).Handshake()
	if !errors.Is(err, errRead) {
		return "", nil, err
	}
	if err := conn.SetReadDeadline(time.Time{}); err != nil {
		return "", nil, err
	}
	return name, &replayed{Conn: conn, from: io.MultiReader(&seen.read, conn)}, nil
}

// listening notes what is read, and says nothing.
type listening struct {
	net.Conn
	read bytes.Buffer
}

func (l *listening) Read(b []byte) (int, error) {
	n, err := l.Conn.Read(b)
	l.read.Write(b[:n])
	return n, err
}

func (l *listening) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

// replayed is a connection of which something was read.
type replayed struct {
	net.Conn
	from io.Reader
}

func (r *replayed) Read(b []byte) (int, error) { return r.from.Read(b) }

// CloseWrite tells the client that nothing more comes.
func (r *replayed) CloseWrite() error { return closeWrite(r.Conn) }

// stream carries a connection to where a TLSRoute leads.
func (p *Proxy) stream(conn net.Conn, s *route.Stream, name string) {
	defer conn.Close()
	from, _ := netip.ParseAddrPort(conn.RemoteAddr().String())
	ctx, span := otel.Tracer("howdah.dev/services/ingress").Start(p.base, "ingress.stream", trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
		attribute.String("server.address", name), attribute.String("client.address", from.Addr().String())))
	span.SetAttributes(obs.KeyAttributes("TLSRoute", s.Namespace, s.Name)...)
	defer span.End()
	if err := p.carry(ctx, conn, s, from.Addr()); err != nil {
		span.RecordError(err)
		span.SetStatus(codes.Error, "not carried")
	}
}

func (p *Proxy) carry(ctx context.Context, conn net.Conn, s *route.Stream, client netip.Addr) error {
	target := s.Rule.Target()
	if target == nil || len(target.Backend.Endpoints) == 0 {
		return errors.New("there is no backend for this name now")
	}
	inner := net.Conn(&idleConn{Conn: conn, idle: p.cfg.Limits.Idle})
	if s.Ends {
		limited, cancel := context.WithTimeout(ctx, p.cfg.Limits.Header)
		defer cancel()
		t := tls.Server(inner, &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			for _, c := range s.Listener().Certificates {
				if hello.SupportsCertificate(c) == nil {
					return c, nil
				}
			}
			return s.Listener().Certificates[0], nil
		}})
		if err := t.HandshakeContext(limited); err != nil {
			return err
		}
		inner = t
	}
	e := &exchange{backend: target.Backend, peer: peer{client: client.Unmap()}}
	out, err := p.transport.connect(ctx, e)
	defer e.release()
	if err != nil {
		return err
	}
	defer out.Close()
	stop := context.AfterFunc(ctx, func() { _, _ = inner.Close(), out.Close() })
	defer stop()
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{out, inner}, {inner, out}} {
		both.Go(func() {
			if _, err := io.Copy(way[0], way[1]); err != nil {
				_, _ = inner.Close(), out.Close()
				return
			}
			_ = closeWrite(way[0])
		})
	}
	both.Wait()
	return nil
}

// connect makes a connection to an endpoint of an exchange's backend.
func (t *transport) connect(ctx context.Context, e *exchange) (net.Conn, error) {
	for {
		endpoint := pick(e.backend, e.peer.client, e.tried, t.cfg.Now())
		e.release()
		endpoint.Active.Add(1)
		e.tried = append(e.tried, endpoint)
		conn, err := t.dial(ctx, "tcp", endpoint.Address)
		if err == nil || ctx.Err() != nil {
			return conn, err
		}
		endpoint.Rest(t.cfg.Now().Add(rest))
		if len(e.tried) == min(tries, len(e.backend.Endpoints)) {
			return nil, err
		}
	}
}
