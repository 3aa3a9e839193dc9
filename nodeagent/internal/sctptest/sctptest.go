// Package sctptest is SCTP for tests, on machines whose kernel has none: the library's associations over raw sockets (CAP_NET_RAW), between real addresses
// and ports. Every packet's checksum is looked at.
//
// The library speaks from and to port 5000 alone, so packets are given their ports, and a checksum of these, on their way.
package sctptest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pion/logging"
	"github.com/pion/sctp"
)

const (
	libraryPort = 5000
	sctpHeader  = 12
	initChunk   = 1
	initiateTag = sctpHeader + 4 // where an INIT has it
	queued      = 64             // packets that an association has not taken yet; more are lost, as on any wire
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// readdress gives a packet other ports. It is an error if its checksum was wrong.
func readdress(packet []byte, source, destination uint16) error {
	if len(packet) < sctpHeader {
		return errors.New("less than a header")
	}
	have := binary.LittleEndian.Uint32(packet[8:])
	clear(packet[8:sctpHeader])
	if want := crc32.Checksum(packet, castagnoli); have != want {
		return fmt.Errorf("checksum %08x of a packet of %d bytes from port %d to %d, want %08x", have, len(packet), portAt(packet, 0), portAt(packet, 2), want)
	}
	binary.BigEndian.PutUint16(packet, source)
	binary.BigEndian.PutUint16(packet[2:], destination)
	binary.LittleEndian.PutUint32(packet[8:], crc32.Checksum(packet, castagnoli))
	return nil
}

// beginning gives the tag of the association that a packet begins. 0 is none.
func beginning(packet []byte) uint32 {
	if len(packet) < initiateTag+4 || packet[sctpHeader] != initChunk {
		return 0
	}
	return binary.BigEndian.Uint32(packet[initiateTag:])
}

func portAt(packet []byte, i int) uint16 { return binary.BigEndian.Uint16(packet[i:]) }

// wire is what an association sends and receives by.
type wire struct {
	local, remote netip.AddrPort
	tag           uint32 // that the remote end began with; 0 where this end did
	send          func([]byte) error
	received      chan []byte
	broken        chan error // what was wrong with the first packet that came broken
	done          chan struct{}
	once          sync.Once
	close         func()
}

func newWire(local, remote netip.AddrPort, send func([]byte) error, end func()) *wire {
	return &wire{
		local: local, remote: remote, send: send, close: end,
		received: make(chan []byte, queued), broken: make(chan error, 1), done: make(chan struct{}),
	}
}

// take is given each packet from the remote end's ports.
func (w *wire) take(packet []byte) {
	if err := readdress(packet, libraryPort, libraryPort); err != nil {
		select {
		case w.broken <- err:
		default:
		}
		return
	}
	select {
	case w.received <- packet:
	default:
	}
}

func (w *wire) Read(b []byte) (int, error) {
	select {
	case packet := <-w.received:
		return copy(b, packet), nil
	case err := <-w.broken:
		return 0, err
	case <-w.done:
		return 0, net.ErrClosed
	}
}

func (w *wire) Write(b []byte) (int, error) {
	packet := append([]byte(nil), b...)
	if err := readdress(packet, w.local.Port(), w.remote.Port()); err != nil {
		return 0, err
	}
	return len(b), w.send(packet)
}

func (w *wire) Close() error {
	w.once.Do(func() {
		close(w.done)
		w.close()
	})
	return nil
}

func (w *wire) LocalAddr() net.Addr              { return net.TCPAddrFromAddrPort(w.local) }
func (w *wire) RemoteAddr() net.Addr             { return net.TCPAddrFromAddrPort(w.remote) }
func (w *wire) SetDeadline(time.Time) error      { return os.ErrNoDeadline }
func (w *wire) SetReadDeadline(time.Time) error  { return os.ErrNoDeadline }
func (w *wire) SetWriteDeadline(time.Time) error { return os.ErrNoDeadline }

// association is a stream of an association as a connection.
type association struct {
	*sctp.Stream
	on   *sctp.Association
	wire *wire
}

func (a *association) LocalAddr() net.Addr                { return a.wire.LocalAddr() }
func (a *association) RemoteAddr() net.Addr               { return a.wire.RemoteAddr() }
func (a *association) SetDeadline(t time.Time) error      { return a.SetReadDeadline(t) }
func (a *association) SetWriteDeadline(t time.Time) error { return nil }

// Close ends the association, and tells the other end.
func (a *association) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	err := a.on.Shutdown(ctx)
	if err != nil {
		a.on.Abort("closed")
	}
	return a.wire.Close()
}

func rawNetwork(a netip.Addr) string {
	if a.Is4() {
		return "ip4:132"
	}
	return "ip6:132"
}

// ports are given in turn, from anywhere on: with one that was used before, also by another process, who looks on might take an association for
// the one before.
var ports atomic.Uint32

func init() { ports.Store(rand.Uint32N(10000)) }

