package nodelifecycle

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	nodetopology "k8s.io/component-helpers/node/topology"
)

// Rates say how fast nodes of a zone may be emptied.
type Rates struct {
	Normal    float64 // nodes a second in a healthy zone
	Secondary float64 // where Unhealthy of the zone or more is not ready
	Unhealthy float64 // share of a zone, 0 to 1
	Large     int     // up to so many nodes, an unhealthy zone is not emptied at all
}

// zoneOf is the failure domain of a node, as Kubernetes' metrics name it; "" where it has none.
func zoneOf(n *corev1.Node) string { return nodetopology.GetZoneKey(n) }

// labelExcluded is the label of nodes that say nothing about the health of their zone, whatever its value.
const labelExcluded = "node.kubernetes.io/exclude-disruption"

// count is how many nodes a zone has.
type count struct{ ready, all int }

// zones limits evictions a zone. It is not safe for concurrent use.
type zones struct {
	rates  Rates
	rate   map[string]float64   // nodes a second, by zone
	next   map[string]time.Time // when the zone's next node may be emptied
	halted bool                 // no zone has a ready node: the fault is likely here
}

func newZones(rates Rates) *zones {
	return &zones{rates: rates, rate: map[string]float64{}, next: map[string]time.Time{}}
}

// observe sets the rates from the nodes' readiness; silent are those whose conditions no longer count. It returns the zones that there are,
// and those that are no longer.
func (z *zones) observe(nodes []*corev1.Node, silent map[string]bool) (counts map[string]count, gone []string) {
	counts = map[string]count{}
	for _, n := range nodes {
		if _, excluded := n.Labels[labelExcluded]; excluded {
			continue
		}
		c := counts[zoneOf(n)]
		c.all++
		if readiness(n) == corev1.ConditionTrue && !silent[n.Name] {
			c.ready++
		}
		counts[zoneOf(n)] = c
	}
	z.halted = len(counts) > 0
	for name := range z.rate {
		if _, ok := counts[name]; !ok {
			gone = append(gone, name)
		}
	}
	clear(z.rate)
	for name, c := range counts {
		if c.ready > 0 {
			z.halted = false
		}
		z.rate[name] = z.rates.of(c.ready, c.all)
	}
	for name := range z.next {
		if _, ok := counts[name]; !ok {
			delete(z.next, name)
		}
	}
	return counts, gone
}

// of returns a zone's rate. A zone of which nothing is left is emptied at
// the normal rate, as long as other zones live; one that is ill in part is
// likely cut off in part, and its pods are left alone for longer.
func (r Rates) of(ready, all int) float64 {
	sick := all - ready
	switch {
	case ready == 0:
		return r.Normal
	case sick > 2 && float64(sick)/float64(all) >= r.Unhealthy:
		if all > r.Large {
			return r.Secondary
		}
		return 0
	}
	return r.Normal
}

// allow takes one eviction from the zone's budget, or says when to ask again.
func (z *zones) allow(zone string, now time.Time) (ok bool, after time.Duration) {
	const later = 5 * time.Second // the state of the zone may change by then
	rate, known := z.rate[zone]
	if !known {
		rate = z.rates.Normal // all of its nodes are excluded
	}
	if z.halted || rate <= 0 {
		return false, later
	}
	if next := z.next[zone]; now.Before(next) {
		return false, min(next.Sub(now), later)
	}
	z.next[zone] = now.Add(time.Duration(float64(time.Second) / rate))
	return true, 0
}
