package store

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	schema  = "howdah_logs"
	prefix  = "line_"
	hourFmt = "2006010215"
	// hourLock is the advisory lock of those who make and drop the tables of hours; any number that nobody else uses.
	hourLock = 0x686f776c
)

// hourOf is the beginning of a moment's hour.
func hourOf(t time.Time) time.Time { return t.UTC().Truncate(time.Hour) }

// table is the name of an hour's table.
func table(hour time.Time) string { return prefix + hour.UTC().Format(hourFmt) }

// parseTable returns the hour of a table; false for another one.
func parseTable(name string) (time.Time, bool) {
	text, ok := strings.CutPrefix(name, prefix)
	if !ok || len(text) != len(hourFmt) {
		return time.Time{}, false
	}
	hour, err := time.Parse(hourFmt, text)
	return hour, err == nil
}

// hour is a table that is there.
type hour struct {
	begin    time.Time
	name     string
	bytes    int64 // with indexes
	attached bool  // it is part of howdah_logs.line
	leaving  bool  // its detachment was begun
}

const listSQL = `
SELECT c.relname, pg_total_relation_size(c.oid), i.inhrelid IS NOT NULL, coalesce(i.inhdetachpending, false)
  FROM pg_class c LEFT JOIN pg_inherits i ON i.inhrelid = c.oid
 WHERE c.relnamespace = 'howdah_logs'::regnamespace AND c.relkind = 'r' AND c.relname LIKE 'line\_%' ORDER BY c.relname`

type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

// list returns the hours that there are, oldest first.
func list(ctx context.Context, q querier) ([]hour, error) {
	rows, err := q.Query(ctx, listSQL)
	if err != nil {
		return nil, fmt.Errorf("list hours: %w", err)
	}
	var all []hour
	var h hour
	_, err = pgx.ForEachRow(rows, []any{&h.name, &h.bytes, &h.attached, &h.leaving}, func() error {
		if begin, ok := parseTable(h.name); ok {
			h.begin = begin
			all = append(all, h)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list hours: %w", err)
	}
	return all, nil
}

// ensure makes the table of an hour where it is not there.
func (s *Store) ensure(ctx context.Context, begin time.Time) error {
	name := table(begin)
	s.mu.Lock()
	known := s.hours[name]
	s.mu.Unlock()
	if known {
		return nil
	}
	err := pgx.BeginFunc(ctx, s.writes, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", int64(hourLock)); err != nil {
			return err
		}
		var there bool
		if err := tx.QueryRow(ctx, "SELECT to_regclass($1) IS NOT NULL", schema+"."+name).Scan(&there); err != nil || there {
			return err
		}
		// It is dropped as a whole before there is anything in it to clean up.
		for _, sql := range []string{
			fmt.Sprintf("CREATE TABLE %s.%s (LIKE %s.line INCLUDING ALL) WITH (autovacuum_vacuum_insert_threshold = -1)", schema, name, schema),
			fmt.Sprintf("ALTER TABLE %s.line ATTACH PARTITION %s.%s FOR VALUES FROM ('%s') TO ('%s')", schema, schema, name,
				begin.UTC().Format(time.RFC3339), begin.Add(time.Hour).UTC().Format(time.RFC3339)),
		} {
			if _, err := tx.Exec(ctx, sql); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("make the table of an hour: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hours[name] = true
	return nil
}

// forget makes the next write look again which tables there are.
func (s *Store) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.hours)
}
