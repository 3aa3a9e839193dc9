package objects

import (
	"testing"
	"time"
)

func TestShortened(t *testing.T) {
	t.Parallel()
	begun := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, tt := range map[string]struct {
		period, shorter int64
		after           time.Duration // begun
		ends            time.Duration
		want            int64
	}{
		"at once":              {60, 5, 0, 5 * time.Second, 5},
		"later":                {60, 50, 30 * time.Second, 50 * time.Second, 50},
		"over already":         {60, 5, 20 * time.Second, 20 * time.Second, 1},
		"no time":              {60, 0, 20 * time.Second, 20 * time.Second, 0},
		"no time, at once":     {60, 0, 0, 0, 0},
		"over, and the second": {60, 1, 20 * time.Second, 20 * time.Second, 1},
	} {
		ends, period := shortened(begun.Add(time.Duration(tt.period)*time.Second), tt.period, tt.shorter, begun.Add(tt.after))
		if got := ends.Sub(begun); got != tt.ends || period != tt.want {
			t.Errorf("%s: after %s, %d seconds", name, got, period)
		}
	}
}
