package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"k8s.io/apimachinery/pkg/labels"
	testclock "k8s.io/utils/clock/testing"

	"howdah.dev/kit/database"
	"howdah.dev/kit/pgtest"
	"howdah.dev/migrations"
	"howdah.dev/services/logs/internal/query"
)

// noon is the time of the tests' clocks.
var noon = time.Date(2026, 1, 2, 12, 30, 0, 0, time.UTC)

var template = pgtest.Template{Name: "logs", Setup: migrations.Apply}

func setup(t testing.TB) (*Store, *testclock.FakeClock, string) {
	t.Helper()
	url := pgtest.New(t, template)
	clock := testclock.NewFakeClock(noon)
	return open(t, url, clock), clock, url
}

func open(t testing.TB, url string, clock *testclock.FakeClock) *Store {
	t.Helper()
	s, err := New(Config{DatabaseURL: url, Retention: 24 * time.Hour, MaxBytes: 1 << 30, Connections: 2, Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.reads.Close(); s.writes.Close() })
	return s
}

// run is a run with lines a second apart, from a second after noon.
func run(id string, texts ...string) Run {
	r := Run{Runtime: id, Namespace: "ns", Pod: "pod-" + id, UID: "uid-" + id, Container: "c", Labels: map[string]string{"app": id}}
	for i, text := range texts {
		r.Lines = append(r.Lines, Line{Position: int64(10 * (i + 1)), Time: noon.Add(time.Duration(i-len(texts)) * time.Second), Source: 1, Text: text})
	}
	return r
}

func push(t testing.TB, s *Store, runs ...Run) Outcome {
	t.Helper()
	o, err := s.Push(t.Context(), "n1", runs)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// texts searches page after page.
func texts(t testing.TB, s *Store, q Search) []string {
	t.Helper()
	if q.Since.IsZero() {
		q.Window = query.Window{Since: noon.Add(-48 * time.Hour), Until: noon.Add(time.Hour)}
	}
	if q.Limit == 0 {
		q.Limit = 100
	}
	var out []string
	for {
		page, err := s.Search(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range page.Lines {
			out = append(out, l.Run.Pod+":"+l.Text)
		}
		if q.After = page.Next; page.Next == nil {
			return out
		}
	}
}

func TestPushKeepsWhatIsNew(t *testing.T) {
	t.Parallel()
	s, _, url := setup(t)
	if err := s.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	a := run("a", "one", "two", "three")
	first := a
	first.Lines = a.Lines[:2]
	if o := push(t, s, first, run("b", "x")); o.Lines != 3 || o.Bytes != 7 || !slices.Equal(o.Positions, []int64{20, 10}) {
		t.Errorf("first: %+v", o)
	}
	if o := push(t, s, a); o.Lines != 1 || o.Repeated != 2 || o.Positions[0] != 30 {
		t.Errorf("again, with more: %+v", o)
	}
	old := run("old", "ancient", "bad\xff\x00")
	old.Lines[0].Time = noon.Add(-48 * time.Hour)
	old.Lines[1].Time = noon.Add(48 * time.Hour)
	if o := push(t, s, old); o.Lines != 1 || o.Expired != 1 || o.Positions[0] != 20 {
		t.Errorf("of other times: %+v", o)
	}
	want := []string{"pod-a:one", "pod-a:two", "pod-a:three", "pod-b:x", "pod-old:bad\uFFFD\uFFFD"}
	got := texts(t, s, Search{})
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("stored %q", got)
	}
	conn, err := database.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	var n int
	if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM howdah_logs.line").Scan(&n); err != nil || n != 5 {
		t.Errorf("the parent has %d lines, %v", n, err)
	}
	labels, ok, err := s.PodLabels(t.Context(), "n1", "ns", "pod-a", "uid-a")
	if err != nil || !ok || labels["app"] != "a" {
		t.Errorf("labels %v, %v, %v", labels, ok, err)
	}
	if _, ok, err := s.PodLabels(t.Context(), "n2", "ns", "pod-a", "uid-a"); err != nil || ok {
		t.Errorf("another node's: %v, %v", ok, err)
	}
}

func TestConcurrentPushesStoreOnce(t *testing.T) {
	t.Parallel()
	s, _, _ := setup(t)
	var lines []string
	for i := range 200 {
		lines = append(lines, fmt.Sprint(i))
	}
	a, b := run("a", lines...), run("b", lines...)
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			runs := []Run{a, b}
			if n%2 == 1 {
				slices.Reverse(runs)
			}
			if _, err := s.Push(context.Background(), "n1", runs); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := texts(t, s, Search{}); len(got) != 400 {
		t.Errorf("%d lines, want 400", len(got))
	}
}

