package history

import (
	"strings"
	"testing"
	"time"
)

func TestDiff(t *testing.T) {
	t.Parallel()
	object := func(revision, color string) []byte {
		return []byte(`{"kind":"ConfigMap","metadata":{"name":"c","resourceVersion":"` + revision + `","managedFields":[{"manager":"m` + revision + `"}]},"data":{"color":"` + color + `"}}`)
	}
	for name, tt := range map[string]struct {
		from, to []byte
		want     []string
	}{
		"changed":             {object("1", "red"), object("2", "blue"), []string{"--- c@1", "+++ c@2", "-  color: red\n+  color: blue"}},
		"created":             {nil, object("2", "blue"), []string{"--- /dev/null", "+kind: ConfigMap"}},
		"deleted":             {object("1", "red"), nil, []string{"+++ /dev/null", "-  color: red"}},
		"nothing but a write": {object("1", "red"), object("2", "red"), nil},
	} {
		got, err := Diff(Side{"c@1", tt.from}, Side{"c@2", tt.to})
		if err != nil || (got == "") != (tt.want == nil) || strings.Contains(got, "manage") || strings.Contains(got, "resourceVersion") {
			t.Errorf("%s: %v\n%s", name, err, got)
		}
		for _, part := range tt.want {
			if !strings.Contains(got, part) {
				t.Errorf("%s: no %q in\n%s", name, part, got)
			}
		}
	}
	if _, err := Diff(Side{"a", []byte("{")}, Side{}); err == nil {
		t.Error("what is no object was compared")
	}
}

func TestOriginAndTrace(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][3]string{
		"patch/status\tkubelet\tkubelet/v1": {"patch/status", "kubelet", "kubelet/v1"}, "create": {"create", "", ""}, "": {},
	} {
		verb, manager, program := Origin(text)
		if got := [3]string{verb, manager, program}; got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
	id := strings.Repeat("ab", 16)
	for text, want := range map[string]string{
		"00-" + id + "-0123456789abcdef-01": id, "00-" + id + "-0123456789abcdef-00": "", "": "", "00-x": "",
	} {
		if got := TraceID(text); got != want {
			t.Errorf("%q: %q", text, got)
		}
	}
}

func TestSince(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 15, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{"": {}, "1h": now.Add(-time.Hour), "2026-01-02T14:00:00Z": now.Add(-time.Hour)} {
		if got, err := Since(text, now); err != nil || !got.Equal(want) {
			t.Errorf("%q: %s, %v", text, got, err)
		}
	}
	for _, text := range []string{"-1h", "noon"} {
		if _, err := Since(text, now); err == nil {
			t.Errorf("%q was accepted", text)
		}
	}
}
