package postgres

import (
	"errors"
	"testing"
	"time"

	"howdah.dev/services/apiserver/internal/store"
)

func TestScarcity(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		used, quota int64
		want        scarcity
		retention   time.Duration
	}{
		{1 << 50, 0, roomy, time.Hour},
		{75, 100, roomy, time.Hour},
		{76, 100, tight, tightRetention},
		{100, 100, tight, tightRetention},
		{101, 100, full, fullRetention},
		{125, 100, full, fullRetention},
		{126, 100, overfull, fullRetention},
	} {
		got := scarcityOf(tt.used, tt.quota)
		if got != tt.want || got.retention(time.Hour) != tt.retention {
			t.Errorf("%d of %d: %d, for %v", tt.used, tt.quota, got, got.retention(time.Hour))
		}
	}
	if got := overfull.retention(time.Second); got != time.Second {
		t.Errorf("a retention that is short already: %v", got)
	}
}

func TestWhatScarcityAdmits(t *testing.T) {
	t.Parallel()
	create, update, remove := store.Write{Op: store.Create}, store.Write{Op: store.Update}, store.Write{Op: store.Delete}
	for _, tt := range []struct {
		name   string
		writes []store.Write
		until  scarcity // the first that refuses them
	}{
		{"a creation", []store.Write{create}, full},
		{"an update", []store.Write{update}, overfull},
		{"a deletion", []store.Write{remove}, overfull + 1},
		{"a group with a creation", []store.Write{remove, update, create}, full},
		{"a group with an update", []store.Write{remove, update}, overfull},
	} {
		for s := roomy; s <= overfull; s++ {
			if err := s.admits(tt.writes); errors.Is(err, store.ErrOverQuota) != (s >= tt.until) {
				t.Errorf("%s at %d: %v", tt.name, s, err)
			}
		}
	}
}

func TestHolesAreRoom(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		usage
		want int64
	}{
		{usage{log: 10, current: file{bytes: 5}, objects: file{bytes: 100}}, 115},
		{usage{log: 10, current: file{5, 4}, objects: file{100, 40}}, 65},
		{usage{log: 10, objects: file{100, 99}}, 110}, // as large as the file at most
	} {
		if got := tt.bytes(); got != tt.want {
			t.Errorf("%+v: %d, want %d", tt.usage, got, tt.want)
		}
	}
}
