package schedule

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func at(t *testing.T, text string) time.Time {
	t.Helper()
	parsed, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func parsed(t *testing.T, text string) Schedule {
	t.Helper()
	s, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestLatest(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ schedule, since, now, want string }{
		"none yet":             {"0 * * * *", "2026-11-22T10:00:00Z", "2026-11-22T10:59:59Z", ""},
		"this very moment":     {"0 * * * *", "2026-11-22T10:00:00Z", "2026-11-22T11:00:00Z", "2026-11-22T11:00:00Z"},
		"one of many":          {"*/5 * * * *", "2020-01-01T00:00:00Z", "2026-11-22T11:07:30Z", "2026-11-22T11:05:00Z"},
		"a short gap at last":  {"30 10,11,12 * * 1-5", "2016-05-19T10:30:00Z", "2016-05-20T16:30:00Z", "2016-05-20T12:30:00Z"},
		"a long gap at last":   {"30 6-16/4 * * 1-5", "2016-05-19T10:30:00Z", "2016-05-23T10:31:00Z", "2016-05-23T10:30:00Z"},
		"once a year":          {"@yearly", "2020-06-01T00:00:00Z", "2026-11-22T00:00:00Z", "2026-01-01T00:00:00Z"},
		"a leap day":           {"0 0 29 2 *", "2015-01-01T00:00:00Z", "2026-11-22T00:00:00Z", "2024-02-29T00:00:00Z"},
		"never":                {"59 23 31 2 *", "2015-01-01T00:00:00Z", "2026-11-22T00:00:00Z", ""},
		"every hour from then": {"@every 1h", "2016-05-19T10:01:00Z", "2016-05-26T10:00:00Z", "2016-05-26T09:01:00Z"},
		"every hour, not yet":  {"@every 1h", "2016-05-19T10:01:00Z", "2016-05-19T11:00:59Z", ""},
		"another zone":         {"TZ=Asia/Tokyo 0 9 * * *", "2026-11-20T00:00:01Z", "2026-11-22T00:00:00Z", "2026-11-22T00:00:00Z"},
		"clocks go forward":    {"TZ=Europe/Berlin 30 2 * * *", "2026-03-27T12:00:00Z", "2026-03-29T12:00:00Z", "2026-03-28T01:30:00Z"},
	} {
		latest, ok := parsed(t, test.schedule).Latest(at(t, test.since), at(t, test.now))
		if ok != (test.want != "") || ok && !latest.Equal(at(t, test.want)) {
			t.Errorf("%s: %v, %v; want %s", name, latest, ok, test.want)
		}
	}
}

// TestLatestIsTheLastStep: it is what stepping from start to start arrives at.
func TestLatestIsTheLastStep(t *testing.T) {
	t.Parallel()
	begin := at(t, "2026-10-20T07:13:21.5Z")
	for _, text := range []string{"* * * * *", "*/7 3,4 * * *", "0 0 1 * *", "15 14 * * 0", "@every 90s", "@every 1h1s", "TZ=America/New_York 30 1 * * *"} {
		s := parsed(t, text)
		var last time.Time
		next, steps := s.starts.Next(begin), 0
		for now := begin; now.Before(begin.Add(40 * 24 * time.Hour)); now = now.Add(487 * time.Minute) {
			for ; !next.After(now); next = s.starts.Next(next) {
				last = next
				steps++
			}
			got, ok := s.Latest(begin, now)
			if ok == last.IsZero() || ok && !got.Equal(last) {
				t.Fatalf("%s until %v: %v, %v; want %v", text, now, got, ok, last)
			}
			if steps > 0 && steps < 300 && (s.Exceeds(steps, begin, now) || !s.Exceeds(steps-1, begin, now)) {
				t.Fatalf("%s until %v: %d starts are counted wrongly", text, now, steps)
			}
		}
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	for text, fault := range map[string]string{
		"0 0 * * *": "", "*/1 * * * ?": "", "@daily": "", "@every 1m": "", "TZ=UTC 0 0 * * *": "",
		"": "empty spec string", "0 0 0 * * *": "expected exactly 5 fields", "61 * * * *": "above maximum",
		"TZ=0": "invalid schedule format", "TZ=Nowhere/None 0 0 * * *": "bad location",
	} {
		_, err := Parse(text)
		if (err == nil) != (fault == "") || err != nil && !strings.Contains(err.Error(), fault) {
			t.Errorf("%q: %v, want %q", text, err, fault)
		}
	}
}

func TestNever(t *testing.T) {
	t.Parallel()
	if next, err := parsed(t, "0 0 31 2 *").Next(at(t, "2026-11-22T00:00:00Z")); !errors.Is(err, ErrNever) {
		t.Errorf("%v, %v", next, err)
	}
}
