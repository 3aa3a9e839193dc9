package postgres

import (
	"testing"
	"time"
)

func TestPartitionSize(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		rate float64
		most int64
		want int64
	}{
		{0, maxPartition, minPartition},
		{10, maxPartition, minPartition},
		{100, maxPartition, 131072},      // 90,000 a quarter of an hour
		{1000, maxPartition, 1 << 20},    // 900,000
		{20000, maxPartition, 1 << 24},   // 18 million, cut
		{2000000, maxPartition, 1 << 24}, // bounded
		{1000, 1<<20 - 1, 1 << 19},       // by a quota
		{1000, 10, minPartition},
	} {
		if got := partitionSize(tt.rate, time.Hour, tt.most); got != tt.want {
			t.Errorf("partitionSize(%v writes a second, at most %d) = %d, want %d", tt.rate, tt.most, got, tt.want)
		}
	}
}

func TestRateRisesAtOnceAndFallsSlowly(t *testing.T) {
	t.Parallel()
	var m maintainer
	at := time.Unix(0, 0)
	for _, step := range []struct{ revision, incarnation, min, max int64 }{
		{1000, 1, 0, 0},        // nothing to compare with
		{11000, 1, 1000, 1000}, // 10,000 in 10 s
		{11000, 1, 900, 900},
		{11000, 1, 800, 820},
		{5, 1, 800, 820},                 // went back: says nothing
		{10_000_000_000, 2, 800, 820},    // has jumped: nobody wrote that
		{10_000_020_000, 2, 2000, 2000},  // 20,000 in 10 s
		{20_000_000_000, 34, 2000, 2000}, // once more
	} {
		m.observe(reading{revision: step.revision, incarnation: step.incarnation, at: at})
		if int64(m.rate) < step.min || int64(m.rate) > step.max {
			t.Errorf("at revision %d: rate = %v, want %d to %d", step.revision, m.rate, step.min, step.max)
		}
		at = at.Add(10 * time.Second)
	}
}

func TestRoomAhead(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		rate float64
		size int64
		want int64
	}{
		{0, minPartition, minPartition / 2},
		{1000, minPartition, 240_000}, // four minutes of it
		{1e9, maxPartition, partitionsARound * maxPartition},
	} {
		if got := ahead(tt.rate, time.Minute, tt.size); got != tt.want {
			t.Errorf("at %v writes a second, with partitions of %d: room for %d, want %d", tt.rate, tt.size, got, tt.want)
		}
	}
}
