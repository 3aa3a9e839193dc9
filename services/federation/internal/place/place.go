// Package place decides which clusters have how much of an object. It is pure: what is there and the time go in, shares come out.
package place

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/ptr"

	"howdah.dev/services/federation/api"
)

// Template is what has to be known of the object that is placed.
type Template struct {
	GroupVersion, Kind string
	// Replicas are how many it has; nil for what has none, which is never divided.
	Replicas *int32
	// Requests are what one replica asks for.
	Requests api.Resources
}

// Input is what a decision follows from.
type Input struct {
	Policy   *api.PolicySpec
	Clusters []*api.Cluster
	Template Template
	// Placed are the shares as they were decided last.
	Placed []api.Share
	Now    time.Time
}

// Plan is a decision.
type Plan struct {
	// Shares are by name. What is divided sums up to the replicas of the template, unless Reason says why it does not.
	Shares []api.Share
	// Refused says why clusters that the policy selects are not taken.
	Refused map[string]string
	// Lost are clusters that had a share and lost it because they are not ready.
	Lost []string
	// Reason and Message say why nothing, or too little, is placed; empty where all is well.
	Reason, Message string
	// After is when time alone may change the decision; 0: it does not.
	After time.Duration
}

// Reasons.
const (
	NoClusters     = "NoClusters"
	TooFewClusters = "TooFewClusters"
)

// Place decides.
func Place(in Input) Plan {
	p := planner{Input: in, plan: Plan{Refused: map[string]string{}}, had: map[string]*int32{}}
	for _, s := range in.Placed {
		p.had[s.Name] = s.Replicas
	}
	taken := p.choose()
	p.divide(taken)
	slices.SortFunc(p.plan.Shares, func(a, b api.Share) int { return cmp.Compare(a.Name, b.Name) })
	slices.Sort(p.plan.Lost)
	return p.plan
}

type planner struct {
	Input
	plan Plan
	had  map[string]*int32 // by cluster; present: it is placed there
}

// candidate is a cluster that may be taken.
type candidate struct {
	cluster *api.Cluster
	placed  bool
	room    int64 // replicas that would fit beside what is there
	weight  int64
}

// choose returns the clusters that are taken.
func (p *planner) choose() []candidate {
	var taken, lost []candidate
	for _, c := range p.Clusters {
		if !Selects(p.Policy.Placement.ClusterTarget, c) || slices.Contains(p.Policy.Placement.Exclude, c.Name) {
			continue
		}
		_, placed := p.had[c.Name]
		k := candidate{cluster: c, placed: placed, room: room(c, p.Template.Requests), weight: p.weight(c)}
		why, gone := p.refuses(k)
		switch {
		case why == "":
			taken = append(taken, k)
		default:
			p.plan.Refused[c.Name] = why
			if gone && placed {
				lost = append(lost, k)
			}
		}
	}
	if len(taken) == 0 && len(lost) > 0 {
		// No cluster is there to take over: what can be had is that all is in place when one of them returns.
		taken, lost = lost, nil
		for _, k := range taken {
			delete(p.plan.Refused, k.cluster.Name)
		}
		p.plan.Reason, p.plan.Message = NoClusters, "no cluster is ready to take over from those that are not"
	}
	for _, k := range lost {
		p.plan.Lost = append(p.plan.Lost, k.cluster.Name)
	}
	if minimum := int(p.Policy.Placement.MinClusters); len(taken) < minimum {
		p.plan.Reason, p.plan.Message = TooFewClusters, fmt.Sprintf("%d of at least %d clusters can be taken%s", len(taken), minimum, p.reasons())
		taken = slices.DeleteFunc(taken, func(k candidate) bool { return !k.placed })
	}
	slices.SortFunc(taken, func(a, b candidate) int {
		if a.placed != b.placed {
			if a.placed {
				return -1
			}
			return 1
		}
		return cmp.Or(-cmp.Compare(a.room, b.room), cmp.Compare(a.cluster.Name, b.cluster.Name))
	})
	if most := int(p.Policy.Placement.MaxClusters); most > 0 && len(taken) > most {
		for _, k := range taken[most:] {
			p.plan.Refused[k.cluster.Name] = "maxClusters others are taken"
		}
		taken = taken[:most]
	}
	if len(taken) == 0 && p.plan.Reason == "" {
		p.plan.Reason, p.plan.Message = NoClusters, "no cluster can be taken"+p.reasons()
	}
	return taken
}

