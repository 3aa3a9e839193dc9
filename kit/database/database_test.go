package database_test

import (
	"context"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"howdah.dev/kit/database"
	"howdah.dev/kit/pgtest"
)

// over is the URL of a database on several hosts.
func over(addresses ...string) string {
	u := url.URL{Scheme: "postgres", User: url.User("postgres"), Host: strings.Join(addresses, ","), Path: "/postgres", RawQuery: "sslmode=disable"}
	return u.String()
}

// silent answers the address of a server that takes connections and never says a word.
func silent(t *testing.T) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return listener.Addr().String()
}

// closed answers an address that refuses connections.
func closed(t *testing.T) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return listener.Addr().String()
}

// asked answers which server a connection came to.
func asked(t *testing.T, databaseURL string, timeout time.Duration) string {
	t.Helper()
	config, err := database.PoolConfig(databaseURL, timeout)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, config.ConnConfig)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	return conn.PgConn().Conn().RemoteAddr().String()
}

func TestConnectionsFindThePrimary(t *testing.T) {
	t.Parallel()
	primary := pgtest.Start(t, pgtest.Config{TCP: true})
	replica := primary.Replica(t)
	first, second := primary.Address(), replica.Address()
	for name, databaseURL := range map[string]string{
		"alone": over(first), "first": over(first, second), "behind its replica": over(second, first),
		"behind one that refuses": over(closed(t), first), "behind one that is silent": over(silent(t), first),
		"whatever the URL says": over(second, first) + "&target_session_attrs=any",
		"behind a name of none": over("nobody.invalid:5432", first),
	} {
		t.Run(name, func(t *testing.T) {
			if got := asked(t, databaseURL, 20*time.Second); got != first {
				t.Errorf("connected to %s, want the primary %s", got, first)
			}
		})
	}
	primary.Kill9()
	if err := replica.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := asked(t, over(first, second), 20*time.Second); got != second {
		t.Errorf("after the failover connected to %s, want %s", got, second)
	}
}

func TestOneHostHasAllTheTime(t *testing.T) {
	t.Parallel()
	for hosts, want := range map[string]time.Duration{"one": time.Minute, "one,two": 30 * time.Second, "one,two,three": 20 * time.Second} {
		config, err := database.Config("postgres://"+hosts+"/howdah?sslmode=prefer", time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if config.ConnectTimeout != want {
			t.Errorf("%s: %v for each, want %v", hosts, config.ConnectTimeout, want)
		}
	}
	if _, err := database.Config("postgres://one:port/howdah", time.Minute); err == nil {
		t.Error("a port that is none was taken")
	}
}
