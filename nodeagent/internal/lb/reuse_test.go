package lb

import (
	"fmt"
	"net"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"howdah.dev/nodeagent/bpf"
	"howdah.dev/nodeagent/internal/route/netnstest"
)

// natForward is NAT_FORWARD of bpf/packet.h.
const natForward = 2

// A client that connects again from the port of a connection that it closed gets a connection of its own, whatever became of the
// entries of the one before: they may stand, one may be evicted, or another flow may have been given the way back.
func TestClientPortUsedAgain(t *testing.T) { onEachHook(t, testClientPortUsedAgain) }

func testClientPortUsedAgain(t *testing.T, c *cluster) {
	n := startCluster(t, c, nodePort("web", c.at("10.96.0.10"), 30080, 30053), c.spread("web"))
	translations, err := ebpf.LoadPinnedMap(filepath.Join(n.at.Pins, "translations"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer translations.Close()
	answers := func(do func(bpf.LBTuple, bpf.LBTranslation) error) {
		t.Helper()
		var key bpf.LBTuple
		var value bpf.LBTranslation
		found := map[bpf.LBTuple]bpf.LBTranslation{}
		for all := translations.Iterate(); all.Next(&key, &value); {
			if value.Flags&natForward == 0 {
				found[key] = value
			}
		}
		if len(found) == 0 {
			t.Fatal("there is no way back of any flow")
		}
		for key, value := range found {
			if err := do(key, value); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i, tt := range []struct {
		name   string
		before func(bpf.LBTuple, bpf.LBTranslation) error
	}{
		{"entries stand", func(bpf.LBTuple, bpf.LBTranslation) error { return nil }},
		{"evicted", func(key bpf.LBTuple, _ bpf.LBTranslation) error { return translations.Delete(key) }},
		{"given away", func(key bpf.LBTuple, value bpf.LBTranslation) error {
			value.DestinationPort++
			return translations.Put(key, value)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for round := range 4 { // round robin: each backend comes to be asked
				port := 45000 + 10*i
				if name, err := askFrom(c, port, c.at("192.0.2.11:30080")); err != nil {
					t.Fatalf("connection %d: %v after %q", round, err, name)
				}
				answers(tt.before)
			}
		})
	}
}

// askFrom asks from a port of the outside, and ends the connection with a reset, so that the port is free at once.
func askFrom(c *cluster, port int, address string) (name string, err error) {
	var conn net.Conn
	err = c.outside.Try(func() (err error) {
		d := net.Dialer{Timeout: 2 * time.Second, LocalAddr: &net.TCPAddr{IP: net.ParseIP(c.at("192.0.2.13")), Port: port}, Control: reuseAddress}
		conn, err = d.Dial("tcp", address)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("dial: %w", err)
	}
	defer conn.Close()
	if err := conn.(*net.TCPConn).SetLinger(0); err != nil {
		return "", err
	}
	return netnstest.Talk(conn, patience)
}

func reuseAddress(_, _ string, raw syscall.RawConn) (err error) {
	if e := raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1) }); e != nil {
		return e
	}
	return err
}
