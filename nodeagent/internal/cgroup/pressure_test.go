package cgroup

import (
	"reflect"
	"testing"
	"time"
)

func TestParsePressure(t *testing.T) {
	t.Parallel()
	some := Stall{Total: 3 * time.Millisecond, Avg10: 1.5, Avg60: 0.25, Avg300: 0.01}
	for name, test := range map[string]struct {
		text string
		want *Pressure
	}{
		"both":                     {"some avg10=1.50 avg60=0.25 avg300=0.01 total=3000\nfull avg10=0.50 avg60=0.00 avg300=0.00 total=7\n", &Pressure{Some: some, Full: Stall{Total: 7 * time.Microsecond, Avg10: 0.5}}},
		"a CPU of an older kernel": {"some avg10=1.50 avg60=0.25 avg300=0.01 total=3000\n", &Pressure{Some: some}},
		"more, of a newer kernel":  {"some avg10=1.50 avg60=0.25 avg300=0.01 avg3000=x total=3000\nmost total=9\n", &Pressure{Some: some}},
		"nothing":                  {"", nil},
		"something else":           {"0\n", nil},
		"no number":                {"some avg10=1.50 total=much\n", nil},
		"no average":               {"some avg10=much total=1\n", nil},
	} {
		if got := parsePressure(test.text); !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
}

func TestPressuresOfGroupsAndTheMachine(t *testing.T) {
	t.Parallel()
	const line = "some avg10=0.00 avg60=0.00 avg300=0.00 total="
	tree := NewTree(written(t, map[string]string{
		"cgroup.controllers": "", "a/cgroup.procs": "", "a/cpu.pressure": line + "1\n", "a/memory.pressure": line + "2\n", "a/io.pressure": line + "3\n",
		"b/cgroup.procs": "", "b/memory.pressure": line + "4\n",
	}), "")
	of := func(p *Pressure) time.Duration {
		if p == nil {
			return -1
		}
		return p.Some.Total
	}
	all := func(p Pressures) [3]time.Duration { return [3]time.Duration{of(p.CPU), of(p.Memory), of(p.IO)} }
	for path, want := range map[string][3]time.Duration{
		"a": {time.Microsecond, 2 * time.Microsecond, 3 * time.Microsecond},
		"b": {-1, 4 * time.Microsecond, -1},
	} {
		got, err := tree.Read(path)
		if err != nil || all(got.Pressures) != want {
			t.Errorf("%s: %v, want %v, %v", path, all(got.Pressures), want, err)
		}
	}
	proc := written(t, map[string]string{"pressure/cpu": line + "5\n", "pressure/io": line + "6\n"})
	if got := all(MachinePressures(proc)); got != [3]time.Duration{5 * time.Microsecond, -1, 6 * time.Microsecond} {
		t.Errorf("the machine: %v", got)
	}
}