// reasons are those of the refusals, for people.
func (p *planner) reasons() string {
	var each []string
	for name, why := range p.plan.Refused {
		each = append(each, name+": "+why)
	}
	if len(each) == 0 {
		return ""
	}
	slices.Sort(each)
	return " (" + strings.Join(each, "; ") + ")"
}

// refuses says why a cluster is not taken, "" where it is; gone says that it is because it is not ready.
func (p *planner) refuses(k candidate) (why string, gone bool) {
	c := k.cluster
	if c.DeletionTimestamp != nil {
		return "it leaves the federation", false
	}
	if t := untolerated(c.Spec.Taints, p.Policy.Placement.Tolerations, k.placed); t != nil {
		return fmt.Sprintf("the taint %s:%s is not tolerated", t.Key, t.Effect), false
	}
	if k.weight == 0 && p.divided() {
		return "it has no weight", false
	}
	ready, since := c.ReadySince()
	age := p.Now.Sub(since)
	switch {
	case k.placed && ready:
		return "", false
	case k.placed:
		tolerated := seconds(p.Policy.Failover.TolerationSeconds)
		if age >= tolerated {
			return "it is not ready", true
		}
		p.again(tolerated - age)
		return "", false
	case !ready:
		return "it is not ready", false
	}
	if !c.Serves(p.Template.GroupVersion, p.Template.Kind) {
		return fmt.Sprintf("it does not serve %s %s", p.Template.GroupVersion, p.Template.Kind), false
	}
	// What is elsewhere moves only to a cluster that has been ready for a while: one that comes and goes gets nothing.
	if stable := seconds(p.Policy.Failover.ReturnSeconds); age < stable && p.anyHeld() {
		p.again(stable - age)
		return "it is ready since a short time only", false
	}
	return "", false
}

// anyHeld reports whether one of the clusters where the object is keeps its place, so that there is time to wait for others to be stable.
func (p *planner) anyHeld() bool {
	return slices.ContainsFunc(p.Clusters, func(c *api.Cluster) bool {
		if _, placed := p.had[c.Name]; !placed || !Selects(p.Policy.Placement.ClusterTarget, c) || slices.Contains(p.Policy.Placement.Exclude, c.Name) {
			return false
		}
		why, _ := p.refuses(candidate{cluster: c, placed: true, weight: p.weight(c)})
		return why == ""
	})
}

// again asks to be called when time alone may change the decision.
func (p *planner) again(after time.Duration) {
	if p.plan.After == 0 || after < p.plan.After {
		p.plan.After = after
	}
}

// defaultSeconds are those of the failover where a policy has none; the definitions have the same.
const defaultSeconds = 60

func seconds(s *int64) time.Duration {
	return time.Duration(ptr.Deref(s, defaultSeconds)) * time.Second
}

// divided reports whether the replicas are divided.
func (p *planner) divided() bool {
	return p.Policy.Replicas.Mode == api.Divided && p.Template.Replicas != nil
}

// weight is the cluster's, where weights count; 1 where they do not.
func (p *planner) weight(c *api.Cluster) int64 {
	r := p.Policy.Replicas
	if r.Division == api.Available || len(r.Weights) == 0 {
		return 1
	}
	for _, w := range r.Weights {
		if Selects(w.ClusterTarget, c) {
			return int64(w.Weight)
		}
	}
	return 0
}

// divide gives the clusters that are taken their shares.
func (p *planner) divide(taken []candidate) {
	if !p.divided() {
		for _, k := range taken {
			p.plan.Shares = append(p.plan.Shares, api.Share{Name: k.cluster.Name})
		}
		return
	}
	parts := make([]Part, 0, len(taken))
	for _, k := range taken {
		parts = append(parts, Part{Name: k.cluster.Name, Weight: k.weight, Room: k.room, Has: int64(ptr.Deref(p.had[k.cluster.Name], 0))})
	}
	by := ByWeight
	if p.Policy.Replicas.Division == api.Available {
		by = ByRoom
	}
	for i, n := range by(int64(*p.Template.Replicas), parts) {
		p.plan.Shares = append(p.plan.Shares, api.Share{Name: parts[i].Name, Replicas: ptr.To(int32(n))})
	}
}
