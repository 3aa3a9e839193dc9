package job

import (
	"fmt"
	"strconv"
	"strings"
)

// run is a range of indexes, both included.
type run struct{ from, to int }

// indexes reads a text as "1,3-5,7", whose numbers must be ascending and below completions. With the first fault it returns the
// ranges that have none.
func indexes(text string, completions int32) ([]run, error) {
	if text == "" {
		return nil, nil
	}
	var runs []run
	var fault error
	last := -1
	for _, part := range strings.Split(text, ",") {
		r, err := oneRun(part, last, completions)
		if err == nil {
			last = r.to
			runs = append(runs, r)
		} else if fault == nil {
			fault = err
		}
	}
	return runs, fault
}

// oneRun reads a number or a range that comes after last.
func oneRun(text string, last int, completions int32) (run, error) {
	first, second, ranged := strings.Cut(text, "-")
	if strings.Contains(second, "-") {
		return run{}, fmt.Errorf("the fragment %q violates the requirement that an index interval can have at most two parts separated by '-'", text)
	}
	from, err := index(first, completions)
	if err != nil {
		return run{}, err
	}
	to := from
	if ranged {
		if to, err = index(second, completions); err != nil {
			return run{}, err
		}
		if from >= to {
			return run{}, fmt.Errorf("non-increasing order, previous: %d, current: %d", from, to)
		}
	}
	if from <= last {
		return run{}, fmt.Errorf("non-increasing order, previous: %d, current: %d", last, from)
	}
	return run{from, to}, nil
}

func index(text string, completions int32) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("cannot convert string to integer for index: %q", text)
	}
	if n < 0 || n >= int(completions) {
		return 0, fmt.Errorf("too large index: %q", text)
	}
	return n, nil
}

// total is how many indexes the runs have.
func total(runs []run) int32 {
	var n int32
	for _, r := range runs {
		n += int32(r.to-r.from) + 1
	}
	return n
}

// shared is the first index that is in runs of both, if any is.
func shared(a, b []run) (int, bool) {
	for _, x := range a {
		for _, y := range b {
			if at := max(x.from, y.from); at <= min(x.to, y.to) {
				return at, true
			}
		}
	}
	return 0, false
}
