package query

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                        "|",
		"  error  timeout ":       "error,timeout|",
		`"exit code" -debug`:      "exit code|debug",
		`-"a b" -`:                "-|a b",
		`"say \"no\" \\ \n"`:      `say "no" \ \n|`,
		`a"b`:                     `a"b|`,
		`"open`:                   "error",
		`""`:                      "error",
		"\xff":                    "error",
		"a\x00b":                  "error",
		strings.Repeat("a ", 17):  "error",
		strings.Repeat("a", 1025): "error",
	} {
		w, err := Parse(text)
		got := strings.Join(w.With, ",") + "|" + strings.Join(w.Without, ",")
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("%q: %s (%v), want %s", text, got, err, want)
		}
	}
	if got := Patterns([]string{`50%_\`}); !slices.Equal(got, []string{`%50\%\_\\%`}) {
		t.Errorf("patterns %q", got)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`a -b "c d" -"e\"f"`)
	f.Fuzz(func(t *testing.T, text string) {
		w, err := Parse(text)
		if err != nil {
			return
		}
		for _, word := range append(w.With, w.Without...) {
			if word == "" {
				t.Errorf("%q has an empty word", text)
			}
		}
	})
}

func TestParseWindow(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 15, 0, 0, 123456789, time.UTC)
	for _, tt := range []struct{ since, until, want string }{
		{"", "", "2026-01-02T14:00:00.123456Z 2026-01-02T15:01:00.123456Z"},
		{"10m", "", "2026-01-02T14:50:00.123456Z 2026-01-02T15:01:00.123456Z"},
		{"2026-01-01T00:00:00+01:00", "30m", "2025-12-31T23:00:00Z 2026-01-02T14:30:00.123456Z"},
		{"", "2026-01-02T12:00:00Z", "2026-01-02T11:00:00Z 2026-01-02T12:00:00Z"},
		{"noon", "", `since: "noon" is neither a duration like 1h nor a time like 2006-01-02T15:04:05Z`},
		{"-1h", "", `since: "-1h" is in the future`},
		{"", "x", `until: "x" is neither a duration like 1h nor a time like 2006-01-02T15:04:05Z`},
		{"0001-01-01T00:00:00Z", "", `since: "0001-01-01T00:00:00Z" is too far away`},
		{"1m", "2m", "since is not before until: 2026-01-02T14:59:00Z, 2026-01-02T14:58:00Z"},
	} {
		w, err := ParseWindow(tt.since, tt.until, now)
		got := w.Since.UTC().Format(time.RFC3339Nano) + " " + w.Until.UTC().Format(time.RFC3339Nano)
		if err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%q to %q: %s, want %s", tt.since, tt.until, got, tt.want)
		}
	}
}

func TestToken(t *testing.T) {
	t.Parallel()
	at := time.UnixMicro(1767366000123456)
	want := Token{Window{at.Add(-time.Hour), at}, Place{at.Add(-time.Minute), 7, 1 << 40}}
	got, err := ParseToken(want.String())
	if err != nil || got != want {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	for _, text := range []string{"", "x", "AA", "AQ", want.String() + "AA", "AQEBAQEB", want.String()[:10]} {
		if got, err := ParseToken(text); err == nil {
			t.Errorf("%q is taken for %v", text, got)
		}
	}
}

func FuzzParseToken(f *testing.F) {
	f.Add(Token{Window{time.UnixMicro(1), time.UnixMicro(2)}, Place{time.UnixMicro(1), 1, 1}}.String())
	f.Fuzz(func(t *testing.T, text string) {
		if token, err := ParseToken(text); err == nil {
			if again, err := ParseToken(token.String()); err != nil || again != token {
				t.Errorf("%q: %v becomes %v (%v)", text, token, again, err)
			}
		}
	})
}
