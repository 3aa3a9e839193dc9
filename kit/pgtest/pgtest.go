// Package pgtest gives tests a PostgreSQL of their own: New a database in a server that the test binary shares,
// Start a whole server that a test may kill and restart.
//
// Servers run in a temporary directory from the binaries of the machine's PostgreSQL package, as user postgres when
// the test runs as root. A watcher process that notices the test binary's end, however it ends, stops them and removes the directory.
package pgtest

import (
	"context"
	"fmt"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// Template prepares databases: Setup runs once a test binary (for each Name), and every database made from it is a copy.
type Template struct {
	// Name is unique among the templates of a test binary; lower-case letters and digits.
	Name string
	// Setup fills the database, for instance with migrations.Apply.
	Setup func(ctx context.Context, databaseURL string) error
}

// shared is the server that the tests of this binary have in common. Tests have no other place that outlives one of them.
var shared struct {
	sync.Mutex
	server    *Server
	err       error
	templates map[string]error
	databases int
}

// New answers the URL of a fresh database that is dropped at the end of the test. With a template it starts as a copy of it, else empty.
// It fails the test where no PostgreSQL is installed.
func New(t testing.TB, template ...Template) (databaseURL string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	shared.Lock()
	defer shared.Unlock()
	if shared.server == nil && shared.err == nil {
		shared.templates = map[string]error{}
		shared.server, shared.err = start(ctx, Config{})
	}
	check(t, shared.err)
	from := "template0"
	if len(template) > 0 {
		from = "t_" + template[0].Name
		err, done := shared.templates[from]
		if !done {
			err = makeTemplate(ctx, shared.server, from, template[0].Setup)
			shared.templates[from] = err
		}
		check(t, err)
	}
	shared.databases++
	name := fmt.Sprintf("test_%d", shared.databases)
	check(t, shared.server.exec(ctx, fmt.Sprintf("CREATE DATABASE %s TEMPLATE %s", name, from)))
	server := shared.server
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := server.exec(ctx, fmt.Sprintf("DROP DATABASE %s WITH (FORCE)", name)); err != nil {
			t.Errorf("drop the test's database: %v", err)
		}
	})
	return server.url(name)
}

func makeTemplate(ctx context.Context, s *Server, name string, setup func(context.Context, string) error) error {
	if err := s.exec(ctx, "CREATE DATABASE "+name+" TEMPLATE template0"); err != nil {
		return err
	}
	if err := setup(ctx, s.url(name)); err != nil {
		return fmt.Errorf("set up %s: %w", name, err)
	}
	return nil
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
}

func (s *Server) exec(ctx context.Context, sql string) error {
	conn, err := pgx.Connect(ctx, s.url("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = conn.Exec(ctx, sql)
	return err
}

// url names a database of the server; it works for pgx, psql and everything else on libpq's terms.
func (s *Server) url(database string) string {
	query := url.Values{"host": {s.dir}, "port": {fmt.Sprint(s.port)}}
	return "postgres://postgres@/" + database + "?" + query.Encode()
}
