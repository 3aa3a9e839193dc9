package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"k8s.io/apimachinery/pkg/labels"

	"howdah.dev/services/logs/internal/query"
)

// Search says which lines are wanted. Empty fields select all.
type Search struct {
	Namespace, Pod, UID, Container, Node string
	Labels                               labels.Selector
	Words                                query.Words
	query.Window
	Newest bool         // first; else the oldest
	After  *query.Place // where the page before ended
	Limit  int
}

// Found is a line with the run that it is of.
type Found struct {
	Line
	Run *Known
}

// Known is what is known of a run.
type Known struct {
	Namespace, Pod, UID, Container, Node string
	Restarts                             int32
}

// Page is what a search has found.
type Page struct {
	Lines   []Found
	Next    *query.Place // where the next page goes on; nil where all was looked at
	Scanned int64
}

// Bounds of one search.
const (
	maxRuns    = 20_000
	maxScanned = 1_000_000 // lines
	maxTime    = 5 * time.Second
	maxStep    = 50_000 // lines that one statement looks at
	// few is up to how many runs a statement names them, to look at their lines alone; lines of more are picked from those of all.
	few = 200
)

// ErrTooMany says that a search is about too many runs.
var ErrTooMany = fmt.Errorf("more than %d containers have written lines in that time: narrow it, or name a namespace or a pod", maxRuns)

// ErrSlow says that nothing could be found in time.
var ErrSlow = errors.New("the search took too long: narrow its time, or name a pod")

