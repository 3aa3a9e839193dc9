package proxy

import (
	"net"
	"sync"
	"time"
)

// limited returns a listener whose connections take a slot each, and are given up when a client takes nothing of what is written to it for a while.
func (p *Proxy) limited(l net.Listener) net.Listener {
	return &limited{Listener: l, slots: p.slots, closed: make(chan struct{}), idle: p.cfg.Limits.Idle, count: p.cfg.Metrics.connections.Add}
}

type limited struct {
	net.Listener
	slots  chan struct{}
	once   sync.Once
	closed chan struct{}
	idle   time.Duration
	count  func(float64)
}

// Accept implements net.Listener. One connection waits here for a slot; the others wait in the kernel's queue. A slot is taken last, since who waits for a
// connection at one port must not keep it from the other port.
func (l *limited) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	select {
	case l.slots <- struct{}{}:
	case <-l.closed:
		_ = conn.Close()
		return nil, net.ErrClosed
	}
	l.count(1)
	return &clientConn{Conn: conn, idle: l.idle, release: sync.OnceFunc(func() { l.count(-1); <-l.slots })}, nil
}

// Close implements net.Listener.
func (l *limited) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

type clientConn struct {
	net.Conn
	idle    time.Duration
	release func()
}

func (c *clientConn) Write(p []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(c.idle)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// CloseWrite is for connections that are upgraded, and for TLS.
func (c *clientConn) CloseWrite() error { return closeWrite(c.Conn) }

func (c *clientConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}
