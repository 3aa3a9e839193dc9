// Package cycle is the scheduling decision: pure functions from pods and a
// snapshot to placements and verdicts.
package cycle

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"

	"howdah.dev/services/scheduler/internal/cluster"
	"howdah.dev/services/scheduler/internal/device"
	"howdah.dev/services/scheduler/internal/filter"
	"howdah.dev/services/scheduler/internal/plugin"
	"howdah.dev/services/scheduler/internal/score"
)

// Profile is the filters and scores that decide.
type Profile struct {
	Filters []filter.Filter
	Scores  []score.Score
}

// Default is Kubernetes' default profile as far as howdah has it.
func Default() Profile { return Profile{plugin.Filters(), plugin.Scores()} }

// Placement is the decision for one pod.
type Placement struct {
	Pod *corev1.Pod
	// Node is where the pod goes; empty where no node is feasible.
	Node string
	// Message says why no node is feasible, as in the FailedScheduling event.
	Message string
	// Refusers are the filters, by name, that were the first to refuse a node; none where no node was asked. What they do not look at may change
	// without the pod having a chance.
	Refusers []string
	// Ahead is the filter, by name, that refused all nodes before any was asked; "" for none.
	Ahead string
	// Fault says that the message is about what the pod wants, and not about the nodes.
	Fault bool
	// Choice is what is to be bound before the pod goes to its node.
	filter.Choice
	// Release is the claim whose devices are to be given back, so that the pod finds others later; nil for none.
	Release *resourcev1.ResourceClaim
}

// Place decides for a group of identical pods. The nodes are filtered and
// rated once; after each placement only the chosen node is asked again,
// unless a filter looks across nodes. tie returns a number below n to choose
// among equally good nodes, and whether plugins are timed.
func (p Profile) Place(pods []*corev1.Pod, snapshot cluster.Snapshot, tie func(n int) int, now func() time.Time) ([]Placement, Timing) {
	timing := Timing{Start: now()}
	meter := newMeter(p, &timing, tie(100) < sampled, now)
	placements := make([]Placement, 0, len(pods))
	snapshot = against(pods, p.sees(snapshot))
	for len(pods) > 0 {
		meter.begin()
		round := newRound(p, pods[0], snapshot, meter)
		round.filter()
		if timing.Filtered.IsZero() {
			timing.Filtered, timing.Feasible = meter.last, len(round.candidates)
		}
		round.rate()
		if timing.Scored.IsZero() {
			timing.Scored = meter.last
		}
		placed := round.place(alike(pods, snapshot), tie)
		meter.settle(round.checks)
		placements = append(placements, placed...)
		pods = pods[len(placed):]
		snapshot = round.snapshot
	}
	timing.End = now()
	return placements, timing
}

// sees is what of a snapshot a profile looks at: without the plugin that finds devices, extended resources are what nodes say of them.
func (p Profile) sees(snapshot cluster.Snapshot) cluster.Snapshot {
	if !p.FindsDevices() {
		snapshot.Devices = device.View{}
	}
	return snapshot
}

// FindsDevices reports whether the plugin that finds devices is part of a profile.
func (p Profile) FindsDevices() bool {
	return slices.ContainsFunc(p.Filters, func(f filter.Filter) bool { return f.Name == plugin.Devices })
}

// alike returns those of a group, from its first one on, for whom the same holds: who has a special claim already goes by that.
func alike(pods []*corev1.Pod, snapshot cluster.Snapshot) []*corev1.Pod {
	if !device.AsksForExtended(pods[0]) {
		return pods
	}
	for i, pod := range pods {
		if snapshot.Devices.Special(pod) != nil {
			return pods[:max(i, 1)]
		}
	}
	return pods
}

// round is one filtering and rating of all nodes, and the placements that
// it is good for.
type round struct {
	profile    Profile
	meter      *meter // nil where nothing is placed
	pod        *corev1.Pod
	snapshot   cluster.Snapshot
	prepared   []prepared
	checks     []asked          // the prepared ones, or what they are if a node is otherwise
	named      []int            // the only nodes that are asked, by their indexes in the snapshot, where namedBy is set
	namedBy    string           // the filter that knows them
	across     bool             // a filter looks across nodes, or more than a node is chosen: one placement a round
	ahead      string           // why no node can take the pod, whatever the node is; "" where it depends on the node
	aheadBy    string           // the filter that says so
	choosers   []filter.Chooser // none where only a node is chosen
	raters     []rater
	shared     []shared
	relative   []relative
	candidates []candidate
	ratings    []int64 // by candidate: the weighted sum of the shared ones
	scratch    []int64
}

