package pressure

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Observation is what is left of something.
type Observation struct {
	Available, Capacity int64
	At                  time.Time
}

// Observations are those of one look. A signal that could not be read is not among them.
type Observations map[Signal]Observation

// Conditions are what the node is short of.
type Conditions struct{ Memory, Disk, PID bool }

// State is what is remembered from look to look; the zero value knows of nothing.
type State struct {
	since map[threshold]time.Time // how long each threshold is passed, without a break
	last  map[corev1.NodeConditionType]time.Time
	met   []Threshold
}

// threshold tells thresholds of the same settings apart.
type threshold struct {
	signal Signal
	hard   bool
}

func (t Threshold) key() threshold { return threshold{t.Signal, t.Hard} }

// passed says whether less is left than the threshold says; more is how much of it has to be left beside.
func (t Threshold) passed(all Observations, more Value) bool {
	o, ok := all[t.Signal]
	return ok && o.Capacity > 0 && o.Available < t.Value.Of(o.Capacity)+more.Of(o.Capacity)
}

// Over says whether the shortage that the threshold stands for is over: as much more is left as has to be freed.
func (t Threshold) Over(all Observations) bool { return !t.passed(all, t.Reclaim) }

// Next is the state after a look, what the node is short of, and for which thresholds something has to be done now, the first first. The node is short of
// something from the first moment on, whatever grace a soft threshold has, and until the transition period is over since the last one.
func (s State) Next(settings Settings, seen Observations, now time.Time) (State, Conditions, []Threshold) {
	next := State{since: map[threshold]time.Time{}, last: maps.Clone(s.last)}
	if next.last == nil {
		next.last = map[corev1.NodeConditionType]time.Time{}
	}
	var due []Threshold
	for _, t := range settings.Thresholds {
		before := slices.ContainsFunc(s.met, func(other Threshold) bool { return other.key() == t.key() })
		if !t.passed(seen, Value{}) && (!before || t.Over(seen)) {
			continue
		}
		since, ok := s.since[t.key()]
		if !ok {
			since = now
		}
		next.since[t.key()] = since
		next.last[t.Signal.kind().condition] = now
		if t.Hard || now.Sub(since) >= t.Grace {
			due = append(due, t)
		}
	}
	next.met = slices.Clone(due)
	// What has to end at once goes first, then by signal.
	slices.SortStableFunc(due, func(a, b Threshold) int {
		if d := a.Signal.order() - b.Signal.order(); d != 0 {
			return d
		}
		return boolOrder(b.Hard) - boolOrder(a.Hard)
	})
	for condition, last := range next.last {
		if now.Sub(last) >= settings.Transition {
			delete(next.last, condition)
		}
	}
	has := func(c corev1.NodeConditionType) bool { _, ok := next.last[c]; return ok }
	return next, Conditions{has(corev1.NodeMemoryPressure), has(corev1.NodeDiskPressure), has(corev1.NodePIDPressure)}, due
}

func boolOrder(b bool) int {
	if b {
		return 1
	}
	return 0
}
