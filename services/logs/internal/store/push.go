package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// Run is a run of a container with its next lines.
type Run struct {
	Runtime                        string // id at the node's runtime
	Namespace, Pod, UID, Container string
	Restarts                       int32
	Labels                         map[string]string
	Lines                          []Line // by their positions, which grow
}

// Line is a line as it is stored.
type Line struct {
	Position int64
	Time     time.Time
	Source   int16
	Text     string
}

// Outcome says what a push has done.
type Outcome struct {
	Positions []int64 // how far each run has come
	Lines     int     // that were stored
	Bytes     int     // of their texts
	Repeated  int     // that were stored before
	Expired   int     // that are older than what is kept
}

// maxAhead is how far a node's clock may be before this one's.
const maxAhead = 10 * time.Minute

const upsertSQL = `
INSERT INTO howdah_logs.run AS r (runtime, namespace, pod, pod_uid, container, restarts, node, labels, first, last)
SELECT t.runtime, t.namespace, t.pod, t.pod_uid, t.container, t.restarts, $1, t.labels::jsonb, t.first, t.last
  FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::int[], $8::text[], $9::timestamptz[], $10::timestamptz[])
    AS t (runtime, namespace, pod, pod_uid, container, restarts, labels, first, last)
 ORDER BY t.runtime
    ON CONFLICT (node, runtime) DO UPDATE SET first = least(r.first, excluded.first), last = greatest(r.last, excluded.last)
RETURNING r.runtime, r.id, r.position`

const advanceSQL = `
UPDATE howdah_logs.run r SET position = t.position FROM unnest($1::bigint[], $2::bigint[]) AS t (id, position) WHERE r.id = t.id`

// undefinedTable is the code of a statement that names a table that is gone.
const undefinedTable = "42P01"

// Push stores what it does not have of the runs' lines, all in one transaction. The rows of the runs, in the order of their ids, keep two pushes of the same run
// apart: the second one sees how far the first has come.
func (s *Store) Push(ctx context.Context, node string, runs []Run) (Outcome, error) {
	for again := true; ; again = false {
		o, err := s.push(ctx, node, runs)
		if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == undefinedTable && again { // an hour was dropped since
			s.forget()
			continue
		}
		return o, err
	}
}

func (s *Store) push(ctx context.Context, node string, runs []Run) (Outcome, error) {
	o := Outcome{Positions: make([]int64, len(runs))}
	if len(runs) == 0 {
		return o, nil
	}
	now := s.cfg.Clock.Now()
	oldest := hourOf(now.Add(-s.cfg.Retention))
	for _, begin := range hours(runs, oldest, now) {
		if err := s.ensure(ctx, begin); err != nil {
			return o, err
		}
	}
	err := pgx.BeginFunc(ctx, s.writes, func(tx pgx.Tx) error {
		stands, err := upsert(ctx, tx, node, runs, oldest, now)
		if err != nil {
			return err
		}
		rows := map[time.Time][][]any{}
		var ids, positions []int64
		for i := range runs {
			at := stands[runs[i].Runtime]
			before := at.position
			for _, l := range runs[i].Lines {
				if l.Position <= at.position {
					o.Repeated++
					continue
				}
				at.position = l.Position
				t := stored(l.Time, now)
				if t.Before(oldest) {
					o.Expired++
					continue
				}
				text := clean(l.Text)
				rows[hourOf(t)] = append(rows[hourOf(t)], []any{t, at.id, l.Position, l.Source, text})
				o.Lines++
				o.Bytes += len(text)
			}
			o.Positions[i] = at.position
			if at.position > before {
				ids, positions = append(ids, at.id), append(positions, at.position)
			}
		}
		for begin, lines := range rows {
			if _, err := tx.CopyFrom(ctx, pgx.Identifier{schema, table(begin)}, []string{"time", "run", "position", "source", "text"}, pgx.CopyFromRows(lines)); err != nil {
				return fmt.Errorf("copy lines: %w", err)
			}
		}
		if len(ids) == 0 {
			return nil
		}
		_, err = tx.Exec(ctx, advanceSQL, ids, positions)
		return err
	})
	if err != nil {
		return Outcome{}, fmt.Errorf("store lines: %w", err)
	}
	return o, nil
}

// stored is a line's time as it is kept: of microseconds, and not in the future.
func stored(t, now time.Time) time.Time {
	if t.After(now.Add(maxAhead)) {
		t = now
	}
	return t.Truncate(time.Microsecond)
}

// hours are those that lines need.
func hours(runs []Run, oldest, now time.Time) []time.Time {
	var out []time.Time
	for i := range runs {
		for _, l := range runs[i].Lines {
			begin := hourOf(stored(l.Time, now))
			if !begin.Before(oldest) && !slices.Contains(out, begin) {
				out = append(out, begin)
			}
		}
	}
	return out
}

// stand is how far a run has come.
type stand struct{ id, position int64 }

func upsert(ctx context.Context, tx pgx.Tx, node string, runs []Run, oldest, now time.Time) (map[string]stand, error) {
	n := len(runs)
	var runtime, namespace, pod, uid, container, labels []string
	restarts, first, last := make([]int32, 0, n), make([]time.Time, 0, n), make([]time.Time, 0, n)
	for i := range runs {
		r := &runs[i]
		from, to := now, oldest
		for _, l := range r.Lines {
			t := stored(l.Time, now)
			from, to = earlier(from, t), later(to, t)
		}
		encoded, err := json.Marshal(orEmpty(r.Labels))
		if err != nil {
			return nil, fmt.Errorf("labels: %w", err)
		}
		runtime, namespace, pod, uid = append(runtime, r.Runtime), append(namespace, r.Namespace), append(pod, r.Pod), append(uid, r.UID)
		container, labels, restarts = append(container, r.Container), append(labels, string(encoded)), append(restarts, r.Restarts)
		first, last = append(first, from), append(last, to)
	}
	rows, err := tx.Query(ctx, upsertSQL, node, runtime, namespace, pod, uid, container, restarts, labels, first, last)
	if err != nil {
		return nil, fmt.Errorf("find runs: %w", err)
	}
	stands := make(map[string]stand, n)
	var name string
	var at stand
	if _, err := pgx.ForEachRow(rows, []any{&name, &at.id, &at.position}, func() error { stands[name] = at; return nil }); err != nil {
		return nil, fmt.Errorf("find runs: %w", err)
	}
	return stands, nil
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func orEmpty(labels map[string]string) map[string]string {
	if labels == nil {
		return map[string]string{}
	}
	return labels
}

// clean makes text what PostgreSQL takes: UTF-8 without NUL.
func clean(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "\uFFFD")
}