// Dial begins an association with an address from a port; 0 is any. The socket belongs to the network namespace of the calling thread.
func Dial(address string, port uint16, wait time.Duration) (net.Conn, error) {
	remote, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil, err
	}
	if port == 0 {
		port = uint16(33000 + ports.Add(1)%10000)
	}
	raw, err := net.DialIP(rawNetwork(remote.Addr()), nil, &net.IPAddr{IP: remote.Addr().AsSlice()})
	if err != nil {
		return nil, err
	}
	local, _ := netip.AddrFromSlice(raw.LocalAddr().(*net.IPAddr).IP)
	w := newWire(netip.AddrPortFrom(local.Unmap(), port), remote, func(b []byte) error { _, err := raw.Write(b); return err }, func() { raw.Close() })
	refused := make(chan error, 2)
	go func() {
		buf := make([]byte, 1<<16)
		for {
			read, err := raw.Read(buf)
			if err != nil {
				refused <- err
				w.Close()
				return
			}
			packet := withoutHeader(buf[:read], remote.Addr())
			if len(packet) >= sctpHeader && portAt(packet, 0) == remote.Port() && portAt(packet, 2) == port {
				w.take(append([]byte(nil), packet...))
			}
		}
	}()
	timeout := time.AfterFunc(wait, func() {
		refused <- os.ErrDeadlineExceeded
		w.Close()
	})
	defer timeout.Stop()
	a, err := sctp.Client(config(w))
	if err != nil {
		w.Close()
		select {
		case err = <-refused:
		default:
		}
		return nil, fmt.Errorf("sctp %s: %w", address, err)
	}
	s, err := a.OpenStream(0, sctp.PayloadTypeWebRTCBinary)
	if err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return &association{s, a, w}, nil
}

// withoutHeader takes IPv4's header off, which a connected socket leaves on.
func withoutHeader(packet []byte, from netip.Addr) []byte {
	if !from.Is4() || len(packet) == 0 {
		return packet
	}
	return packet[min(len(packet), int(packet[0]&15)*4):]
}

// Echoer answers whatever comes, on every association, with a name and what came.
type Echoer struct {
	at   netip.AddrPort
	name string
	raw  net.PacketConn

	mu    sync.Mutex
	wires map[netip.AddrPort]*wire // by the remote end
}

// Listen takes associations with an address and port. The socket belongs to the network namespace of the calling thread.
func Listen(address, name string) (*Echoer, error) {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return nil, err
	}
	raw, err := net.ListenPacket(rawNetwork(at.Addr()), at.Addr().String())
	if err != nil {
		return nil, err
	}
	return &Echoer{at: at, name: name, raw: raw, wires: map[netip.AddrPort]*wire{}}, nil
}

// Close ends Run.
func (e *Echoer) Close() error { return e.raw.Close() }

// Run answers until Close.
func (e *Echoer) Run() {
	buf := make([]byte, 1<<16)
	for {
		n, from, err := e.raw.ReadFrom(buf)
		if err != nil {
			return
		}
		if n < sctpHeader || portAt(buf, 2) != e.at.Port() {
			continue
		}
		if w := e.wire(buf[:n], from.(*net.IPAddr)); w != nil {
			w.take(append([]byte(nil), buf[:n]...))
		}
	}
}

// wire is that of the association which a packet belongs to or begins; nil is none. A client that begins again has forgotten the association before (RFC
// 9260, 5.2.2), which the library would hold on to if its end was lost on the way.
func (e *Echoer) wire(packet []byte, from *net.IPAddr) *wire {
	ip, _ := netip.AddrFromSlice(from.IP)
	remote := netip.AddrPortFrom(ip.Unmap(), portAt(packet, 0))
	e.mu.Lock()
	before := e.wires[remote]
	tag := beginning(packet)
	if tag == 0 || before != nil && before.tag == tag {
		e.mu.Unlock()
		return before
	}
	w := newWire(e.at, remote, func(b []byte) error { _, err := e.raw.WriteTo(b, from); return err }, nil)
	w.tag = tag
	w.close = func() { e.forget(w) }
	e.wires[remote] = w
	e.mu.Unlock()
	if before != nil {
		before.Close()
	}
	go echoAssociation(w, e.name)
	return w
}

func (e *Echoer) forget(w *wire) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.wires[w.remote] == w {
		delete(e.wires, w.remote)
	}
}

func echoAssociation(w *wire, name string) {
	defer w.Close()
	a, err := sctp.Server(config(w))
	if err != nil {
		return
	}
	defer a.Close()
	s, err := a.AcceptStream()
	if err != nil {
		return
	}
	buf := make([]byte, 1<<20)
	for {
		n, err := s.Read(buf)
		if err != nil {
			return
		}
		fmt.Fprintf(s, "%s %s", name, buf[:n])
	}
}

func config(w *wire) sctp.Config {
	return sctp.Config{NetConn: w, LoggerFactory: silent{}, MTU: 1400}
}

// silent is no log.
type silent struct{}

func (silent) NewLogger(string) logging.LeveledLogger {
	return logging.NewDefaultLeveledLoggerForScope("", logging.LogLevelDisabled, nil)
}
