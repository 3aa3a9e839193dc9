package cgroup

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Pressures are what a group has waited for, of those that the kernel tells: it tells none where it was built or started without (psi=0),
// nor of groups of version 1.
type Pressures struct{ CPU, Memory, IO *Pressure }

// Pressure is how much a group has waited for something: Some of its processes while others went on, and the Full group, so that nothing went on.
type Pressure struct{ Some, Full Stall }

// Stall is time since the group was made, and the share of the last 10, 60 and 300 seconds, in percent.
type Stall struct {
	Total                time.Duration
	Avg10, Avg60, Avg300 float64
}

// MachinePressures are those of the whole machine, as its /proc tells.
func MachinePressures(proc string) Pressures {
	dir := filepath.Join(proc, "pressure")
	return Pressures{readPressure(filepath.Join(dir, "cpu")), readPressure(filepath.Join(dir, "memory")), readPressure(filepath.Join(dir, "io"))}
}

func groupPressures(dir string) Pressures {
	return Pressures{
		readPressure(filepath.Join(dir, "cpu.pressure")), readPressure(filepath.Join(dir, "memory.pressure")), readPressure(filepath.Join(dir, "io.pressure")),
	}
}

// readPressure is nil where there is no such file, where reading it fails, as it does where the kernel keeps no count, and where it is none.
func readPressure(path string) *Pressure {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	return parsePressure(string(data))
}

// parsePressure reads lines as "some avg10=0.12 avg60=0.00 avg300=0.00 total=123", in microseconds. Older kernels tell of the CPU only "some".
func parsePressure(text string) *Pressure {
	var p Pressure
	found := false
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		var to *Stall
		switch fields[0] {
		case "some":
			to, found = &p.Some, true
		case "full":
			to = &p.Full
		default:
			continue
		}
		for _, field := range fields[1:] {
			name, value, _ := strings.Cut(field, "=")
			if name == "total" {
				n, err := strconv.ParseUint(value, 10, 64)
				if err != nil {
					return nil
				}
				to.Total = micro(n)
				continue
			}
			average := map[string]*float64{"avg10": &to.Avg10, "avg60": &to.Avg60, "avg300": &to.Avg300}[name]
			if average == nil {
				continue // of a newer kernel
			}
			var err error
			if *average, err = strconv.ParseFloat(value, 64); err != nil {
				return nil
			}
		}
	}
	if !found {
		return nil
	}
	return &p
}
