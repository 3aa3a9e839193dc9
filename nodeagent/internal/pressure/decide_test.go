package pressure

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func settings(t *testing.T, o Options) Settings {
	t.Helper()
	s, err := o.Parse()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The looks of a table come ten seconds apart; left is what there is of 1000 of each signal.
func TestNext(t *testing.T) {
	t.Parallel()
	type look struct {
		left string
		want string // conditions, then what is due
	}
	for name, test := range map[string]struct {
		options Options
		looks   []look
	}{
		"enough": {Options{Hard: "memory.available<100"}, []look{{"memory.available=100", ""}}},
		"hard, and the condition stays for a while": {Options{Hard: "memory.available<100", Transition: 20 * time.Second}, []look{
			{"memory.available=99", "Memory: memory.available"}, {"memory.available=100", "Memory:"}, {"memory.available=100", ""}, {"memory.available=0", "Memory: memory.available"},
		}},
		"soft, after its grace": {Options{Soft: "nodefs.available<10%", SoftGrace: "nodefs.available=20s", Transition: time.Second}, []look{
			{"nodefs.available=50", "Disk:"}, {"nodefs.available=50", "Disk:"}, {"nodefs.available=50", "Disk: nodefs.available after 20s"},
		}},
		"a break begins the grace anew": {Options{Soft: "nodefs.available<10%", SoftGrace: "nodefs.available=20s", Transition: time.Second}, []look{
			{"nodefs.available=50", "Disk:"}, {"nodefs.available=50", "Disk:"}, {"nodefs.available=500", ""}, {"nodefs.available=50", "Disk:"},
		}},
		"over only with some more": {Options{Hard: "pid.available<100", MinimumReclaim: "pid.available=5%", Transition: time.Second}, []look{
			{"pid.available=120", ""}, {"pid.available=99", "PID: pid.available"}, {"pid.available=120", "PID: pid.available"}, {"pid.available=150", ""}, {"pid.available=120", ""},
		}},
		"a soft one that is not due need not become over": {Options{Soft: "pid.available<100", SoftGrace: "pid.available=1h", MinimumReclaim: "pid.available=50", Transition: time.Second}, []look{
			{"pid.available=99", "PID:"}, {"pid.available=120", ""},
		}},
		"memory first, and what cannot wait": {
			Options{Hard: "pid.available<10,nodefs.inodesFree<10,memory.available<10", Soft: "memory.available<20", SoftGrace: "memory.available=0s"},
			[]look{{"pid.available=1,nodefs.inodesFree=1,memory.available=1", "Memory Disk PID: memory.available memory.available after 0s nodefs.inodesFree pid.available"}},
		},
		"all pods together, though the machine has enough": {Options{Hard: "memory.available<100", Transition: time.Second}, []look{
			{"memory.available=500,allocatableMemory.available=99", "Memory: allocatableMemory.available"}, {"memory.available=99,allocatableMemory.available=99", "Memory: memory.available allocatableMemory.available"},
			{"memory.available=500,allocatableMemory.available=100", ""},
		}},
		"what cannot be read is not judged": {Options{Hard: "imagefs.available<50%,imagefs.inodesFree<50%"}, []look{{"imagefs.inodesFree=1", "Disk: imagefs.inodesFree"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var state State
			now := time.Unix(1000, 0)
			for i, l := range test.looks {
				seen := Observations{}
				for item := range strings.SplitSeq(l.left, ",") {
					signal, number, _ := strings.Cut(item, "=")
					var n int64
					if _, err := fmt.Sscan(number, &n); err != nil {
						t.Fatal(err)
					}
					seen[Signal(signal)] = Observation{Available: n, Capacity: 1000}
				}
				next, short, due := state.Next(settings(t, test.options), seen, now)
				if got := outcome(short, due); got != l.want {
					t.Errorf("look %d: %q, want %q", i, got, l.want)
				}
				state, now = next, now.Add(10*time.Second)
			}
		})
	}
}

func outcome(short Conditions, due []Threshold) string {
	var has, out []string
	for _, c := range []struct {
		name string
		is   bool
	}{{"Memory", short.Memory}, {"Disk", short.Disk}, {"PID", short.PID}} {
		if c.is {
			has = append(has, c.name)
		}
	}
	if len(has) == 0 && len(due) == 0 {
		return ""
	}
	for _, t := range due {
		text := string(t.Signal)
		if !t.Hard {
			text += fmt.Sprintf(" after %v", t.Grace)
		}
		out = append(out, text)
	}
	return strings.TrimSpace(strings.Join(has, " ") + ": " + strings.Join(out, " "))
}

// Whatever is left, nothing is due of which there is enough, a state is never changed by what comes after it, and what is due is a condition.
func TestNextNeverActsWithoutNeed(t *testing.T) {
	t.Parallel()
	s := settings(t, Options{
		Hard: DefaultHard, Soft: "memory.available<200,nodefs.available<20%", SoftGrace: "memory.available=30s,nodefs.available=1m", MinimumReclaim: "memory.available=50,imagefs.available=5%",
	})
	random := rand.New(rand.NewPCG(1, 2))
	var state State
	now := time.Unix(1000, 0)
	for range 20_000 {
		seen := Observations{}
		for _, k := range kinds {
			if random.IntN(8) > 0 {
				seen[k.signal] = Observation{Available: random.Int64N(500_000_000), Capacity: 1_000_000_000}
			}
		}
		before := fmt.Sprint(state)
		next, short, due := state.Next(s, seen, now)
		if fmt.Sprint(state) != before {
			t.Fatal("the state before has changed")
		}
		for _, d := range due {
			o, ok := seen[d.Signal]
			if !ok || o.Available >= d.Value.Of(o.Capacity)+d.Reclaim.Of(o.Capacity) {
				t.Fatalf("%s is due with %+v", d.Signal, o)
			}
			if !strings.Contains(outcome(short, nil), strings.TrimSuffix(string(d.Signal.kind().condition), "Pressure")) {
				t.Fatalf("%s is due, and the node is short of %+v", d.Signal, short)
			}
		}
		state, now = next, now.Add(time.Duration(random.IntN(20))*time.Second)
	}
}
