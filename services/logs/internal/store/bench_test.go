package store

import (
	"context"
	"fmt"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"howdah.dev/kit/database"
	"howdah.dev/kit/pgtest"
	"howdah.dev/migrations"
	"howdah.dev/services/logs/internal/query"
)

const text = "10.244.1.17 - - [02/Jan/2026:15:04:05 +0000] \"GET /index.html?id=%d HTTP/1.1\" 200 612 \"-\" \"curl/8.5.0\""

func benchURL(b *testing.B) string {
	server := pgtest.Start(b, pgtest.Config{Fsync: true})
	if err := migrations.Apply(b.Context(), server.URL()); err != nil {
		b.Fatal(err)
	}
	return server.URL()
}

func benchStore(b *testing.B, url string) *Store {
	s, err := New(Config{DatabaseURL: url, Retention: 24 * time.Hour, MaxBytes: 1 << 40, Connections: 2, Clock: clock.RealClock{}})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.reads.Close(); s.writes.Close() })
	return s
}

// BenchmarkPush stores lines as nodes send them: batches of 5000 from 20 containers.
func BenchmarkPush(b *testing.B) {
	s := benchStore(b, benchURL(b))
	const runs, each = 20, 250
	var position int64
	for b.Loop() {
		var batch []Run
		for r := range runs {
			one := run(fmt.Sprint(r))
			for i := range each {
				one.Lines = append(one.Lines, Line{Position: position + int64(i) + 1, Time: time.Now(), Source: 1, Text: fmt.Sprintf(text, i)})
			}
			batch = append(batch, one)
		}
		position += each
		if _, err := s.Push(b.Context(), "n1", batch); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*runs*each)/b.Elapsed().Seconds(), "lines/s")
}

// BenchmarkInsert stores the same lines one by one, as a program does that logs into a table.
func BenchmarkInsert(b *testing.B) {
	url := benchURL(b)
	s := benchStore(b, url)
	if _, err := s.Push(b.Context(), "n1", []Run{{Runtime: "a", Lines: []Line{{Position: 1, Time: time.Now(), Text: "x"}}}}); err != nil {
		b.Fatal(err)
	}
	conn, err := database.Connect(b.Context(), url)
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close(context.Background())
	position := int64(1)
	for b.Loop() {
		position++
		if _, err := conn.Exec(b.Context(), "INSERT INTO howdah_logs.line (time, run, position, source, text) VALUES ($1, $2, $3, 1, $4)", time.Now(), 1, position, fmt.Sprintf(text, position)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "lines/s")
}

// BenchmarkSearch looks for a word that no line has among 200,000 lines of 20 containers.
func BenchmarkSearch(b *testing.B) {
	s := benchStore(b, benchURL(b))
	now := time.Now()
	for part := range 40 {
		var batch []Run
		for r := range 20 {
			one := run(fmt.Sprint(r))
			for i := range 250 {
				one.Lines = append(one.Lines, Line{Position: int64(250*part + i + 1), Time: now.Add(-time.Duration(i) * time.Millisecond), Source: 1, Text: fmt.Sprintf(text, i)})
			}
			batch = append(batch, one)
		}
		if _, err := s.Push(b.Context(), "n1", batch); err != nil {
			b.Fatal(err)
		}
	}
	for name, q := range map[string]Search{
		"none":   {Words: query.Words{With: []string{"unheard of"}}},
		"newest": {}, "of one": {Pod: "pod-7"},
	} {
		q.Window, q.Limit, q.Newest = query.Window{Since: now.Add(-time.Hour), Until: now.Add(time.Minute)}, 100, true
		b.Run(name, func(b *testing.B) {
			var scanned int64
			for b.Loop() {
				page, err := s.Search(b.Context(), q)
				if err != nil {
					b.Fatal(err)
				}
				scanned += page.Scanned
			}
			b.ReportMetric(float64(scanned)/b.Elapsed().Seconds(), "lines/s")
		})
	}
}