// prepared is a filter's check of the pod, nil where every node passes.
type prepared struct {
	filter filter.Filter
	check  filter.Check
}

// asked is a check of the filter of that name, "" for none's, at that place in the profile.
type asked struct {
	by    string
	at    int
	check filter.Check
}

type rater struct {
	score score.Score
	at    int // in the profile
	rate  func(*cluster.Node) int64
}

// shared is a rating by the pods of all nodes.
type shared struct {
	score  score.Score
	at     int // in the profile
	rating score.Shared
}

// relative is a rating that goes by the highest of the nodes among which there is a choice.
type relative struct {
	score   score.Score
	raw     []int64 // by candidate
	rated   []int64 // likewise, normalised
	highest int64   // of the raw ones of those that are left
}

type candidate struct {
	index     int   // in the snapshot
	at        int   // among the candidates
	fixed     int64 // weighted sum of the ratings that do not follow pods
	following int64 // and of those that follow the pods of the node
	total     int64 // of these, and of those that follow the pods of all nodes
}

// newRound has every filter look at the pod and the nodes. The snapshot's nominees are those that the pod leaves their nodes to.
func newRound(p Profile, pod *corev1.Pod, snapshot cluster.Snapshot, m *meter) *round {
	r := &round{profile: p, meter: m, pod: pod, snapshot: snapshot}
	r.snapshot.Nodes = slices.Clone(snapshot.Nodes)
	if r.ahead, r.aheadBy = p.ahead(pod, snapshot); r.ahead != "" {
		r.checks = []asked{{check: filter.Everywhere(r.ahead)}}
		m.aheadOf(p, r.aheadBy)
		return r
	}
	for i, f := range p.Filters {
		c := m.prepare(i, f, r)
		r.prepared = append(r.prepared, prepared{f, c})
		if c == nil {
			continue
		}
		r.checks = append(r.checks, asked{f.Name, i, c})
		r.across = r.across || f.AcrossNodes
		if chooser, ok := c.(filter.Chooser); ok {
			r.choosers, r.across = append(r.choosers, chooser), true
		}
	}
	r.named, r.namedBy = p.named(pod, snapshot)
	m.end(plugin.PreFilter, Success)
	return r
}

// ahead says why no node can take the pod, whatever the node is, and by which filter; "" where it depends on the node.
func (p Profile) ahead(pod *corev1.Pod, snapshot cluster.Snapshot) (why, by string) {
	for _, f := range p.Filters {
		if f.Ahead != nil {
			if why := f.Ahead(pod, snapshot); why != "" {
				return why, f.Name
			}
		}
	}
	return "", ""
}

// filter finds the candidates. Where the node that is kept for the pod has room, it is the only one.
func (r *round) filter() {
	if r.ahead != "" {
		return
	}
	defer r.filtered()
	if kept, ok := r.snapshot.Index(r.pod.Status.NominatedNodeName); ok && r.feasible(r.snapshot.Nodes[kept]) {
		r.candidates = []candidate{{index: kept}}
		return
	}
	r.candidates = make([]candidate, 0, r.askedCount())
	count := r.askedCount()
	for i := range r.asked() {
		r.meter.choose(i, count)
		if r.feasible(r.snapshot.Nodes[i]) {
			r.candidates = append(r.candidates, candidate{index: i, at: len(r.candidates)})
		}
	}
	if r.fault() != "" {
		r.candidates = nil
	}
}

// filtered ends the filtering of a round.
func (r *round) filtered() {
	r.meter.unchoose()
	code := Success
	if r.fault() != "" {
		code = Failure
	}
	r.meter.end(plugin.Filter, code)
}

// fault says what is wrong with what the pod wants, "" where the nodes that were asked have shown nothing.
func (r *round) fault() string {
	for _, p := range r.prepared {
		faulter, ok := p.check.(filter.Faulter)
		if !ok {
			continue
		}
		if why := faulter.Fault(); why != "" {
			return fmt.Sprintf("running %q filter plugin: %s", p.filter.Name, why)
		}
	}
	return ""
}

// named returns the indexes of the nodes that the pod leaves, and the name of the filter by which it rules out the others; "" where
// it leaves all.
func (p Profile) named(pod *corev1.Pod, snapshot cluster.Snapshot) (indexes []int, by string) {
	for _, f := range p.Filters {
		if f.Only == nil {
			continue
		}
		names, ok := f.Only(pod)
		if !ok {
			continue
		}
		for _, name := range names {
			if i, ok := snapshot.Index(name); ok {
				indexes = append(indexes, i)
			}
		}
		return indexes, f.Name
	}
	return nil, ""
}

