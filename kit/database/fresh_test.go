package database_test

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"howdah.dev/kit/database"
	"howdah.dev/kit/pki"
	"howdah.dev/kit/pki/pkitest"
)

// doorman stands where a PostgreSQL would, takes TLS and tells who comes, whom it then refuses.
type doorman struct {
	listener net.Listener
	config   *tls.Config
	visitors chan string
}

func startDoorman(t *testing.T) *doorman {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return &doorman{listener: listener, visitors: make(chan string, 1)}
}

// of has the doorman be known by an authority, and take its certificates alone.
func (d *doorman) of(t *testing.T, a *pki.Authority) {
	d.config = &tls.Config{
		Certificates: []tls.Certificate{pkitest.Certificate(t, a, pki.Subject{CommonName: "postgres", Hosts: []string{"127.0.0.1"}})},
		ClientAuth:   tls.RequireAndVerifyClientCert, ClientCAs: a.Pool(),
	}
}

// visit has somebody connect, and answers whose certificate was shown; empty where one of both refused the other.
func (d *doorman) visit(t *testing.T, connect func(ctx context.Context) error) string {
	t.Helper()
	go d.receive()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if connect(ctx) == nil {
		t.Fatal("connected to nothing")
	}
	return <-d.visitors
}

func (d *doorman) receive() {
	name := ""
	defer func() { d.visitors <- name }()
	conn, err := d.listener.Accept()
	if err != nil {
		return
	}
	defer conn.Close()
	request := make([]byte, 8) // asks for TLS
	if _, err := io.ReadFull(conn, request); err != nil {
		return
	}
	if _, err := conn.Write([]byte("S")); err != nil {
		return
	}
	secure := tls.Server(conn, d.config)
	if secure.Handshake() != nil {
		return
	}
	name = secure.ConnectionState().PeerCertificates[0].Subject.CommonName
	refusal := "SFATAL\x00C28000\x00Mnobody is let in\x00\x00"
	secure.Write(append([]byte{'E', 0, 0, 0, byte(4 + len(refusal))}, refusal...))
}

// Connections are made with the certificate and the authority that are in the files then, and with the authority from before while its file is away.
func TestReplacedCertificates(t *testing.T) {
	t.Parallel()
	dir, d := t.TempDir(), startDoorman(t)
	replace := func(a *pki.Authority, name string) {
		pair, err := a.Issue(pki.Subject{CommonName: name, Client: true}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		for file, data := range map[string][]byte{"ca.crt": a.PEM(), "tls.crt": pair.Certificate, "tls.key": pair.Key} {
			if err := os.WriteFile(filepath.Join(dir, file), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		d.of(t, a)
	}
	replace(pkitest.Authority(t), "first")
	databaseURL := "postgres://howdah@" + d.listener.Addr().String() + "/howdah?sslmode=verify-full&sslrootcert=" + dir + "/ca.crt&sslcert=" + dir + "/tls.crt&sslkey=" + dir + "/tls.key"
	config, err := database.Config(databaseURL, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	one := func(ctx context.Context) error {
		_, err := pgx.ConnectConfig(ctx, database.Fresh(ctx, config))
		return err
	}
	pooled, err := database.PoolConfig(databaseURL, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	pool, err := pgxpool.NewWithConfig(t.Context(), pooled)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	check := func(want string) {
		t.Helper()
		if got := d.visit(t, one); got != want {
			t.Errorf("a connection came as %q, want %q", got, want)
		}
		if got := d.visit(t, pool.Ping); got != want {
			t.Errorf("a pool's connection came as %q, want %q", got, want)
		}
	}
	check("first")
	replace(pkitest.Authority(t), "second")
	check("second")
	if config, err = database.Config(databaseURL, time.Minute); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "ca.crt")); err != nil {
		t.Fatal(err)
	}
	if got := d.visit(t, one); got != "second" {
		t.Errorf("without the authorities' file a connection came as %q", got)
	}
}
