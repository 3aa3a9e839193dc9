package podautoscaler

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/utils/ptr"
)

const window = 5 * time.Minute

type rules = autoscalingv2.HPAScalingRules

func policy(kind autoscalingv2.HPAScalingPolicyType, value, seconds int32) autoscalingv2.HPAScalingPolicy {
	return autoscalingv2.HPAScalingPolicy{Type: kind, Value: value, PeriodSeconds: seconds}
}

func podsPolicy(value, seconds int32) autoscalingv2.HPAScalingPolicy {
	return policy(autoscalingv2.PodsScalingPolicy, value, seconds)
}

func percent(value, seconds int32) autoscalingv2.HPAScalingPolicy {
	return policy(autoscalingv2.PercentScalingPolicy, value, seconds)
}

func behaves(up, down *rules) *autoscalingv2.HorizontalPodAutoscalerBehavior {
	return &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: up, ScaleDown: down}
}

// step is what metrics ask for after so many seconds, what comes of it and why.
type step struct {
	at               int
	wanted, replicas int32
	steady, limited  string
}

// TestSequences follows autoscalers through time: what the metrics ask for, and what is done.
func TestSequences(t *testing.T) {
	t.Parallel()
	const ok, up, down, fast, abrupt, many, few, within = "ReadyForNewScale", "ScaleUpStabilized", "ScaleDownStabilized", "ScaleUpLimit", "ScaleDownLimit", "TooManyReplicas", "TooFewReplicas", "DesiredWithinRange"
	none := ptr.To[int32](0)
	for name, test := range map[string]struct {
		behavior    *autoscalingv2.HorizontalPodAutoscalerBehavior
		begin       int32
		least, most int32
		steps       []step
	}{
		"without a behavior replicas double, or become four": {nil, 1, 1, 30, []step{
			{15, 30, 4, ok, fast}, {30, 30, 8, ok, fast}, {45, 30, 16, ok, fast}, {60, 30, 30, ok, within}, {75, 40, 30, ok, many},
		}},
		"without a behavior the highest of five minutes holds": {nil, 10, 2, 30, []step{
			{15, 4, 10, down, within}, {30, 12, 12, ok, within}, {45, 3, 12, down, within}, {300, 3, 12, down, within},
			{330, 3, 12, down, within}, {331, 3, 3, ok, within}, {345, 1, 3, down, within}, {646, 1, 2, ok, few},
		}},
		"the default behavior is as without one, but counts what came": {behaves(nil, nil), 1, 1, 100, []step{
			{15, 100, 5, ok, fast}, {16, 100, 5, ok, fast}, {31, 100, 10, ok, fast}, {47, 100, 20, ok, fast}, {63, 40, 40, ok, within}, {100, 120, 80, ok, fast}, {120, 120, 100, ok, many},
		}},
		"the default behavior takes all away after five minutes": {behaves(nil, nil), 80, 1, 100, []step{
			{15, 10, 80, down, within}, {300, 10, 10, ok, within},
		}},
		// The documentation: at most 10 % a minute, and from 80 replicas 8 go, then 7, and at 40 the 4 pods a minute are more.
		"ten percent or four pods a minute": {behaves(nil, &rules{StabilizationWindowSeconds: none, Policies: []autoscalingv2.HPAScalingPolicy{podsPolicy(4, 60), percent(10, 60)}}), 80, 1, 100, []step{
			{60, 10, 72, ok, abrupt}, {90, 10, 72, ok, abrupt}, {120, 10, 64, ok, abrupt}, {180, 10, 57, ok, abrupt}, {240, 10, 51, ok, abrupt},
			{300, 10, 45, ok, abrupt}, {360, 10, 40, ok, abrupt}, {420, 10, 36, ok, abrupt}, {480, 10, 32, ok, abrupt}, {540, 30, 30, ok, within},
		}},
		"the lesser of two policies": {behaves(nil, &rules{StabilizationWindowSeconds: none, SelectPolicy: ptr.To(autoscalingv2.MinChangePolicySelect), Policies: []autoscalingv2.HPAScalingPolicy{podsPolicy(5, 60), percent(10, 60)}}), 80, 1, 100, []step{
			{60, 10, 75, ok, abrupt}, {120, 10, 70, ok, abrupt}, {180, 10, 65, ok, abrupt}, {240, 10, 60, ok, abrupt}, {300, 10, 55, ok, abrupt}, {360, 10, 50, ok, abrupt}, {420, 10, 45, ok, abrupt}, {480, 10, 40, ok, abrupt}, {540, 10, 36, ok, abrupt},
		}},
		"nothing is ever taken away": {behaves(nil, &rules{SelectPolicy: ptr.To(autoscalingv2.DisabledPolicySelect)}), 5, 1, 10, []step{
			{15, 1, 5, down, within}, {400, 1, 5, ok, abrupt}, {800, 8, 8, ok, within}, {1200, 8, 8, ok, within}, {1600, 2, 8, ok, abrupt},
		}},
		"nothing is ever added": {behaves(&rules{SelectPolicy: ptr.To(autoscalingv2.DisabledPolicySelect)}, nil), 5, 1, 10, []step{{15, 9, 5, ok, fast}}},
		"one pod each half minute": {behaves(&rules{Policies: []autoscalingv2.HPAScalingPolicy{podsPolicy(1, 30)}}, nil), 1, 1, 10, []step{
			{15, 10, 2, ok, fast}, {30, 10, 2, ok, fast}, {44, 10, 2, ok, fast}, {46, 10, 3, ok, fast}, {61, 10, 3, ok, fast}, {77, 10, 4, ok, fast},
		}},
		"percents are rounded up while growing": {behaves(&rules{Policies: []autoscalingv2.HPAScalingPolicy{percent(10, 15)}}, nil), 1, 1, 10, []step{
			{15, 10, 2, ok, fast}, {30, 10, 3, ok, fast},
		}},
		"growing waits for the lowest of its window": {behaves(&rules{StabilizationWindowSeconds: ptr.To[int32](60)}, nil), 2, 1, 100, []step{
			{15, 4, 2, up, within}, {30, 6, 2, up, within}, {60, 6, 4, up, within}, {75, 6, 6, ok, within}, {90, 20, 6, up, within}, {105, 20, 6, up, within},
			{150, 20, 12, ok, fast},
		}},
		"both windows hold what there is": {behaves(&rules{StabilizationWindowSeconds: ptr.To[int32](100)}, &rules{StabilizationWindowSeconds: ptr.To[int32](100)}), 5, 1, 100, []step{
			{15, 9, 5, up, within}, {30, 2, 5, down, within}, {45, 9, 5, up, within}, {60, 2, 5, down, within}, {170, 2, 2, ok, within},
		}},
		"what was removed may come back at once": {behaves(&rules{Policies: []autoscalingv2.HPAScalingPolicy{podsPolicy(1, 60)}}, &rules{StabilizationWindowSeconds: none}), 8, 1, 10, []step{
			{15, 4, 4, ok, within}, {30, 10, 9, ok, fast},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := Memory{}.begun(test.begin, now)
			current := test.begin
			for _, s := range test.steps {
				at := now.Add(time.Duration(s.at) * time.Second)
				got := settle(s.wanted, bounds{current, test.least, test.most}, test.behavior, window, m, at)
				if got.replicas != s.replicas || got.steady.reason != s.steady || got.limited.reason != s.limited {
					t.Fatalf("after %d s, %d wanted: %d replicas, %s, %s; want %+v", s.at, s.wanted, got.replicas, got.steady.reason, got.limited.reason, s)
				}
				if got.isLimit != (s.limited != within) {
					t.Errorf("after %d s: limited is %v with %s", s.at, got.isLimit, s.limited)
				}
				m = got.memory
				if got.replicas != current && test.behavior != nil {
					m = m.scaled(current, got.replicas, at)
				}
				current = got.replicas
			}
		})
	}
}

