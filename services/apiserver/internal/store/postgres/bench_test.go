package postgres_test

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"howdah.dev/kit/pgtest"
	"howdah.dev/migrations"
	"howdah.dev/services/apiserver/internal/store"
	"howdah.dev/services/apiserver/internal/store/postgres"
)

// BenchmarkWriters compares group commit with a transaction a write, at several numbers of writers, on a server with
// fsync on and 3 KB values (half of which lz4 can squeeze out). The last line of each pair tells their ratio:
//
//	go test -run '^$' -bench Writers ./apiserver/internal/store/postgres
func BenchmarkWriters(b *testing.B) {
	server := pgtest.Start(b, pgtest.Config{Fsync: true, Settings: map[string]string{
		"shared_buffers": "512MB", "max_wal_size": "8GB", "max_connections": "400", "checkpoint_timeout": "30min"}})
	if err := migrations.Apply(b.Context(), server.URL()); err != nil {
		b.Fatal(err)
	}
	for _, writers := range []int{1, 16, 64, 256} {
		single := 0.0
		b.Run(fmt.Sprintf("writers=%d/transaction-a-write", writers), func(b *testing.B) {
			single = bench(b, writers, transactionAWrite(b, server.URL(), writers))
		})
		b.Run(fmt.Sprintf("writers=%d/group-commit", writers), func(b *testing.B) {
			s := open(b, postgres.Config{DatabaseURL: server.URL()})
			grouped := bench(b, writers, func(ctx context.Context, w store.Write) error { return s.Write(ctx, w).Err })
			if single > 0 {
				b.ReportMetric(grouped/single, "ratio")
			}
		})
	}
}

// transactionAWrite commits each write in a call of its own, over a connection a writer (at most 64): the same SQL, no grouping.
func transactionAWrite(b *testing.B, url string, writers int) func(context.Context, store.Write) error {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		b.Fatal(err)
	}
	config.MaxConns = int32(min(writers, 64))
	config.ConnConfig.RuntimeParams["plan_cache_mode"] = "force_generic_plan"
	config.ConnConfig.RuntimeParams["enable_seqscan"] = "off"
	config.ConnConfig.RuntimeParams["jit"] = "off" // else every call is compiled, for the price of a disabled scan
	pool, err := pgxpool.NewWithConfig(b.Context(), config)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pool.Close)
	return func(ctx context.Context, w store.Write) error {
		var statuses []int16
		err := pool.QueryRow(ctx, "SELECT statuses FROM howdah.commit($1, $2, $3, $4, NULL, $5, $6, NULL, NULL)",
			[]int16{int16(w.Op)}, []string{w.Key}, [][]byte{w.Value}, []int64{w.Revision}, []string{w.Trace}, []string{w.Actor}).Scan(&statuses)
		if err == nil && statuses[0] != 0 {
			return fmt.Errorf("status %d", statuses[0])
		}
		return err
	}
}

// bench makes b.N writes by the given number of writers, a mixture of creates and updates of keys of one's own, and answers writes a second.
func bench(b *testing.B, writers int, write func(context.Context, store.Write) error) float64 {
	value := make([]byte, 3072)
	if _, err := rand.Read(value[:1536]); err != nil {
		b.Fatal(err)
	}
	copy(value, base64.StdEncoding.EncodeToString(value[:1000]))
	prefix := fmt.Sprintf("/bench/%d", time.Now().UnixNano())
	var left atomic.Int64
	left.Store(int64(b.N))
	latencies := make([][]time.Duration, writers)
	b.ResetTimer()
	begin := time.Now()
	var wg sync.WaitGroup
	for writer := range writers {
		wg.Go(func() {
			for i := 0; left.Add(-1) >= 0; i++ {
				w := store.Write{Op: store.Create, Key: fmt.Sprintf("%s/%d/%d", prefix, writer, i/4), Value: value, Actor: "bench"}
				if i%4 > 0 {
					w.Op = store.Update
				}
				start := time.Now()
				if err := write(b.Context(), w); err != nil && !errors.Is(err, context.Canceled) {
					b.Error(err)
					return
				}
				latencies[writer] = append(latencies[writer], time.Since(start))
			}
		})
	}
	wg.Wait()
	took := time.Since(begin).Seconds()
	all := slices.Concat(latencies...)
	slices.Sort(all)
	rate := float64(len(all)) / took
	b.ReportMetric(rate, "writes/s")
	b.ReportMetric(float64(all[len(all)/2].Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(all[len(all)*99/100].Microseconds())/1000, "p99-ms")
	return rate
}
