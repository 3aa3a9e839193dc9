// Package proxy puts a network between a client and a server that a test can cut or freeze.
package proxy

import (
	"net"
	"sync"
	"testing"
)

// Proxy forwards TCP connections.
type Proxy struct {
	listener net.Listener
	target   string
	mu       sync.Mutex
	open     sync.Cond // signalled when frozen or closed change
	frozen   bool
	closed   bool
	conns    map[net.Conn]struct{}
}

// Start forwards connections to target (host:port) until the test ends.
func Start(t testing.TB, target string) *Proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{listener: listener, target: target, conns: map[net.Conn]struct{}{}}
	p.open.L = &p.mu
	go p.accept()
	t.Cleanup(func() {
		listener.Close()
		p.mu.Lock()
		p.closed = true
		p.open.Broadcast()
		p.mu.Unlock()
		p.Cut()
	})
	return p
}

// Address to connect to.
func (p *Proxy) Address() string { return p.listener.Addr().String() }

// Freeze lets nothing through in either direction; connections stay open, as with a cable pulled.
func (p *Proxy) Freeze() { p.set(true) }

// Thaw lets everything through again, also what came meanwhile.
func (p *Proxy) Thaw() { p.set(false) }

// Cut closes all connections; new ones are possible.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.conns {
		conn.Close()
	}
}

func (p *Proxy) set(frozen bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.frozen = frozen
	p.open.Broadcast()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			client.Close()
			continue
		}
		p.mu.Lock()
		p.conns[client], p.conns[server] = struct{}{}, struct{}{}
		p.mu.Unlock()
		go p.pump(client, server)
		go p.pump(server, client)
	}
}

func (p *Proxy) pump(from, to net.Conn) {
	defer func() {
		from.Close()
		to.Close()
		p.mu.Lock()
		delete(p.conns, from)
		p.mu.Unlock()
	}()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		p.mu.Lock()
		for p.frozen && !p.closed {
			p.open.Wait()
		}
		p.mu.Unlock()
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
