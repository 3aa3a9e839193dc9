package main

import (
	"context"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestConnectionsAreJoinedInTheirOrder(t *testing.T) {
	node, err := net.Listen("unix", filepath.Join(t.TempDir(), "socket"))
	if err != nil {
		t.Fatal(err)
	}
	tests, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- joint{node: node, tests: tests}.serve(t.Context()) }()
	for _, words := range []string{"first", "second"} {
		// The tests' side is there, and may have spoken, before the node comes.
		far, near := dial(t, tests.Addr()), dial(t, node.Addr())
		for _, way := range [][2]net.Conn{{far, near}, {near, far}} {
			if _, err := io.WriteString(way[0], words); err != nil {
				t.Fatal(err)
			}
			got := make([]byte, len(words))
			if _, err := io.ReadFull(way[1], got); err != nil || string(got) != words {
				t.Fatalf("read %q, %v, want %q", got, err, words)
			}
		}
		far.Close()
		if _, err := near.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("the node's side reads %v after the tests' has ended, want EOF", err)
		}
	}
	node.Close()
	if err := <-ended; err == nil {
		t.Error("serve ended without saying why")
	}
}

func dial(t *testing.T, to net.Addr) net.Conn {
	conn, err := net.Dial(to.Network(), to.String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	return conn
}

func TestOtherModesAreRefused(t *testing.T) {
	for _, at := range [][2]string{{"", "tcp://:1"}, {"/socket", ""}, {"/socket", "unix:///other"}} {
		if _, err := open(at[0], at[1]); err == nil || !strings.Contains(err.Error(), "only the proxy mode") {
			t.Errorf("%q: %v", at, err)
		}
	}
}

func TestTheEndClosesWhatIsJoined(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "socket")
	j, err := open(socket, "tcp://127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	j.tell = t.Logf
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- j.serve(ctx) }()
	far, near := dial(t, j.tests.Addr()), dial(t, j.node.Addr())
	if _, err := io.WriteString(far, "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(near, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("serve: %v", err)
	}
	if _, err := near.Read(make([]byte, 1)); err == nil {
		t.Error("the connection outlives the end")
	}
}
