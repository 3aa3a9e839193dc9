package deployment

import (
	"math"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
)

// resized says whether the Deployment's size has changed since its sets were
// sized: that is shared out among them before any roll-out goes on.
func (r *rollout) resized() bool {
	for _, s := range r.active() {
		n, err := strconv.Atoi(s.rs.Annotations[desiredAnnotation])
		if err == nil && int32(n) != want(r.d) {
			return true
		}
	}
	return false
}

// active are the sets that ask for replicas.
func (r *rollout) active() []*set {
	return slices.DeleteFunc(slices.Clone(r.all()), func(s *set) bool { return s.size() == 0 })
}

// resize shares the Deployment's size out. One set takes all of it; several,
// in the middle of a roll-out, grow or shrink in proportion to their sizes.
func (r *rollout) resize() {
	active := r.active()
	switch {
	case len(active) == 0 && r.new != nil:
		r.scale(r.new, want(r.d))
		return
	case len(active) == 0 && len(r.old) > 0:
		r.scale(r.old[len(r.old)-1], want(r.d))
		return
	case len(active) == 1:
		r.scale(active[0], want(r.d))
		r.stampSize(active[0])
		return
	}
	if r.saturated() {
		for _, s := range r.old {
			r.scale(s, 0)
		}
		return
	}
	if r.d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		// Nothing is shared: the old sets end first. The new size is only noted.
		for _, s := range active {
			r.stampSize(s)
		}
		return
	}
	r.share(active)
}

// saturated says whether the new set alone gives all that is wanted.
func (r *rollout) saturated() bool {
	if r.new == nil {
		return false
	}
	n, err := strconv.Atoi(r.new.rs.Annotations[desiredAnnotation])
	return err == nil && r.new.size() == want(r.d) && int32(n) == want(r.d) &&
		r.new.rs.Status.AvailableReplicas == want(r.d)
}

// share grows or shrinks the sets in proportion, the largest first; what
// rounding leaves over goes to the first.
func (r *rollout) share(sets []*set) {
	surge, _ := bounds(r.d)
	allowed := int32(0)
	if want(r.d) > 0 {
		allowed = want(r.d) + surge
	}
	change := allowed - r.total()
	// Among equals a growth goes to the newest, a shrinkage takes from the oldest.
	slices.SortStableFunc(sets, func(a, b *set) int {
		if a.size() != b.size() {
			return int(b.size() - a.size())
		}
		if change > 0 {
			return byAge(b.rs, a.rs)
		}
		return byAge(a.rs, b.rs)
	})
	given := int32(0)
	sizes := make([]int32, len(sets))
	for i, s := range sets {
		sizes[i] = s.size()
		if change == 0 || change == given {
			continue
		}
		part := r.proportion(s)
		if change > 0 {
			part = max(0, min(part, change-given))
		} else {
			part = min(0, max(part, change-given))
		}
		sizes[i] += part
		given += part
	}
	if len(sizes) > 0 {
		sizes[0] = max(0, sizes[0]+change-given)
	}
	for i, s := range sets {
		r.scale(s, sizes[i])
		r.stampSize(s)
	}
}

// proportion is how much a set should grow (or, negative, shrink) to keep its
// share of the Deployment.
func (r *rollout) proportion(s *set) int32 {
	if want(r.d) == 0 {
		return -s.size()
	}
	surge, _ := bounds(r.d)
	was, err := strconv.Atoi(s.rs.Annotations[maxAnnotation])
	if err != nil || was <= 0 {
		was = int(r.d.Status.Replicas)
	}
	if was <= 0 {
		return 0
	}
	size := float64(s.size()) * float64(want(r.d)+surge) / float64(was)
	return int32(math.Round(size)) - s.size()
}