// TestBoundsHold: whatever metrics ask for and whenever, replicas stay between least and most, policies are kept, and memory is bounded.
func TestBoundsHold(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		var behavior *autoscalingv2.HorizontalPodAutoscalerBehavior
		step := int32(1 + r.IntN(5))
		if seed%4 > 0 {
			behavior = behaves(
				&rules{StabilizationWindowSeconds: ptr.To(int32(r.IntN(120))), Policies: []autoscalingv2.HPAScalingPolicy{podsPolicy(step, 60)}},
				&rules{StabilizationWindowSeconds: ptr.To(int32(r.IntN(120))), Policies: []autoscalingv2.HPAScalingPolicy{podsPolicy(step, 60)}})
		}
		b := bounds{int32(1 + r.IntN(50)), 1, 50}
		m, at := Memory{}.begun(b.current, now), now
		began := []Entry{{b.current, now}}
		for range 400 {
			at = at.Add(time.Duration(1+r.IntN(30)) * time.Second)
			got := settle(int32(r.IntN(70)), b, behavior, window, m, at)
			if got.replicas < b.least || got.replicas > b.most {
				t.Fatalf("seed %d: %d replicas", seed, got.replicas)
			}
			m = got.memory
			if change := got.replicas - b.current; change != 0 && behavior != nil {
				m = m.scaled(b.current, got.replicas, at)
				start := began[0]
				for _, e := range began {
					if at.Sub(e.At) >= time.Minute {
						start = e
					}
				}
				if change > 0 && got.replicas-start.Replicas > step || change < 0 && start.Replicas-got.replicas > step {
					t.Fatalf("seed %d: from %d to %d replicas within a minute, and a step is %d", seed, start.Replicas, got.replicas, step)
				}
				began = append(began, Entry{got.replicas, at})
			}
			b.current = got.replicas
			if n := len(m.Recommended) + len(m.Added) + len(m.Removed); n > 8000 {
				t.Fatalf("seed %d: %d entries are remembered", seed, n)
			}
		}
		if m.Recommended[0].At.Before(at.Add(-longestWindow)) {
			t.Fatal("what no window reaches is remembered")
		}
	}
}

func TestRulesOf(t *testing.T) {
	t.Parallel()
	up, down := rulesOf(behaves(nil, &rules{StabilizationWindowSeconds: ptr.To[int32](7)}), window)
	if got := fmt.Sprint(*up.StabilizationWindowSeconds, up.Policies, *down.StabilizationWindowSeconds, down.Policies); got != "0 [{Pods 4 15} {Percent 100 15}] 7 [{Percent 100 15}]" {
		t.Error(got)
	}
	if _, down := rulesOf(behaves(nil, nil), window); *down.StabilizationWindowSeconds != 300 {
		t.Errorf("window %d", *down.StabilizationWindowSeconds)
	}
}
