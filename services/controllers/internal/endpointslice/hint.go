package endpointslice

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"howdah.dev/services/controllers/internal/pack"
)

// Event is one about the service.
type Event struct{ Type, Reason, Message string }

// overload is by how much the endpoints of a zone may have more to do than others because traffic stays in it.
const overload = 0.2

// hint says of each ready endpoint for which zones, or nodes, it is, as the service asks for: by its annotation topology-mode, else by its
// trafficDistribution.
func hint(s *corev1.Service, groups map[string]*pack.Group, seen Observed) (events []Event) {
	if auto(s) {
		return byCPU(groups, seen)
	}
	if d := s.Spec.TrafficDistribution; d != nil {
		for _, g := range groups {
			for i := range g.Endpoints {
				g.Endpoints[i].Hints = near(&g.Endpoints[i], *d)
			}
		}
	}
	return nil
}

// auto reports whether a service asks for hints by the CPUs of zones.
func auto(s *corev1.Service) bool {
	mode, ok := s.Annotations[corev1.DeprecatedAnnotationTopologyAwareHints]
	if !ok {
		mode = s.Annotations[corev1.AnnotationTopologyMode]
	}
	return mode == "Auto" || mode == "auto"
}

// near are the hints of an endpoint for those in its zone, or on its node as well; nil where it has none, or is not ready.
func near(e *discoveryv1.Endpoint, distribution string) *discoveryv1.EndpointHints {
	if !*e.Conditions.Ready {
		return nil
	}
	var hints discoveryv1.EndpointHints
	switch distribution {
	case corev1.ServiceTrafficDistributionPreferSameNode:
		if e.NodeName != nil {
			hints.ForNodes = []discoveryv1.ForNode{{Name: *e.NodeName}}
		}
	case corev1.ServiceTrafficDistributionPreferClose, corev1.ServiceTrafficDistributionPreferSameZone:
	default:
		return nil
	}
	if e.Zone != nil {
		hints.ForZones = []discoveryv1.ForZone{{Name: *e.Zone}}
	}
	if len(hints.ForZones)+len(hints.ForNodes) == 0 {
		return nil
	}
	return &hints
}

// byCPU shares the endpoints of each family out to the zones by the CPUs that these have, most of them to their own. Where that cannot be done well
// enough, there are no hints.
func byCPU(groups map[string]*pack.Group, seen Observed) (events []Event) {
	shares, why := cpuShares(seen.Nodes())
	families := map[discoveryv1.AddressType][]*discoveryv1.Endpoint{}
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		g := groups[key]
		families[g.Family] = append(families[g.Family], readyOf(g)...)
	}
	for _, family := range slices.Sorted(maps.Keys(families)) {
		ready := families[family]
		slices.SortStableFunc(ready, func(a, b *discoveryv1.Endpoint) int { return cmp.Compare(a.Addresses[0], b.Addresses[0]) })
		no := why
		if no == "" {
			no = share(ready, shares)
		}
		told := ", addressType: " + string(family)
		switch {
		case no != "":
			events = append(events, Event{corev1.EventTypeWarning, "TopologyAwareHintsDisabled", no + told})
		case !hinted(seen.Slices, family):
			events = append(events, Event{corev1.EventTypeNormal, "TopologyAwareHintsEnabled", "Topology Aware Hints has been enabled" + told})
		}
	}
	return events
}

func readyOf(g *pack.Group) (ready []*discoveryv1.Endpoint) {
	for i := range g.Endpoints {
		if *g.Endpoints[i].Conditions.Ready {
			ready = append(ready, &g.Endpoints[i])
		}
	}
	return ready
}

// hinted reports whether an endpoint of a family has a hint.
func hinted(existing []*discoveryv1.EndpointSlice, family discoveryv1.AddressType) bool {
	return slices.ContainsFunc(existing, func(s *discoveryv1.EndpointSlice) bool {
		return s.AddressType == family && slices.ContainsFunc(s.Endpoints, func(e discoveryv1.Endpoint) bool { return e.Hints != nil })
	})
}

// cpuShares is which share of the CPUs of ready nodes each zone has; or why that cannot be said.
func cpuShares(nodes []*corev1.Node) (shares map[string]float64, why string) {
	const unknown = "Insufficient Node information: allocatable CPU or zone not specified on one or more nodes"
	shares, all := map[string]float64{}, 0.0
	for _, n := range nodes {
		zone, cpu, counts := cpuOf(n)
		if !counts {
			continue
		}
		if zone == "" || cpu == 0 {
			return nil, unknown
		}
		shares[zone] += cpu
		all += cpu
	}
	if len(shares) < 2 {
		return nil, unknown
	}
	for zone := range shares {
		shares[zone] /= all
	}
	return shares, ""
}

// cpuOf is what a node adds to its zone; it does not count where it is not ready, or is for the control plane.
func cpuOf(n *corev1.Node) (zone string, milli float64, counts bool) {
	_, plane := n.Labels["node-role.kubernetes.io/control-plane"]
	_, master := n.Labels["node-role.kubernetes.io/master"]
	ready := slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
	return n.Labels[corev1.LabelTopologyZone], float64(n.Status.Allocatable.Cpu().MilliValue()), ready && !plane && !master
}

// sameCPU reports whether two states of a node add the same.
func sameCPU(a, b *corev1.Node) bool {
	zoneA, cpuA, countsA := cpuOf(a)
	zoneB, cpuB, countsB := cpuOf(b)
	return zoneA == zoneB && cpuA == cpuB && countsA == countsB
}

// share gives each endpoint its hint; or says why none has one.
func share(ready []*discoveryv1.Endpoint, shares map[string]float64) (why string) {
	count := fmt.Sprintf(" (%d endpoints, %d zones)", len(ready), len(shares))
	if len(ready) < len(shares) {
		return "Insufficient number of endpoints" + count
	}
	zones := slices.Sorted(maps.Keys(shares))
	over, left := map[string]float64{}, len(ready) // how many more than it should a zone has; fewer are negative
	for _, zone := range zones {
		wanted := shares[zone] * float64(len(ready))
		least := math.Ceil(wanted / (1 + overload))
		if left -= int(least); left < 0 {
			return "Unable to allocate minimum required endpoints to each zone without exceeding overload threshold" + count
		}
		over[zone] = -max(wanted, least)
	}
	for _, e := range ready {
		if e.Zone == nil {
			return "One or more endpoints do not have a zone specified"
		}
		over[*e.Zone]++
	}
	moves := exchange(over)
	for _, e := range ready {
		zone := *e.Zone
		if to := moves[zone]; len(to) > 0 {
			moves[zone], zone = to[1:], to[0]
		}
		e.Hints = &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: zone}}}
	}
	return ""
}

// exchange says to which zones others, by their name, give endpoints: always the one that has the most too many to the one that lacks most, as long as that is
// worth it.
func exchange(over map[string]float64) map[string][]string {
	moves, zones := map[string][]string{}, slices.Sorted(maps.Keys(over))
	for len(zones) > 0 {
		giver := slices.MaxFunc(zones, func(a, b string) int { return cmp.Compare(over[a], over[b]) })
		taker := slices.MinFunc(zones, func(a, b string) int { return cmp.Compare(over[a], over[b]) })
		gives, takes := over[giver], -over[taker]
		if gives < 0.5 || takes < 0.5 || gives < 1 && takes < 1 {
			break
		}
		over[giver]--
		over[taker]++
		moves[giver] = append(moves[giver], taker)
	}
	return moves
}
