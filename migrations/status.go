package migrations

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"howdah.dev/kit/database"
)

// Status compares a database's schema with this program.
type Status struct {
	Server  int       // PostgreSQL's version, as 150004
	Now     time.Time // the server's
	Applied int       // how many migrations the database has
	Known   int       // how many this program has
	Missing []string  // the names of those that Apply would apply
	// Err is why this program cannot work with the schema; nil where it can.
	Err error
	// Objects says whether a cluster has written anything.
	Objects bool
}

// undefinedTable is PostgreSQL's code for that, and undefinedColumn for that of a column.
const (
	undefinedTable  = "42P01"
	undefinedColumn = "42703"
)

// Look reads a database's Status and changes nothing.
func Look(ctx context.Context, databaseURL string) (Status, error) {
	known, err := load(files)
	if err != nil {
		return Status{}, err
	}
	conn, err := database.Connect(ctx, databaseURL)
	if err != nil {
		return Status{}, fmt.Errorf("connect: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return look(ctx, conn, known)
}

func look(ctx context.Context, conn *pgx.Conn, known []migration) (Status, error) {
	s := Status{Known: len(known)}
	if err := conn.QueryRow(ctx, "SELECT current_setting('server_version_num')::int, clock_timestamp()").Scan(&s.Server, &s.Now); err != nil {
		return Status{}, fmt.Errorf("ask for PostgreSQL's version: %w", err)
	}
	done, err := readApplied(ctx, conn)
	if code(err) == undefinedColumn { // of a program before the column
		done, err = readSums(ctx, conn)
	}
	if err != nil && code(err) != undefinedTable {
		return Status{}, err
	}
	s.Applied = len(done)
	missing, err := plan(known, done)
	s.Err = err
	for _, m := range missing {
		s.Missing = append(s.Missing, m.name)
	}
	if s.Applied == 0 {
		return s, nil
	}
	if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM howdah.object)").Scan(&s.Objects); err != nil && code(err) != undefinedTable {
		return Status{}, fmt.Errorf("look for objects: %w", err)
	}
	return s, nil
}

func readSums(ctx context.Context, conn *pgx.Conn) (map[int]applied, error) {
	rows, err := conn.Query(ctx, "SELECT number, sha256 FROM howdah.migration")
	if err != nil {
		return nil, fmt.Errorf("read applied migrations: %w", err)
	}
	done := map[int]applied{}
	var number int
	var one applied
	if _, err = pgx.ForEachRow(rows, []any{&number, &one.sum}, func() error {
		done[number] = one
		return nil
	}); err != nil {
		return nil, fmt.Errorf("read applied migrations: %w", err)
	}
	return done, nil
}

func code(err error) string {
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return e.Code
	}
	return ""
}