// asked are the indexes of the nodes that may be feasible.
func (r *round) asked() iter.Seq[int] {
	if r.namedBy != "" {
		return slices.Values(r.named)
	}
	return func(yield func(int) bool) {
		for i := range r.snapshot.Nodes {
			if !yield(i) {
				return
			}
		}
	}
}

func (r *round) askedCount() int {
	if r.namedBy != "" {
		return len(r.named)
	}
	return len(r.snapshot.Nodes)
}

// rate rates the candidates, where there is a choice.
func (r *round) rate() {
	if len(r.candidates) < 2 {
		return
	}
	ratings := make([]int64, len(r.candidates))
	raters := r.ready()
	r.meter.end(plugin.PreScore, Success)
	for _, w := range raters {
		s := w.score
		r.meter.rate(w, r, len(r.candidates))
		if s.FollowsPods {
			r.raters = append(r.raters, w)
			continue
		}
		for i, c := range r.candidates {
			ratings[i] = w.rate(r.snapshot.Nodes[c.index])
		}
		if s.Normalise != nil {
			var raw []int64
			highest := slices.Max(ratings)
			if !r.across && slices.Min(ratings) < highest { // else none is placed after another, or no node can change the others' ratings by leaving
				raw = slices.Clone(ratings)
			}
			s.Normalise(ratings)
			if raw != nil {
				r.relative = append(r.relative, relative{s, raw, slices.Clone(ratings), highest})
			}
		}
		for i := range r.candidates {
			r.candidates[i].fixed += s.Weight * ratings[i]
		}
	}
	for i := range r.candidates {
		r.follow(&r.candidates[i])
	}
	if len(r.shared) > 0 {
		r.ratings, r.scratch = make([]int64, len(r.candidates)), ratings
		r.share()
	}
	r.meter.end(plugin.Score, Success)
}

// ready has every score look at the pod and the candidates, and returns those that rate node by node.
func (r *round) ready() []rater {
	feasible := make([]*cluster.Node, len(r.candidates))
	for i, c := range r.candidates {
		feasible[i] = r.snapshot.Nodes[c.index]
	}
	raters := make([]rater, 0, len(r.profile.Scores))
	for i, s := range r.profile.Scores {
		start := r.meter.start(r.meter.times())
		if s.Share != nil {
			rating := s.Share(r.pod, r.snapshot, feasible)
			if rating != nil {
				r.shared = append(r.shared, shared{s, i, rating})
			}
			r.meter.ready(i, s.Name, rating != nil, start)
			continue
		}
		rate := s.Prepare(r.pod, r.snapshot)
		if rate != nil {
			raters = append(raters, rater{s, i, rate})
		}
		r.meter.ready(i, s.Name, rate != nil, start)
	}
	return raters
}

// share rates the candidates by the pods of all nodes, as they are now, and totals their ratings.
func (r *round) share() {
	clear(r.ratings)
	for _, s := range r.shared {
		r.meter.shared(s, r.scratch)
		for i, rating := range r.scratch {
			r.ratings[i] += s.score.Weight * rating
		}
	}
	for i := range r.candidates {
		c := &r.candidates[i]
		c.total = c.fixed + c.following + r.ratings[i]
	}
}

// follow rates a candidate by what is on its node now.
func (r *round) follow(c *candidate) {
	c.following = 0
	for i := range r.raters {
		c.following += r.raters[i].score.Weight * r.raters[i].rate(r.snapshot.Nodes[c.index])
	}
	c.total = c.fixed + c.following
}

// place takes the best candidate for each pod until the pods or the
// candidates are used up.
func (r *round) place(pods []*corev1.Pod, tie func(int) int) []Placement {
	if len(r.candidates) == 0 {
		return r.nowhere(pods)
	}
	upTo := len(pods)
	if r.across {
		upTo = 1
	}
	best := newBest(r.candidates, len(r.shared) > 0 || upTo == 1, tie)
	demand := cluster.DemandOf(r.pod)
	placements := make([]Placement, 0, upTo)
	for _, pod := range pods {
		if best.empty() {
			break
		}
		c := best.top()
		node := r.snapshot.Nodes[c.index]
		placement := Placement{Pod: pod, Node: node.Name}
		if err := r.choose(node, &placement.Choice); err != nil {
			placements = append(placements, Placement{Pod: pod, Message: err.Error()})
			break
		}
		bound := *pod
		bound.Spec.NodeName = node.Name
		node = node.With(&bound, demand)
		r.snapshot.Nodes[c.index] = node
		placements = append(placements, placement)
		if len(placements) == upTo {
			break
		}
		fits := r.feasible(node)
		if fits {
			r.follow(c)
			r.meter.followed(r.raters)
		}
		r.countIn(c, fits)
		best.update(fits)
		if !fits && r.leave(c, best.candidates) {
			best.rank()
		}
	}
	return placements
}

