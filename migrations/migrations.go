// Package migrations brings a database's schema to the version this program needs.
//
// Migrations are numbered SQL files, applied in order, each in a transaction of its own, and never undone or edited
// once released: a mistake is repaired by the next number.
package migrations

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"sort"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"

	"howdah.dev/kit/database"
)

//go:embed *.sql
var files embed.FS

// lock is the advisory lock that lets one process migrate while others wait; any number that nobody else uses.
const lock = 0x686f7764

const bootstrap = `
CREATE SCHEMA IF NOT EXISTS howdah;
CREATE TABLE IF NOT EXISTS howdah.migration (
    number  int PRIMARY KEY,
    name    text NOT NULL,
    sha256  text NOT NULL,
    applied timestamptz NOT NULL DEFAULT clock_timestamp()
);
ALTER TABLE howdah.migration ADD COLUMN IF NOT EXISTS breaking boolean NOT NULL DEFAULT false`

// breakingMark in the first line of a migration says that programs which do not know it cannot work with the schema any more. All others are additive: the program
// of the release before works beside the new one, so that a control plane of several machines is upgraded one after the other.
const breakingMark = "-- breaking:"

type migration struct {
	number int
	name   string
	sql    string
}

func (m migration) sum() string {
	sum := sha256.Sum256([]byte(m.sql))
	return hex.EncodeToString(sum[:])
}

func (m migration) breaking() bool { return strings.HasPrefix(m.sql, breakingMark) }

// Apply applies what is missing. Several processes may call it at once, and again later. It fails when the
// database has a migration that this program knows differently, or one that it does not know (it is newer) and that says that it is breaking.
func Apply(ctx context.Context, databaseURL string) error {
	known, err := load(files)
	if err != nil {
		return err
	}
	return apply(ctx, databaseURL, known)
}

func apply(ctx context.Context, databaseURL string, known []migration) error {
	conn, err := database.Connect(ctx, databaseURL)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	// Closing the session gives the lock back, also when ctx has ended.
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", lock); err != nil {
		return fmt.Errorf("wait for other migrators: %w", err)
	}
	if _, err := conn.Exec(ctx, bootstrap); err != nil {
		return fmt.Errorf("create table of migrations: %w", err)
	}
	done, err := readApplied(ctx, conn)
	if err != nil {
		return err
	}
	missing, err := plan(known, done)
	if err != nil {
		return err
	}
	for _, m := range missing {
		if err := applyOne(ctx, conn, m); err != nil {
			return fmt.Errorf("apply migration %s: %w", m.name, err)
		}
	}
	return nil
}

func applyOne(ctx context.Context, conn *pgx.Conn, m migration) error {
	return pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, m.sql); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "INSERT INTO howdah.migration (number, name, sha256, breaking) VALUES ($1, $2, $3, $4)", m.number, m.name, m.sum(), m.breaking())
		return err
	})
}

// applied is a migration of the database.
type applied struct {
	sum      string
	breaking bool
}

func readApplied(ctx context.Context, conn *pgx.Conn) (map[int]applied, error) {
	rows, err := conn.Query(ctx, "SELECT number, sha256, breaking FROM howdah.migration")
	if err != nil {
		return nil, fmt.Errorf("read applied migrations: %w", err)
	}
	done := map[int]applied{}
	var number int
	var one applied
	_, err = pgx.ForEachRow(rows, []any{&number, &one.sum, &one.breaking}, func() error {
		done[number] = one
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read applied migrations: %w", err)
	}
	return done, nil
}

// plan answers the known migrations that are not applied, in order.
func plan(known []migration, done map[int]applied) ([]migration, error) {
	var missing []migration
	for _, m := range known {
		there, ok := done[m.number]
		switch {
		case !ok:
			missing = append(missing, m)
		case there.sum != m.sum():
			return nil, fmt.Errorf("migration %s was applied with other contents; migrations must not be edited", m.name)
		case len(missing) > 0:
			return nil, fmt.Errorf("migration %s is applied but %s before it is not", m.name, missing[0].name)
		}
	}
	for number, there := range done {
		if number > len(known) && len(missing) > 0 {
			return nil, fmt.Errorf("migration %d is applied but %s before it is not", number, missing[0].name)
		}
		if number > len(known) && there.breaking {
			return nil, fmt.Errorf("the database has migration %d, which this program does not know and cannot work with: it is too old for it", number)
		}
	}
	return missing, nil
}

// load reads NNNN_name.sql files; their numbers must be 1, 2, 3, ...
func load(dir fs.FS) ([]migration, error) {
	names, err := fs.Glob(dir, "*.sql")
	if err != nil {
		return nil, fmt.Errorf("list migrations: %w", err)
	}
	sort.Strings(names)
	result := make([]migration, 0, len(names))
	for i, name := range names {
		digits, _, _ := strings.Cut(name, "_")
		number, err := strconv.Atoi(digits)
		if err != nil || len(digits) != 4 || number != i+1 {
			return nil, fmt.Errorf("migration %s: want number %04d", name, i+1)
		}
		content, err := fs.ReadFile(dir, name)
		if err != nil {
			return nil, fmt.Errorf("read migration %s: %w", name, err)
		}
		result = append(result, migration{number: number, name: name, sql: string(content)})
	}
	return result, nil
}
