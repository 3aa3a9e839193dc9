package nodestatus

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// DefaultThresholds are those that the kubelet has by default, and one for processes.
const DefaultThresholds = "memory.available<100Mi,nodefs.available<10%,nodefs.inodesFree<5%,pid.available<4%"

// Thresholds say below which remainder a node is short of something. The
// text is that of the kubelet's --eviction-hard
// (https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/).
type Thresholds struct {
	memory, disk, inodes, pids threshold
}

// threshold is a share of the whole, or a number: of bytes, inodes or processes.
type threshold struct {
	percent float64
	number  int64
}

// of is the remainder below which a whole is short.
func (t threshold) of(whole int64) int64 {
	if t.percent > 0 {
		return int64(float64(whole) * t.percent / 100)
	}
	return t.number
}

// ParseThresholds reads a list of signal<quantity or signal<percentage%.
// A signal that is not named is not looked at.
func ParseThresholds(text string) (Thresholds, error) {
	var out Thresholds
	signals := map[string]*threshold{
		"memory.available": &out.memory, "nodefs.available": &out.disk,
		"nodefs.inodesFree": &out.inodes, "pid.available": &out.pids,
	}
	var problems []error
	seen := map[string]bool{}
	for _, item := range strings.Split(text, ",") {
		if item == "" {
			continue
		}
		signal, value, found := strings.Cut(item, "<")
		at := signals[signal]
		switch {
		case !found:
			problems = append(problems, fmt.Errorf("threshold %q is not signal<value", item))
			continue
		case at == nil:
			problems = append(problems, fmt.Errorf("unsupported signal %q: one of %s", signal, strings.Join(slices.Sorted(maps.Keys(signals)), ", ")))
			continue
		case seen[signal]:
			problems = append(problems, fmt.Errorf("signal %q has two thresholds", signal))
			continue
		}
		seen[signal] = true
		var err error
		if *at, err = parseThreshold(value); err != nil {
			problems = append(problems, fmt.Errorf("threshold of %s: %w", signal, err))
		}
	}
	return out, errors.Join(problems...)
}

func parseThreshold(value string) (threshold, error) {
	if number, ok := strings.CutSuffix(value, "%"); ok {
		percent, err := strconv.ParseFloat(number, 64)
		if err != nil || !(percent >= 0 && percent < 100) {
			return threshold{}, fmt.Errorf("%q is not a percentage from 0 to below 100", value)
		}
		return threshold{percent: percent}, nil
	}
	quantity, err := resource.ParseQuantity(value)
	if err != nil {
		return threshold{}, fmt.Errorf("%q: %w", value, err)
	}
	if quantity.Sign() < 0 {
		return threshold{}, fmt.Errorf("%q is negative", value)
	}
	return threshold{number: quantity.Value()}, nil
}