// leave rates the candidates that are left by the highest among them, now that one is none any more. It reports whether any rating is another.
func (r *round) leave(gone *candidate, left []*candidate) (changed bool) {
	for i := range r.relative {
		v := &r.relative[i]
		if v.raw[gone.at] < v.highest || slices.ContainsFunc(left, func(c *candidate) bool { return v.raw[c.at] == v.highest }) {
			continue
		}
		ratings := make([]int64, len(left))
		v.highest = 0
		for i, c := range left {
			ratings[i] = v.raw[c.at]
			v.highest = max(v.highest, ratings[i])
		}
		v.score.Normalise(ratings)
		for i, c := range left {
			change := v.score.Weight * (ratings[i] - v.rated[c.at])
			c.fixed, c.total, v.rated[c.at] = c.fixed+change, c.total+change, ratings[i]
		}
		changed = true
	}
	return changed
}

// countIn has the ratings that depend on the pods of all nodes count the one that a candidate has taken, and whether it takes others.
func (r *round) countIn(c *candidate, fits bool) {
	for _, s := range r.shared {
		s.rating.Place(c.at)
		if !fits {
			s.rating.Leave(c.at)
		}
	}
	if len(r.shared) > 0 {
		r.share()
	}
}

// nowhere says of each pod why it goes to no node.
func (r *round) nowhere(pods []*corev1.Pod) []Placement {
	r.meter = nil // nodes are asked again for the sake of what is said
	placement := Placement{Message: r.message(), Refusers: r.refusers(), Ahead: r.aheadBy, Fault: r.fault() != ""}
	if !placement.Fault {
		placement.Release = r.release()
	}
	placements := make([]Placement, 0, len(pods))
	for _, pod := range pods {
		placement.Pod = pod
		placements = append(placements, placement)
	}
	return placements
}

// refusers are the filters that were the first to refuse a node, by name.
func (r *round) refusers() []string {
	if r.ahead != "" {
		return nil
	}
	var names []string
	if r.askedCount() < len(r.snapshot.Nodes) {
		names = append(names, r.namedBy)
	}
	for i := range r.asked() {
		if refused, _ := r.refusal(r.snapshot.Nodes[i]); refused != nil && !slices.Contains(names, refused.by) {
			names = append(names, refused.by)
		}
	}
	slices.Sort(names)
	return names
}

// choose has every chooser choose on a node that passed, and what they chose count for the next pod.
func (r *round) choose(node *cluster.Node, choice *filter.Choice) error {
	for _, c := range r.choosers {
		if err := c.Choose(node, choice); err != nil {
			return err
		}
	}
	if choice.Volumes != nil {
		r.snapshot.Storage = r.snapshot.Storage.With(choice.Volumes)
	}
	if choice.Devices != nil {
		r.snapshot.Devices = r.snapshot.Devices.With(choice.Devices)
	}
	return nil
}

// release returns the claim whose devices are to be given back now that no node passed, nil for none.
func (r *round) release() *resourcev1.ResourceClaim {
	for _, c := range r.checks {
		if releaser, ok := c.check.(filter.Releaser); ok {
			return releaser.Release()
		}
	}
	return nil
}

// message counts the nodes by reason: "0/2 nodes are available: 1
// Insufficient cpu, 1 node(s) were unschedulable."
func (r *round) message() string {
	if why := r.fault(); why != "" {
		return why
	}
	if len(r.snapshot.Nodes) == 0 {
		return "no nodes available to schedule pods"
	}
	if r.ahead != "" {
		return fmt.Sprintf("0/%d nodes are available: %s.", len(r.snapshot.Nodes), r.ahead)
	}
	counts := map[string]int{}
	if others := len(r.snapshot.Nodes) - r.askedCount(); others > 0 {
		counts[fmt.Sprintf("node(s) didn't satisfy plugin(s) [%s]", r.namedBy)] = others
	}
	for i := range r.asked() {
		if refused, as := r.refusal(r.snapshot.Nodes[i]); refused != nil {
			for _, reason := range refused.check.Explain(as) {
				counts[reason]++
			}
		}
	}
	return Unavailable(len(r.snapshot.Nodes), counts)
}

// Unavailable says of how many of all nodes which reasons hold.
func Unavailable(nodes int, counts map[string]int) string {
	reasons := make([]string, 0, len(counts))
	for reason, count := range counts {
		reasons = append(reasons, fmt.Sprintf("%d %s", count, reason))
	}
	slices.Sort(reasons)
	return fmt.Sprintf("0/%d nodes are available: %s.", nodes, strings.Join(reasons, ", "))
}
