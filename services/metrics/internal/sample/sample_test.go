package sample

import (
	"math"
	"testing"
	"time"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// at is a reading some seconds after noon, of a container that started at started.
func at(seconds, cpu float64, started float64) Reading {
	r := Reading{Time: noon.Add(time.Duration(seconds * float64(time.Second))), CPU: cpu, Memory: uint64(seconds) << 20}
	if !math.IsNaN(started) {
		r.Started = noon.Add(time.Duration(started * float64(time.Second)))
	}
	return r
}

func TestSeries(t *testing.T) {
	t.Parallel()
	untold := math.NaN()
	for _, tt := range []struct {
		name     string
		readings []Reading
		cpu      float64       // negative: nothing is known
		window   time.Duration // 0: nothing is known
	}{
		{"nothing", nil, -1, 0},
		{"one of a node", []Reading{at(100, 5, untold)}, -1, 0},
		{"two", []Reading{at(100, 5, untold), at(115, 12.5, untold)}, 0.5, 15 * time.Second},
		{"the newest two", []Reading{at(100, 5, untold), at(115, 12.5, untold), at(125, 22.5, untold)}, 1, 10 * time.Second},
		{"the same again", []Reading{at(100, 5, untold), at(115, 12.5, untold), at(115, 12.5, untold)}, 0.5, 15 * time.Second},
		{"an older one", []Reading{at(100, 5, untold), at(115, 12.5, untold), at(110, 10, untold)}, 0.5, 15 * time.Second},
		{"one of a container that has just started", []Reading{at(100, 5, 92)}, -1, 0},
		{"one of a young container", []Reading{at(100, 5, 80)}, 0.25, 20 * time.Second},
		{"one of an old container", []Reading{at(100, 5, 10)}, -1, 0},
		{"started again", []Reading{at(100, 5, 0), at(115, 0.5, 114)}, -1, 0},
		{"started again a while ago", []Reading{at(100, 5, 0), at(120, 6, 104)}, 0.375, 16 * time.Second},
		{"a counter that falls", []Reading{at(100, 5, untold), at(115, 1, untold)}, -1, 0},
		{"idle", []Reading{at(100, 5, untold), at(115, 5, untold)}, 0, 15 * time.Second},
	} {
		var s Series
		for _, r := range tt.readings {
			s = s.Next(r)
		}
		usage, ok := s.Usage()
		if ok != (tt.window > 0) {
			t.Errorf("%s: known %v: %+v", tt.name, ok, usage)
			continue
		}
		if ok && (math.Abs(usage.CPU-tt.cpu) > 1e-9 || usage.Window != tt.window) {
			t.Errorf("%s: %v over %v, not %v over %v", tt.name, usage.CPU, usage.Window, tt.cpu, tt.window)
		}
		if ok && !usage.Time.Equal(s.last.Time) {
			t.Errorf("%s: at %v", tt.name, usage.Time)
		}
	}
}

func TestKnown(t *testing.T) {
	t.Parallel()
	k := NewKnown(45 * time.Second)
	web, db := Pod{"a", "web"}, Pod{"b", "db"}
	scrape := func(seconds, cpu float64, pods map[Pod]map[string]Reading) Scrape {
		return Scrape{Node: at(seconds, cpu, math.NaN()), Pods: pods}
	}
	now := func(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }
	k.Add("n1", scrape(100, 10, map[Pod]map[string]Reading{
		web: {"c": at(100, 1, 0), "side": at(101, 1, 0)}, db: {"c": at(100, 1, 0)},
	}), now(100))
	if got := k.Pods("", "", now(100)); len(got) != 0 {
		t.Errorf("after one scrape: %+v", got)
	}
	k.Add("n1", scrape(115, 25, map[Pod]map[string]Reading{
		web: {"c": at(115, 4, 0), "side": at(117, 1, 0)}, db: {"c": at(115, 2.5, 0), "new": at(115, 0, 114)},
	}), now(117))

	nodes := k.Nodes("", now(117))
	if len(nodes) != 1 || nodes[0].Name != "n1" || nodes[0].CPU != 1 || nodes[0].Memory != 115<<20 {
		t.Errorf("nodes: %+v", nodes)
	}
	pods := k.Pods("", "", now(117))
	if len(pods) != 1 || pods[0].Pod != web {
		t.Fatalf("a pod one of whose containers is not known is told, or another is not: %+v", pods)
	}
	if p := pods[0]; !p.Time.Equal(now(115)) || p.Window != 16*time.Second || p.Containers["c"].CPU != 0.2 || p.Containers["side"].CPU != 0 {
		t.Errorf("web: %+v", p)
	}
	for _, ask := range []Pod{{"b", ""}, {"", "db"}, {"a", "other"}} {
		if got := k.Pods(ask.Namespace, ask.Name, now(117)); len(got) != 0 {
			t.Errorf("%v: %+v", ask, got)
		}
	}
	if len(k.Nodes("n2", now(117))) != 0 || len(k.Nodes("n1", now(117))) != 1 {
		t.Error("a node is not found by its name")
	}

	if len(k.Nodes("", now(163))) != 0 || len(k.Pods("", "", now(163))) != 0 {
		t.Error("what was told 46 seconds ago is told as of now")
	}
	k.Keep(map[string]bool{"n1": true}, now(162))
	if len(k.Nodes("", now(162))) != 1 {
		t.Error("a node that told 45 seconds ago is forgotten")
	}
	k.Keep(map[string]bool{"n2": true}, now(120))
	if len(k.nodes) != 0 {
		t.Error("a node that is gone is remembered")
	}
}

// A container that is not told of any more is gone, and one of its name that comes back begins anew.
func TestContainersGo(t *testing.T) {
	t.Parallel()
	k := NewKnown(time.Minute)
	pod := Pod{"a", "web"}
	for i, cpu := range []float64{1, 2} {
		k.Add("n", Scrape{Node: at(float64(100+15*i), 0, math.NaN()), Pods: map[Pod]map[string]Reading{pod: {"c": at(float64(100+15*i), cpu, 0)}}}, noon)
	}
	if len(k.Pods("", "", noon)) != 1 {
		t.Fatal("the pod is not known")
	}
	k.Add("n", Scrape{Node: at(130, 0, math.NaN())}, noon)
	k.Add("n", Scrape{Node: at(145, 0, math.NaN()), Pods: map[Pod]map[string]Reading{pod: {"c": at(145, 3, 0)}}}, noon)
	if got := k.Pods("", "", noon); len(got) != 0 {
		t.Errorf("told after one reading: %+v", got)
	}
}
