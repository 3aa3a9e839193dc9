package daemonset

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// roll plans the next step from old pods to updated ones.
func (d *daemons) roll(p *Plan) {
	surge, unavailable := d.bounds()
	if surge > 0 {
		d.rollSurging(p, surge)
	} else {
		d.rollReplacing(p, unavailable)
	}
}

// bounds are how many nodes may have a second pod, and how many may be without an available one. One of them is not 0, or
// nothing would ever roll.
func (d *daemons) bounds() (surge, unavailable int) {
	r := d.set.Spec.UpdateStrategy.RollingUpdate
	if r == nil {
		return 0, 1
	}
	surge, unavailable = scaled(r.MaxSurge, d.desired), scaled(r.MaxUnavailable, d.desired)
	if surge == 0 && unavailable == 0 {
		unavailable = 1
	}
	return surge, unavailable
}

// surges says whether the set may have two pods on a node, however many nodes there are.
func (d *daemons) surges() bool {
	u := d.set.Spec.UpdateStrategy
	return u.Type == appsv1.RollingUpdateDaemonSetStrategyType && u.RollingUpdate != nil && scaled(u.RollingUpdate.MaxSurge, 1) > 0
}

// scaled is the number, or the percentage of total rounded up. Validation refuses what is neither.
func scaled(v *intstr.IntOrString, total int) int {
	if v == nil {
		return 0
	}
	n, err := intstr.GetScaledValueFromIntOrPercent(v, total, true)
	if err != nil {
		return 0
	}
	return n
}

// versions returns the updated and the old pod of a node; pods on their way out are neither. Where there are more than one of a kind,
// which tend brings to an end, ok is false.
func (d *daemons) versions(s site) (updated, old *corev1.Pod, ok bool) {
	for _, p := range s.pods {
		if p.DeletionTimestamp != nil {
			continue
		}
		of := &old
		if d.updated(p) {
			of = &updated
		}
		if *of != nil {
			return nil, nil, false
		}
		*of = p
	}
	return updated, old, true
}

// rollReplacing plans the deletion of old pods; their nodes get updated ones when they have gone. Old pods that are not
// available can go at once, since nobody will miss them; of the others as many as leave no more than limit nodes without an available pod.
func (d *daemons) rollReplacing(p *Plan, limit int) {
	var candidates []*corev1.Pod
	unavailable := 0
	for _, s := range d.sites {
		updated, old, ok := d.versions(s)
		switch {
		case !ok, (updated == nil) == (old == nil):
			unavailable++
		case updated != nil:
			if !d.available(updated) {
				unavailable++
			}
		case !d.available(old):
			p.Delete = append(p.Delete, old)
			unavailable++
		default:
			candidates = append(candidates, old)
		}
	}
	p.Delete = append(p.Delete, candidates[:room(limit, unavailable, len(candidates))]...)
}

// rollSurging plans updated pods beside old ones, on at most limit nodes whose old pod is available, and the deletion of an old pod when
// the updated one is available. Old pods on nodes that should have none any more go when other nodes make up for them.
func (d *daemons) rollSurging(p *Plan, limit int) {
	var (
		candidates       []string
		leaving          []*corev1.Pod
		surge, available int
	)
	for _, s := range d.sites {
		updated, old, ok := d.versions(s)
		if !ok {
			surge++
			continue
		}
		if serving := first(old, updated); serving != nil && d.available(serving) {
			available++
		}
		switch {
		case old == nil:
		case updated != nil && d.available(updated):
			p.Delete = append(p.Delete, old)
		case updated != nil:
			surge++
		case !s.Run && !d.available(old):
			p.Delete = append(p.Delete, old)
		case !s.Run:
			leaving = append(leaving, old)
		case !d.available(old):
			p.Create = append(p.Create, s.name)
		default:
			candidates = append(candidates, s.name)
		}
	}
	p.Delete = append(p.Delete, leaving[:room(available, d.desired, len(leaving))]...)
	p.Create = append(p.Create, candidates[:room(limit, surge, len(candidates))]...)
}

// first returns the first pod that there is, or nil.
func first(pods ...*corev1.Pod) *corev1.Pod {
	for _, p := range pods {
		if p != nil {
			return p
		}
	}
	return nil
}

// room is how many of n may go on, where limit may and some do already.
func room(limit, some, n int) int { return min(n, max(0, limit-some)) }
