package podautoscaler

import (
	"math"
	"slices"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/utils/ptr"
)

// Memory is what is remembered of an autoscaler: a new leader begins without.
type Memory struct {
	// Recommended are the replicas that metrics asked for, before anything limited them.
	Recommended []Entry
	// Added and Removed are the replicas that came and went; only of autoscalers with a behavior.
	Added, Removed []Entry
}

// Entry is a number of replicas, and when it was noted.
type Entry struct {
	Replicas int32
	At       time.Time
}

// The longest that the API lets a window of stabilization and the period of a policy be.
const (
	longestWindow = time.Hour
	longestPeriod = 30 * time.Minute
)

// begun returns the memory with the replicas that there are, where it is empty: a new leader removes none in its first window.
func (m Memory) begun(replicas int32, now time.Time) Memory {
	if m.Recommended == nil {
		m.Recommended = []Entry{{replicas, now}}
	}
	return m
}

// recommended returns the memory with one more recommendation, and without those that no window reaches.
func (m Memory) recommended(replicas int32, reach time.Duration, now time.Time) Memory {
	m.Recommended = with(m.Recommended, Entry{replicas, now}, max(reach, longestWindow))
	return m
}

// scaled returns the memory with a change of replicas.
func (m Memory) scaled(from, to int32, now time.Time) Memory {
	if to > from {
		m.Added = with(m.Added, Entry{to - from, now}, longestPeriod)
	} else {
		m.Removed = with(m.Removed, Entry{from - to, now}, longestPeriod)
	}
	return m
}

// with returns a copy with one more entry, and without those that are older than it by more than reach.
func with(entries []Entry, e Entry, reach time.Duration) []Entry {
	kept := make([]Entry, 0, len(entries)+1)
	for _, old := range entries {
		if !old.At.Before(e.At.Add(-reach)) {
			kept = append(kept, old)
		}
	}
	return append(kept, e)
}

// within sums up the replicas of the entries of the last period.
func within(entries []Entry, period time.Duration, now time.Time) int32 {
	total := int32(0)
	for _, e := range entries {
		if e.At.After(now.Add(-period)) {
			total += e.Replicas
		}
	}
	return total
}

// bounds are what an autoscaler may choose from.
type bounds struct{ current, least, most int32 }

// limit is why a number of replicas was not taken as it is, or that it was.
type limit struct{ reason, message string }

var (
	inRange   = limit{"DesiredWithinRange", "the desired count is within the acceptable range"}
	tooFew    = limit{"TooFewReplicas", "the desired replica count is less than the minimum replica count"}
	tooMany   = limit{"TooManyReplicas", "the desired replica count is more than the maximum replica count"}
	tooFast   = limit{"ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate"}
	tooAbrupt = limit{"ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate"}

	ready    = limit{"ReadyForNewScale", "recommended size matches current size"}
	heldUp   = limit{"ScaleDownStabilized", "recent recommendations were higher than current one, applying the highest recent recommendation"}
	heldDown = limit{"ScaleUpStabilized", "recent recommendations were lower than current one, applying the lowest recent recommendation"}
)

// settled is what becomes of the replicas that metrics ask for.
type settled struct {
	replicas int32
	steady   limit // whether recent recommendations held it back
	limited  limit // whether it was too many, too few, too fast
	isLimit  bool
	memory   Memory
}

// settle brings the wanted replicas within what the autoscaler allows: first the recommendations of its windows, then its bounds and rates.
// window is that of scaling down, where the behavior says none.
func settle(wanted int32, b bounds, behavior *autoscalingv2.HorizontalPodAutoscalerBehavior, window time.Duration, m Memory, now time.Time) settled {
	if behavior == nil {
		return settlePlain(wanted, b, window, m, now)
	}
	up, down := rulesOf(behavior, window)
	steady := stabilize(wanted, b.current, seconds(up.StabilizationWindowSeconds), seconds(down.StabilizationWindowSeconds), m, now)
	s := settled{steady: ready, memory: m.recommended(wanted, window, now)}
	if steady != wanted {
		s.steady = heldUp
		if wanted >= b.current {
			s.steady = heldDown
		}
	}
	s.replicas, s.limited = paced(steady, b, up, down, m, now)
	s.isLimit = s.replicas != steady
	return s
}