// Search finds lines. It looks at a bounded number of them for a bounded time, and says where to go on.
func (s *Store) Search(ctx context.Context, q Search) (Page, error) {
	runs, err := s.runs(ctx, q)
	if err != nil || len(runs) == 0 {
		return Page{}, err
	}
	ids := make([]int64, 0, len(runs))
	for id := range runs {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	all, err := list(ctx, s.reads)
	if err != nil {
		return Page{}, err
	}
	if q.Newest {
		slices.Reverse(all)
	}
	var page Page
	began := s.cfg.Clock.Now()
	after := q.After
	for _, h := range all {
		if !h.begin.Before(q.Until) || !h.begin.Add(time.Hour).After(q.Since) || passed(h.begin, after, q.Newest) {
			continue
		}
		step := firstStep(q, len(ids))
		for {
			if page.Scanned >= maxScanned || s.cfg.Clock.Since(began) >= maxTime {
				page.Next = after
				return page, nil
			}
			looked, err := s.look(ctx, q, h, ids, runs, after, step, &page)
			if pg, ok := errors.AsType[*pgconn.PgError](err); ok && pg.Code == undefinedTable {
				break // it was dropped meanwhile
			} else if ok && pg.Code == queryCanceled && ctx.Err() == nil {
				if page.Scanned == 0 {
					return Page{}, ErrSlow
				}
				page.Next = after
				return page, nil
			}
			if err != nil {
				return Page{}, fmt.Errorf("search lines: %w", err)
			}
			if looked.last != nil {
				after = looked.last
			}
			if len(page.Lines) >= q.Limit {
				last := page.Lines[len(page.Lines)-1]
				page.Next = &query.Place{Time: last.Time, Run: looked.runOf, Position: last.Position}
				return page, nil
			}
			if looked.count < step {
				break // the hour is through
			}
			step = min(4*step, maxStep)
		}
	}
	return page, nil
}

const queryCanceled = "57014"

// passed reports whether an hour is behind the place where a search goes on.
func passed(begin time.Time, after *query.Place, newest bool) bool {
	if after == nil {
		return false
	}
	if newest {
		return begin.After(after.Time)
	}
	return !begin.Add(time.Hour).After(after.Time)
}

// firstStep is how many lines the first statement looks at: as many as are wanted, where all that it looks at are.
func firstStep(q Search, runs int) int {
	if runs <= few && len(q.Words.With)+len(q.Words.Without) == 0 {
		return q.Limit
	}
	return max(1000, q.Limit)
}

const runsSQL = `
SELECT id, namespace, pod, pod_uid, container, node, restarts, labels FROM howdah_logs.run
 WHERE ($1 = '' OR namespace = $1) AND ($2 = '' OR pod = $2) AND ($3 = '' OR pod_uid = $3) AND ($4 = '' OR container = $4) AND ($5 = '' OR node = $5)
   AND last >= $6 AND first < $7`

// runs are those whose lines may be wanted.
func (s *Store) runs(ctx context.Context, q Search) (map[int64]*Known, error) {
	rows, err := s.reads.Query(ctx, runsSQL, q.Namespace, q.Pod, q.UID, q.Container, q.Node, q.Since, q.Until)
	if err != nil {
		return nil, fmt.Errorf("find runs: %w", err)
	}
	found := map[int64]*Known{}
	var id int64
	var r Known
	var set map[string]string
	_, err = pgx.ForEachRow(rows, []any{&id, &r.Namespace, &r.Pod, &r.UID, &r.Container, &r.Node, &r.Restarts, &set}, func() error {
		if q.Labels == nil || q.Labels.Matches(labels.Set(set)) {
			known := r
			found[id] = &known
		}
		set = nil
		if len(found) > maxRuns {
			return ErrTooMany
		}
		return nil
	})
	if err != nil && !errors.Is(err, ErrTooMany) {
		return nil, fmt.Errorf("find runs: %w", err)
	}
	return found, err
}

// looked is what a statement has looked at.
type looked struct {
	count int
	last  *query.Place // the last line that it looked at
	runOf int64        // of the last line that was found
}

// look looks at the next lines of an hour, and adds to the page those that are wanted.
func (s *Store) look(ctx context.Context, q Search, h hour, ids []int64, runs map[int64]*Known, after *query.Place, step int, page *Page) (looked, error) {
	sql, args := statement(q, h, ids, after, step, q.Limit-len(page.Lines))
	rows, err := s.reads.Query(ctx, sql, args...)
	if err != nil {
		return looked{}, err
	}
	var o looked
	var l Line
	var run int64
	var end bool
	_, err = pgx.ForEachRow(rows, []any{&l.Time, &run, &l.Position, &l.Source, &l.Text, &end, &o.count}, func() error {
		if end {
			o.last = &query.Place{Time: l.Time, Run: run, Position: l.Position}
			page.Scanned += int64(o.count)
			return nil
		}
		o.runOf = run
		page.Lines = append(page.Lines, Found{Line: l, Run: runs[run]})
		return nil
	})
	if o.last == nil {
		o.count = 0
	}
	return o, err
}

// statement looks at step lines of an hour, and returns at most limit that are wanted, and behind them the last that it has looked at with their number.
func statement(q Search, h hour, ids []int64, after *query.Place, step, limit int) (string, []any) {
	var args []any
	arg := func(v any) string {
		args = append(args, v)
		return fmt.Sprintf("$%d", len(args))
	}
	direction, opposite, compare := "ASC", "DESC", ">"
	if q.Newest {
		direction, opposite, compare = "DESC", "ASC", "<"
	}
	order := func(d string) string { return fmt.Sprintf("ORDER BY time %s, run %s, position %s", d, d, d) }
	span := []string{"time >= " + arg(q.Since), "time < " + arg(q.Until)}
	if after != nil {
		span = append(span, fmt.Sprintf("(time, run, position) %s (%s::timestamptz, %s::bigint, %s::bigint)", compare, arg(after.Time), arg(after.Run), arg(after.Position)))
	}
	wanted := []string{"true"}
	if own := "run = ANY (" + arg(ids) + "::bigint[])"; len(ids) <= few {
		span = append(span, own)
	} else {
		wanted = append(wanted, own)
	}
	if len(q.Words.With) > 0 {
		wanted = append(wanted, "text ILIKE ALL ("+arg(query.Patterns(q.Words.With))+"::text[])")
	}
	if len(q.Words.Without) > 0 {
		wanted = append(wanted, "text NOT ILIKE ALL ("+arg(query.Patterns(q.Words.Without))+"::text[])")
	}
	sql := fmt.Sprintf(`
WITH looked AS MATERIALIZED (SELECT time, run, position, source, text FROM %s.%s WHERE %s %s LIMIT %s)
(SELECT time, run, position, source, text, false, 0 FROM looked WHERE %s %s LIMIT %s)
UNION ALL (SELECT time, run, position, 0, '', true, (SELECT count(*)::int FROM looked) FROM looked %s LIMIT 1)`,
		schema, h.name, strings.Join(span, " AND "), order(direction), arg(step), strings.Join(wanted, " AND "), order(direction), arg(limit), order(opposite))
	return sql, args
}

const podSQL = "SELECT labels FROM howdah_logs.run WHERE node = $1 AND namespace = $2 AND pod = $3 AND pod_uid = $4 LIMIT 1"

// PodLabels returns the labels of a pod of which a node has told before; ok is false where it has not.
func (s *Store) PodLabels(ctx context.Context, node, namespace, name, uid string) (set map[string]string, ok bool, err error) {
	err = s.writes.QueryRow(ctx, podSQL, node, namespace, name, uid).Scan(&set)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("find a pod: %w", err)
	}
	return set, true, nil
}
