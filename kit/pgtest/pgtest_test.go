package pgtest_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"howdah.dev/kit/pgtest"
)

func query[T any](t *testing.T, url, sql string) T {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	var result T
	if err := conn.QueryRow(t.Context(), sql).Scan(&result); err != nil {
		t.Fatal(err)
	}
	return result
}

func TestDatabasesAreCopiesOfTheTemplate(t *testing.T) {
	setups := 0
	template := pgtest.Template{Name: "numbers", Setup: func(ctx context.Context, url string) error {
		setups++
		conn, err := pgx.Connect(ctx, url)
		if err != nil {
			return err
		}
		defer conn.Close(ctx)
		_, err = conn.Exec(ctx, "CREATE TABLE number AS SELECT 42 AS n")
		return err
	}}
	first, second := pgtest.New(t, template), pgtest.New(t, template)
	query[int](t, first, "UPDATE number SET n = 43 RETURNING n")
	if got := query[int](t, second, "SELECT n FROM number"); got != 42 {
		t.Errorf("second database: n = %d, want the template's 42", got)
	}
	if setups != 1 {
		t.Errorf("setup ran %d times, want once", setups)
	}
}

func TestKilledServerKeepsWhatWasCommitted(t *testing.T) {
	server := pgtest.Start(t, pgtest.Config{})
	query[int](t, server.URL(), "SELECT 1")
	conn, err := pgx.Connect(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "CREATE TABLE number AS SELECT 42 AS n"); err != nil {
		t.Fatal(err)
	}
	server.Kill9()
	if _, err := conn.Exec(t.Context(), "SELECT 1"); err == nil {
		t.Error("a query of a killed server succeeded")
	}
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := query[int](t, server.URL(), "SELECT n FROM number"); got != 42 {
		t.Errorf("n = %d, want 42", got)
	}
}
