package migrations

import (
	"context"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"howdah.dev/kit/pgtest"
)

func TestLook(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	known, err := load(files)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	step := func(name string, known []migration, applied int, missing []string, objects, unusable bool) {
		t.Helper()
		s, err := look(t.Context(), conn, known)
		if err != nil || s.Server < 150000 || s.Now.IsZero() || s.Applied != applied || s.Known != len(known) || !slices.Equal(s.Missing, missing) || s.Objects != objects || (s.Err != nil) != unusable {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
	}
	var names []string
	for _, m := range known {
		names = append(names, m.name)
	}
	step("an empty database", known, 0, names, false, false)
	if err := apply(t.Context(), url, known[:3]); err != nil {
		t.Fatal(err)
	}
	step("of an older program", known, 3, names[3:], false, false)
	if _, err := conn.Exec(t.Context(), "ALTER TABLE howdah.migration DROP COLUMN breaking"); err != nil {
		t.Fatal(err)
	}
	step("of one without the column", known, 3, names[3:], false, false)
	if err := apply(t.Context(), url, known); err != nil {
		t.Fatal(err)
	}
	step("of this one", known, len(known), nil, false, false)
	if _, err := conn.Exec(t.Context(), "INSERT INTO howdah.object (key, revision, create_revision, value) VALUES ('/x', 1, 1, 'x')"); err != nil {
		t.Fatal(err)
	}
	step("with a cluster", known, len(known), nil, true, false)
	breaking := append(slices.Clone(known), migration{len(known) + 1, "end.sql", "-- breaking: for a test\nSELECT 1"})
	if err := apply(t.Context(), url, breaking); err != nil {
		t.Fatal(err)
	}
	step("of a newer one", known, len(breaking), nil, true, true)
	if s, err := Look(t.Context(), url); err != nil || s.Err == nil {
		t.Errorf("%+v, %v", s, err)
	}
}
