package netnstest

import (
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"howdah.dev/nodeagent/internal/sctptest"
)

// datagram is the most that one takes.
const datagram = 16384

var words atomic.Int64

// Echo answers whatever comes with a name and what came, on every connection ("tcp", "sctp") or to every datagram ("udp"), at an address of
// the namespace, until stop or the test's end.
func (n *Namespace) Echo(t testing.TB, network, address, name string) (stop func()) {
	t.Helper()
	switch network {
	case "tcp":
		var l net.Listener
		n.Do(func() (err error) { l, err = net.Listen(network, address); return err })
		go echoConnections(l, name)
		stop = func() { l.Close() }
	case "sctp":
		var e *sctptest.Echoer
		n.Do(func() (err error) { e, err = sctptest.Listen(address, name); return err })
		go e.Run()
		stop = func() { e.Close() }
	default:
		var c net.PacketConn
		n.Do(func() (err error) { c, err = net.ListenPacket(network, address); return err })
		go echoDatagrams(c, name)
		stop = func() { c.Close() }
	}
	t.Cleanup(stop)
	return stop
}

func echoConnections(l net.Listener, name string) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			buf := make([]byte, datagram)
			for {
				n, err := c.Read(buf)
				if err != nil {
					return
				}
				fmt.Fprintf(c, "%s %s", name, buf[:n])
			}
		}()
	}
}

func echoDatagrams(c net.PacketConn, name string) {
	buf := make([]byte, datagram)
	for {
		n, from, err := c.ReadFrom(buf)
		if err != nil {
			return
		}
		c.WriteTo(append([]byte(name+" "), buf[:n]...), from)
	}
}

// Dial connects from the namespace.
func (n *Namespace) Dial(network, address string, wait time.Duration) (c net.Conn, err error) {
	if network == "sctp" {
		return n.DialSCTP(address, 0, wait)
	}
	err = n.Try(func() (err error) { c, err = net.DialTimeout(network, address, wait); return err })
	return c, err
}

// DialSCTP begins an association from the namespace, from a port; 0 is any.
func (n *Namespace) DialSCTP(address string, port uint16, wait time.Duration) (c net.Conn, err error) {
	err = n.Try(func() (err error) { c, err = sctptest.Dial(address, port, wait); return err })
	return c, err
}

// Ask sends a word to an Echo and returns its name.
func (n *Namespace) Ask(network, address string, wait time.Duration) (string, error) {
	c, err := n.Dial(network, address, wait)
	if err != nil {
		return "", err
	}
	defer c.Close()
	return Talk(c, wait)
}

// Talk sends a word over a connection to an Echo and returns its name. The answer must carry the word.
func Talk(c net.Conn, wait time.Duration) (string, error) {
	word := fmt.Sprint(words.Add(1))
	c.SetDeadline(time.Now().Add(wait))
	if _, err := io.WriteString(c, word); err != nil {
		return "", err
	}
	buf := make([]byte, datagram)
	n, err := c.Read(buf)
	if err != nil {
		return "", err
	}
	var name, echoed string
	if _, err := fmt.Sscan(string(buf[:n]), &name, &echoed); err != nil || echoed != word {
		return "", fmt.Errorf("sent %q, got %q", word, buf[:n])
	}
	return name, nil
}