// settlePlain is settle without a behavior: replicas at most double, or become four, and go down to the highest recommendation of the window.
func settlePlain(wanted int32, b bounds, window time.Duration, m Memory, now time.Time) settled {
	steady := wanted
	for _, e := range m.Recommended {
		if !e.At.Before(now.Add(-window)) {
			steady = max(steady, e.Replicas)
		}
	}
	s := settled{replicas: steady, steady: ready, limited: inRange, memory: m.recommended(wanted, window, now)}
	if steady != wanted {
		s.steady = heldUp
	}
	fastest := int32(min(max(2*int64(b.current), 4), math.MaxInt32))
	switch {
	case steady < b.least:
		s.replicas, s.limited = b.least, tooFew
	case steady > min(b.most, fastest) && b.most > fastest:
		s.replicas, s.limited = fastest, tooFast
	case steady > b.most:
		s.replicas, s.limited = b.most, tooMany
	}
	s.isLimit = s.replicas != steady
	return s
}

// stabilize returns the replicas that the recommendations of both windows agree to: no more than the lowest of the window of scaling up,
// no fewer than the highest of the one of scaling down, and else those that there are.
func stabilize(wanted, current int32, up, down time.Duration, m Memory, now time.Time) int32 {
	lowest, highest := wanted, wanted
	for _, e := range m.Recommended {
		if e.At.After(now.Add(-up)) {
			lowest = min(lowest, e.Replicas)
		}
		if e.At.After(now.Add(-down)) {
			highest = max(highest, e.Replicas)
		}
	}
	return min(max(current, lowest), highest)
}

// paced brings replicas within the bounds and what the policies allow in their periods.
func paced(wanted int32, b bounds, up, down autoscalingv2.HPAScalingRules, m Memory, now time.Time) (int32, limit) {
	switch {
	case wanted > b.current:
		most, why := b.most, tooMany
		if fastest := max(reach(b.current, up, m, now, +1), b.current); fastest < most {
			most, why = fastest, tooFast
		}
		if wanted > most {
			return most, why
		}
	case wanted < b.current:
		least, why := b.least, tooFew
		if lowest := min(reach(b.current, down, m, now, -1), b.current); lowest > least {
			least, why = lowest, tooAbrupt
		}
		if wanted < least {
			return least, why
		}
	}
	return wanted, inRange
}

// reach returns how many replicas the rules let there be at most (direction +1), or at least (-1). A policy counts from what there was at the
// beginning of its period.
func reach(current int32, rules autoscalingv2.HPAScalingRules, m Memory, now time.Time, direction int) int32 {
	var allowed []int32
	for _, p := range rules.Policies {
		period := time.Duration(p.PeriodSeconds) * time.Second
		began := int64(current) - int64(within(m.Added, period, now)) + int64(within(m.Removed, period, now))
		n := float64(began + int64(direction)*int64(p.Value))
		if p.Type == autoscalingv2.PercentScalingPolicy {
			n = float64(began) * (1 + float64(direction)*float64(p.Value)/100)
			if direction > 0 {
				n = math.Ceil(n) // or one replica would never become two
			}
		}
		allowed = append(allowed, int32(min(max(n, math.MinInt32), math.MaxInt32)))
	}
	choice := ptr.Deref(rules.SelectPolicy, autoscalingv2.MaxChangePolicySelect)
	switch {
	case choice == autoscalingv2.DisabledPolicySelect || len(allowed) == 0:
		return current
	case (choice == autoscalingv2.MinChangePolicySelect) == (direction > 0):
		return slices.Min(allowed)
	}
	return slices.Max(allowed)
}

// rulesOf returns the rules of a behavior, with Kubernetes' defaults for what it does not say.
func rulesOf(b *autoscalingv2.HorizontalPodAutoscalerBehavior, window time.Duration) (up, down autoscalingv2.HPAScalingRules) {
	up, down = ptr.Deref(b.ScaleUp, autoscalingv2.HPAScalingRules{}), ptr.Deref(b.ScaleDown, autoscalingv2.HPAScalingRules{})
	if up.StabilizationWindowSeconds == nil {
		up.StabilizationWindowSeconds = ptr.To[int32](0)
	}
	if down.StabilizationWindowSeconds == nil {
		down.StabilizationWindowSeconds = ptr.To(int32(window / time.Second))
	}
	double := autoscalingv2.HPAScalingPolicy{Type: autoscalingv2.PercentScalingPolicy, Value: 100, PeriodSeconds: 15}
	if up.Policies == nil {
		up.Policies = []autoscalingv2.HPAScalingPolicy{{Type: autoscalingv2.PodsScalingPolicy, Value: 4, PeriodSeconds: 15}, double}
	}
	if down.Policies == nil {
		down.Policies = []autoscalingv2.HPAScalingPolicy{double}
	}
	return up, down
}

func seconds(n *int32) time.Duration { return time.Duration(*n) * time.Second }
