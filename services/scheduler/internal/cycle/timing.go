package cycle

import (
	"time"

	"howdah.dev/services/scheduler/internal/cluster"
	"howdah.dev/services/scheduler/internal/filter"
	"howdah.dev/services/scheduler/internal/plugin"
)

// Code is how an extension point, or a plugin there, came out, in Kubernetes' words.
type Code string

// How they come out.
const (
	Success       Code = "Success"
	Failure       Code = "Error"
	Unschedulable Code = "Unschedulable"
	Unresolvable  Code = "UnschedulableAndUnresolvable"
	Skip          Code = "Skip"
)

// Timing says when the parts of a cycle ended, for its spans, and what its rounds took, for its metrics.
type Timing struct {
	Start, Filtered, Scored, End time.Time
	Feasible                     int
	// Took has each extension point once a round.
	Took []Took
	// Ran is what single plugins took, in the cycles that were chosen for that.
	Ran []Ran
	// Asked is how often each plugin was asked.
	Asked Asked
}

// Took is how long an extension point took.
type Took struct {
	Point plugin.Point
	Code  Code
	Time  time.Duration
}

// Ran is how long a plugin took at a point: for a node, where it is asked about nodes.
type Ran struct {
	Plugin string
	Took
}

// Asked counts by the indexes of a profile's filters and scores: pods to which they had something to say, and nodes about which they were asked.
type Asked struct{ PreFilter, Filter, PreScore, Score []int }

const (
	// sampled is in how many of a hundred cycles plugins are timed, as in Kubernetes.
	sampled = 10
	// timedNodes is for about how many nodes of such a cycle they are: two looks at the clock cost as much as most filters.
	timedNodes = 4
)

// meter writes the Timing of a cycle. A nil one writes nothing: not all rounds place pods.
type meter struct {
	now    func() time.Time
	timing *Timing
	// timed says that plugins are timed in this cycle, and node that filters are for the node which is being asked about.
	timed, node bool
	// nodes is how many were asked about in this round without that, and refused which filters refused how many of them.
	nodes   int
	refused []int
	last    time.Time // when the last extension point ended
}

func newMeter(p Profile, timing *Timing, timed bool, now func() time.Time) *meter {
	filters, scores := len(p.Filters), len(p.Scores)
	counts := make([]int, 2*filters+2*scores)
	timing.Asked = Asked{counts[:filters], counts[filters : 2*filters], counts[2*filters : 2*filters+scores], counts[2*filters+scores:]}
	return &meter{now: now, timing: timing, timed: timed, refused: make([]int, filters)}
}

// begin begins a round.
func (m *meter) begin() {
	if m != nil {
		m.last = m.now()
	}
}

// end ends an extension point, which began where the one before ended.
func (m *meter) end(point plugin.Point, code Code) {
	if m == nil {
		return
	}
	now := m.now()
	m.timing.Took = append(m.timing.Took, Took{point, code, now.Sub(m.last)})
	m.last = now
}

// times reports whether plugins are timed.
func (m *meter) times() bool { return m != nil && m.timed }

// start is when a plugin begins, the zero time where it is not timed.
func (m *meter) start(timed bool) (at time.Time) {
	if timed {
		at = m.now()
	}
	return at
}

// ran notes what a plugin took for each of so many nodes.
func (m *meter) ran(point plugin.Point, name string, code Code, start time.Time, nodes int) {
	if !start.IsZero() {
		m.timing.Ran = append(m.timing.Ran, Ran{name, Took{point, code, m.now().Sub(start) / time.Duration(max(nodes, 1))}})
	}
}

// prepare has a filter look at the pod and the nodes.
func (m *meter) prepare(at int, f filter.Filter, r *round) filter.Check {
	if m == nil {
		return f.Prepare(r.pod, r.snapshot)
	}
	start := m.start(m.times())
	check := f.Prepare(r.pod, r.snapshot)
	code := Success
	if check == nil {
		code = Skip
	} else {
		m.timing.Asked.PreFilter[at]++
	}
	m.ran(plugin.PreFilter, f.Name, code, start, 1)
	return check
}