func TestSearch(t *testing.T) {
	t.Parallel()
	s, _, _ := setup(t)
	a := run("a", "Error: disk 100% full", "all is well", "ERROR: timeout", "exit code 1")
	a.Lines[0].Time = noon.Add(-3 * time.Hour)
	b := run("b", "error_in b")
	b.Namespace, b.Container, b.Restarts = "other", "side", 2
	push(t, s, a, b)
	words := func(text string) query.Words {
		w, err := query.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	selector := func(text string) labels.Selector {
		l, err := labels.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	for name, tt := range map[string]struct {
		q    Search
		want string
	}{
		"oldest first":    {Search{Namespace: "ns"}, "Error: disk 100% full,all is well,ERROR: timeout,exit code 1"},
		"newest first":    {Search{Namespace: "ns", Newest: true}, "exit code 1,ERROR: timeout,all is well,Error: disk 100% full"},
		"a word":          {Search{Namespace: "ns", Words: words("error")}, "Error: disk 100% full,ERROR: timeout"},
		"two words":       {Search{Words: words("error timeout")}, "ERROR: timeout"},
		"not a word":      {Search{Namespace: "ns", Words: words("error -timeout")}, "Error: disk 100% full"},
		"a phrase":        {Search{Words: words(`"is well"`)}, "all is well"},
		"percent":         {Search{Words: words("100%")}, "Error: disk 100% full"},
		"underscore":      {Search{Words: words("r_i")}, "error_in b"},
		"no wildcard":     {Search{Words: words("r%r")}, ""},
		"a pod":           {Search{Pod: "pod-b"}, "error_in b"},
		"a uid":           {Search{UID: "uid-b"}, "error_in b"},
		"a container":     {Search{Container: "side"}, "error_in b"},
		"a node":          {Search{Node: "n2"}, ""},
		"labels":          {Search{Labels: selector("app in (b, c)")}, "error_in b"},
		"labels of none":  {Search{Labels: selector("app notin (a, b)")}, ""},
		"another's names": {Search{Namespace: "other", Pod: "pod-a"}, ""},
		"the last hour":   {Search{Namespace: "ns", Window: query.Window{Since: noon.Add(-time.Hour), Until: noon}}, "all is well,ERROR: timeout,exit code 1"},
		"before":          {Search{Window: query.Window{Since: noon.Add(-4 * time.Hour), Until: noon.Add(-time.Hour)}}, "Error: disk 100% full"},
	} {
		for limit := 1; limit <= 4; limit += 3 {
			tt.q.Limit, tt.q.After = limit, nil
			var got []string
			for _, text := range texts(t, s, tt.q) {
				_, text, _ = strings.Cut(text, ":")
				got = append(got, text)
			}
			if strings.Join(got, ",") != tt.want {
				t.Errorf("%s, %d a page: %q, want %q", name, limit, got, tt.want)
			}
		}
	}
}

// TestSearchAmongMany has more runs than a statement names, more lines than a step looks at, and lines of the same time.
func TestSearchAmongMany(t *testing.T) {
	t.Parallel()
	s, _, _ := setup(t)
	var runs []Run
	for i := range few + 20 {
		r := run(fmt.Sprintf("%03d", i))
		for n := range 20 {
			r.Lines = append(r.Lines, Line{Position: int64(n + 1), Time: noon.Add(time.Duration(n/4) * time.Second), Source: 1, Text: fmt.Sprintf("line %d", n)})
		}
		runs = append(runs, r)
	}
	push(t, s, runs...)
	for _, newest := range []bool{true, false} {
		got := texts(t, s, Search{Newest: newest, Limit: 999})
		if len(got) != 20*len(runs) {
			t.Fatalf("%d lines of %d", len(got), 20*len(runs))
		}
		slices.Sort(got)
		if got = slices.Compact(got); len(got) != 20*len(runs) {
			t.Errorf("%d different lines of %d", len(got), 20*len(runs))
		}
	}
	if got := texts(t, s, Search{Newest: true, Words: query.Words{With: []string{"line 0"}}, Limit: 7}); len(got) != len(runs) {
		t.Errorf("%d lines, want %d", len(got), len(runs))
	}
}

func TestRetention(t *testing.T) {
	t.Parallel()
	s, clock, _ := setup(t)
	var dropped int
	s.cfg.Kept = func(_ int64, n int) { dropped += n }
	a := run("a", "old")
	push(t, s, a, run("b", "b"))
	clock.Step(23 * time.Hour)
	if err := s.Retain(t.Context()); err != nil || dropped != 0 {
		t.Fatalf("dropped %d, %v", dropped, err)
	}
	late := run("a", "old", "new")
	late.Lines[1].Time = clock.Now()
	push(t, s, late)
	clock.Step(3 * time.Hour)
	if err := s.Retain(t.Context()); err != nil || dropped != 1 {
		t.Fatalf("dropped %d, %v", dropped, err)
	}
	if got := texts(t, s, Search{}); len(got) > 0 {
		t.Errorf("left: %q", got)
	}
	q := Search{Window: query.Window{Since: noon, Until: clock.Now()}}
	if got := texts(t, s, q); !slices.Equal(got, []string{"pod-a:new"}) {
		t.Errorf("left: %q", got)
	}
	if _, ok, err := s.PodLabels(t.Context(), "n1", "ns", "pod-b", "uid-b"); err != nil || ok {
		t.Errorf("the run without lines is known: %v, %v", ok, err)
	}
	s.cfg.MaxBytes = 1
	if err := s.Retain(t.Context()); err != nil || dropped != 2 {
		t.Fatalf("for room dropped %d, %v", dropped, err)
	}
	// The table is made again for who knows it still.
	other := run("c", "again")
	other.Lines[0].Time = clock.Now()
	s.hours[table(clock.Now())], s.hours[table(late.Lines[1].Time)] = true, true
	push(t, s, other)
	if got := texts(t, s, Search{Window: query.Window{Since: noon, Until: clock.Now().Add(time.Hour)}}); !slices.Equal(got, []string{"pod-c:again"}) {
		t.Errorf("after that: %q", got)
	}
}

// TestDetachmentThatWasInterrupted is of a process that ended between the two steps.
func TestDetachmentThatWasInterrupted(t *testing.T) {
	t.Parallel()
	s, clock, url := setup(t)
	push(t, s, run("a", "x"))
	reader, err := database.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close(context.Background())
	tx, err := reader.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT FROM howdah_logs.line"); err != nil {
		t.Fatal(err)
	}
	writer, err := database.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close(context.Background())
	name := table(noon)
	_, err = writer.Exec(t.Context(), "SET lock_timeout = '200ms'; ", pgx.QueryExecModeSimpleProtocol)
	if err == nil {
		_, err = writer.Exec(t.Context(), "ALTER TABLE howdah_logs.line DETACH PARTITION howdah_logs."+name+" CONCURRENTLY", pgx.QueryExecModeSimpleProtocol)
	}
	if err == nil {
		t.Fatal("the reader did not hold the detachment up")
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	all, err := list(t.Context(), s.reads)
	if err != nil || len(all) != 1 || !all[0].leaving {
		t.Fatalf("hours %+v, %v", all, err)
	}
	clock.Step(72 * time.Hour)
	if err := s.Retain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if all, err = list(t.Context(), s.reads); err != nil || len(all) > 0 {
		t.Errorf("hours %+v, %v", all, err)
	}
}

func TestSurplus(t *testing.T) {
	t.Parallel()
	var all []hour
	for i := range 10 {
		all = append(all, hour{begin: hourOf(noon).Add(time.Duration(i-9) * time.Hour), bytes: 100})
	}
	for _, tt := range []struct {
		retention time.Duration
		most      int64
		want      int
	}{{24 * time.Hour, 1000, 0}, {3 * time.Hour, 1000, 6}, {24 * time.Hour, 999, 1}, {3 * time.Hour, 150, 9}, {time.Hour, 0, 10}} {
		if got := len(surplus(all, noon, tt.retention, tt.most)); got != tt.want {
			t.Errorf("%v, %d bytes: %d hours go, want %d", tt.retention, tt.most, got, tt.want)
		}
	}
}

func TestTables(t *testing.T) {
	t.Parallel()
	if name := table(noon); name != "line_2026010212" {
		t.Error(name)
	}
	for name, want := range map[string]bool{"line_2026010212": true, "line_time": false, "line_20260102": false, "run": false, "line_2026019912": false} {
		if hour, ok := parseTable(name); ok != want || ok && !hour.Equal(hourOf(noon)) {
			t.Errorf("%s: %v, %v", name, hour, ok)
		}
	}
}

func TestDatabaseThatIsAway(t *testing.T) {
	t.Parallel()
	s, err := New(Config{DatabaseURL: "postgres://nobody@127.0.0.1:1/none", Connections: 1, Clock: testclock.NewFakeClock(noon)})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Push(t.Context(), "n1", []Run{run("a", "x")}); err == nil {
		t.Error("lines were stored nowhere")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.Run(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if _, err := New(Config{DatabaseURL: "postgres://x:port/", Connections: 1}); err == nil {
		t.Error("a URL that is none was taken")
	}
}
