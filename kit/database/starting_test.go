package database

import (
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

func TestStarting(t *testing.T) {
	t.Parallel()
	// A server that ends each connection before it has said anything.
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	}()
	connect := func(at string) error {
		_, err := Connect(t.Context(), "postgres://u:p@"+at+"/d?sslmode=disable&connect_timeout=5")
		return err
	}
	broken := connect(address)
	_ = listener.Close()
	for name, tt := range map[string]struct {
		err  error
		want bool
	}{
		"broken off":     {broken, true},
		"nobody listens": {connect(address), true},
		"no such name":   {&net.DNSError{Err: "no such host", Name: "database"}, true},
		"it starts":      {fmt.Errorf("connect: %w", &pgconn.PgError{Code: "57P03"}), true},
		"silent":         {&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, true},
		"wrong password": {&pgconn.PgError{Code: "28P01"}, false},
		"another":        {errors.New("tls: bad certificate"), false},
		"not permitted":  {&net.OpError{Op: "dial", Err: syscall.EACCES}, false},
		"none":           {nil, false},
	} {
		if got := Starting(tt.err); got != tt.want {
			t.Errorf("%s: %v (%v)", name, got, tt.err)
		}
	}
}