// aheadOf notes that a filter has refused all nodes before any was asked.
func (m *meter) aheadOf(p Profile, by string) {
	if m == nil {
		return
	}
	for i, f := range p.Filters {
		if f.Name == by {
			m.timing.Asked.PreFilter[i]++
		}
	}
	m.end(plugin.PreFilter, Unresolvable)
}

// refusing returns the first check that refuses a node, nil where none does.
func (m *meter) refusing(checks []asked, n *cluster.Node) *asked {
	if m == nil {
		return refusing(checks, n)
	}
	if m.node {
		return m.refusingTimed(checks, n)
	}
	c := refusing(checks, n)
	m.nodes++
	if c != nil {
		m.refused[c.at]++
	}
	return c
}

// settle counts how often the checks were asked of a round that is over: each about the nodes that those before it let pass. To count them one by one
// would cost as much as some of them.
func (m *meter) settle(checks []asked) {
	left := m.nodes
	for _, c := range checks {
		m.timing.Asked.Filter[c.at] += left
		left -= m.refused[c.at]
	}
	m.nodes = 0
	clear(m.refused)
}

// refusingOnce does what refusing does with checks that are not those of the round.
func (m *meter) refusingOnce(checks []asked, n *cluster.Node) *asked {
	for i, c := range checks {
		if m != nil {
			m.timing.Asked.Filter[c.at]++
		}
		if !c.check.Check(n) {
			return &checks[i]
		}
	}
	return nil
}

func (m *meter) refusingTimed(checks []asked, n *cluster.Node) *asked {
	for i := range checks {
		c := &checks[i]
		m.timing.Asked.Filter[c.at]++
		start := m.now()
		passes := c.check.Check(n)
		took := m.now().Sub(start)
		code := Success
		if !passes {
			code = Unresolvable
			if c.check.Resolvable(n) {
				code = Unschedulable
			}
		}
		m.timing.Ran = append(m.timing.Ran, Ran{c.by, Took{plugin.Filter, code, took}})
		if !passes {
			return c
		}
	}
	return nil
}

// choose says whether filters are timed for the i-th of so many nodes.
func (m *meter) choose(i, nodes int) {
	if m != nil {
		m.node = m.timed && i%max(nodes/timedNodes, 1) == 0
	}
}

// unchoose ends that.
func (m *meter) unchoose() {
	if m != nil {
		m.node = false
	}
}

// ready notes whether a score has anything to say of the nodes.
func (m *meter) ready(at int, name string, ready bool, start time.Time) {
	if m == nil {
		return
	}
	code := Skip
	if ready {
		code = Success
		m.timing.Asked.PreScore[at]++
	}
	m.ran(plugin.PreScore, name, code, start, 1)
}

// rate notes that a score is asked about so many candidates. Where plugins are timed it is asked about some of them here already.
func (m *meter) rate(w rater, r *round, candidates int) {
	if m == nil {
		return
	}
	m.timing.Asked.Score[w.at] += candidates
	if !m.timed {
		return
	}
	for i := 0; i < candidates; i += max(candidates/timedNodes, 1) {
		start := m.now()
		w.rate(r.snapshot.Nodes[r.candidates[i].index])
		m.ran(plugin.Score, w.score.Name, Success, start, 1)
	}
}

// shared asks a score about all nodes at once. Each is said to take the same share of that.
func (m *meter) shared(s shared, ratings []int64) {
	if m == nil {
		s.rating.Rate(ratings)
		return
	}
	m.timing.Asked.Score[s.at] += len(ratings)
	start := m.start(m.timed)
	s.rating.Rate(ratings)
	m.ran(plugin.Score, s.score.Name, Success, start, len(ratings))
}

// followed notes that scores were asked about a node once more.
func (m *meter) followed(raters []rater) {
	if m == nil {
		return
	}
	for i := range raters {
		m.timing.Asked.Score[raters[i].at]++
	}
}
