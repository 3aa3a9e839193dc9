package main

import (
	"net"
	"sync/atomic"
	"testing"
)

// TestMigrateWaits: a database that does not answer yet is asked again, as long as --timeout says.
func TestMigrateWaits(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	var asked atomic.Int32
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			asked.Add(1)
			_ = conn.Close()
		}
	}()
	_, err = execute(t, "migrate", "--database-url", "postgres://u:p@"+listener.Addr().String()+"/d?sslmode=disable", "--timeout", "2s")
	if err == nil || asked.Load() < 2 {
		t.Errorf("asked %d times: %v", asked.Load(), err)
	}
}
