package migrations

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/jackc/pgx/v5"

	"howdah.dev/kit/pgtest"
)

func TestApplyAtOnceAndAgain(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := Apply(t.Context(), url); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	known, err := load(files)
	if err != nil {
		t.Fatal(err)
	}
	var applied int
	if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM howdah.migration").Scan(&applied); err != nil || applied != len(known) {
		t.Errorf("%d migrations are applied, %v; want %d", applied, err, len(known))
	}
}

func TestFailedMigrationLeavesNothing(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	broken := []migration{
		{1, "0001_good.sql", "CREATE TABLE howdah.good ()"},
		{2, "0002_bad.sql", "CREATE TABLE howdah.half (); SELECT 1/0"},
	}
	if err := apply(t.Context(), url, broken); err == nil || !strings.Contains(err.Error(), "0002_bad.sql") {
		t.Errorf("error %v, want one that names the migration", err)
	}
	broken[1].sql = "CREATE TABLE howdah.half ()"
	if err := apply(t.Context(), url, broken); err != nil {
		t.Errorf("after the repair: %v", err)
	}
	if err := apply(t.Context(), url, broken[:1]); err != nil {
		t.Errorf("a program of the release before: %v", err)
	}
	broken = append(broken, migration{3, "0003_end.sql", "-- breaking: half is gone\nDROP TABLE howdah.half"})
	if err := apply(t.Context(), url, broken); err != nil {
		t.Fatal(err)
	}
	if err := apply(t.Context(), url, broken[:2]); err == nil || !strings.Contains(err.Error(), "too old") {
		t.Errorf("a program that is too old: %v", err)
	}
}

func TestPlan(t *testing.T) {
	t.Parallel()
	one, two := migration{1, "0001_one.sql", "1"}, migration{2, "0002_two.sql", "2"}
	for name, tt := range map[string]struct {
		applied map[int]applied
		want    int
		err     string
	}{
		"fresh":           {nil, 2, ""},
		"half":            {map[int]applied{1: {sum: one.sum()}}, 1, ""},
		"all":             {map[int]applied{1: {sum: one.sum()}, 2: {sum: two.sum()}}, 0, ""},
		"edited":          {map[int]applied{1: {sum: "other"}}, 0, "must not be edited"},
		"with gap":        {map[int]applied{2: {sum: two.sum()}}, 0, "before it is not"},
		"newer":           {map[int]applied{1: {sum: one.sum()}, 2: {sum: two.sum()}, 3: {sum: "x"}}, 0, ""},
		"broken":          {map[int]applied{1: {sum: one.sum()}, 2: {sum: two.sum()}, 3: {sum: "x", breaking: true}, 4: {sum: "y"}}, 0, "too old"},
		"newer, with gap": {map[int]applied{1: {sum: one.sum()}, 3: {sum: "x"}}, 0, "before it is not"},
	} {
		got, err := plan([]migration{one, two}, tt.applied)
		if (err == nil) != (tt.err == "") || (err != nil && !strings.Contains(err.Error(), tt.err)) || (err == nil && len(got) != tt.want) {
			t.Errorf("%s: %d missing, %v; want %d, %q", name, len(got), err, tt.want, tt.err)
		}
	}
}

func TestLoadWantsConsecutiveNumbers(t *testing.T) {
	t.Parallel()
	for _, names := range [][]string{{"0002_b.sql"}, {"0001_a.sql", "0003_c.sql"}, {"1_a.sql"}, {"a.sql"}, {"0001_a.sql", "0001_b.sql"}} {
		dir := fstest.MapFS{}
		for _, name := range names {
			dir[name] = &fstest.MapFile{}
		}
		if _, err := load(dir); err == nil {
			t.Errorf("%v were accepted", names)
		}
	}
}

// A database of an older program keeps the reservations of node ports, and loses those of addresses.
func TestOldReservationsGo(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	known, err := load(files)
	if err != nil {
		t.Fatal(err)
	}
	if err := apply(t.Context(), url, known[:6]); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	const port, service = "/howdah/reservation/nodeports/30000", "/core/services/default/web"
	for _, key := range []string{"/howdah/reservation/clusterips/10.96.0.7", "/howdah/reservation/clusterips/fd00::7", port, service} {
		if _, err := conn.Exec(t.Context(), "INSERT INTO howdah.object (key, revision, create_revision, value) VALUES ($1, 1, 1, 'x')", key); err != nil {
			t.Fatal(err)
		}
	}
	if err := Apply(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	rows, err := conn.Query(t.Context(), "SELECT key FROM howdah.object ORDER BY key")
	if err != nil {
		t.Fatal(err)
	}
	left, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(left) != 2 || left[0] != service || left[1] != port {
		t.Errorf("left are %v, %v", left, err)
	}
}
