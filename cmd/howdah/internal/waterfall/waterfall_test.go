package waterfall

import (
	"strings"
	"testing"
)

const answer = `{"data":[{"traceID":"abc","processes":{"p1":{"serviceName":"gateway"},"p2":{"serviceName":"scheduler"}},"spans":[
 {"spanID":"3","operationName":"scheduler.bind","startTime":600,"duration":400,"processID":"p2","references":[{"refType":"CHILD_OF","spanID":"1"}],"tags":[{"key":"k8s.name","value":"web-1"}]},
 {"spanID":"1","operationName":"POST","startTime":0,"duration":500,"processID":"p1","references":[]},
 {"spanID":"2","operationName":"authenticate","startTime":100,"duration":50,"processID":"p1","references":[{"refType":"CHILD_OF","spanID":"1"}]},
 {"spanID":"4","operationName":"lost parent","startTime":900,"duration":100,"processID":"p2","references":[{"refType":"CHILD_OF","spanID":"gone"}]}]}]}`

func TestPrint(t *testing.T) {
	t.Parallel()
	traces, err := Decode(strings.NewReader(answer))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := Print(&out, traces[0], 10); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"trace abc: 4 spans of 2 services in 1ms",
		"",
		"SERVICE SPAN START TOOK TIMELINE",
		"gateway POST +0s 500µs █████",
		"gateway authenticate +100µs 50µs █",
		"scheduler scheduler.bind web-1 +600µs 400µs ████",
		"scheduler lost parent +900µs 100µs █",
	}
	got := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(got) != len(want) {
		t.Fatalf("%d lines, want %d:\n%s", len(got), len(want), out.String())
	}
	for i := range want {
		if line := strings.Join(strings.Fields(got[i]), " "); line != want[i] {
			t.Errorf("line %d: %q, want %q", i, line, want[i])
		}
	}
	if !strings.Contains(got[4], "  authenticate") {
		t.Errorf("a child is indented under its parent: %q", got[4])
	}
}

func TestDecodeRefusesGarbage(t *testing.T) {
	t.Parallel()
	if _, err := Decode(strings.NewReader("<html>")); err == nil {
		t.Fatal("no error")
	}
}
