package initialize

import (
	"context"
	"testing"

	"howdah.dev/kit/database"
	"howdah.dev/kit/pgtest"
	"howdah.dev/migrations"
)

// write has a cluster's first object in a database.
func write(t *testing.T, url string) {
	t.Helper()
	conn, err := database.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), "INSERT INTO howdah.object (key, revision, create_revision, value) VALUES ('/x', 1, 1, 'x')"); err != nil {
		t.Fatal(err)
	}
}

func TestSchema(t *testing.T) {
	t.Parallel()
	m := setup(t)
	m.Cluster.Database.URL = pgtest.New(t)
	if err := m.databaseFull(t.Context()); err == nil {
		t.Error("an empty database is that of a control plane")
	}
	for range 2 {
		m.must(t, "schema")
	}
	if s, err := migrations.Look(t.Context(), m.Cluster.Database.URL); err != nil || len(s.Missing) > 0 || s.Applied == 0 {
		t.Errorf("%+v, %v", s, err)
	}
	write(t, m.Cluster.Database.URL)
	if err := m.databaseFull(t.Context()); err != nil {
		t.Error(err)
	}
}
