package deployment

import (
	"cmp"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// rollout is a plan in the making.
type rollout struct {
	d       *appsv1.Deployment
	now     time.Time
	running map[string]bool

	new *set   // has the Deployment's template; nil until it is found or made
	old []*set // all others, oldest first

	conditions []appsv1.DeploymentCondition // as of the plan so far
	status     appsv1.DeploymentStatus
	revision   string
	events     []Event
	delete     []*appsv1.ReplicaSet
	after      time.Duration
}

// set is a ReplicaSet of the plan: rs is the cached object until edit has
// made it a copy.
type set struct {
	rs      *appsv1.ReplicaSet
	created bool // does not exist yet
	edited  bool
}

func newRollout(d *appsv1.Deployment, seen Observed, now time.Time) *rollout {
	r := &rollout{d: d, now: now, running: seen.Running, conditions: slices.Clone(d.Status.Conditions)}
	sorted := slices.Clone(seen.Sets)
	slices.SortFunc(sorted, byAge)
	for _, rs := range sorted {
		s := &set{rs: rs}
		// Of several sets with the same template the oldest is the new one.
		if r.new == nil && sameTemplate(&rs.Spec.Template, &d.Spec.Template) {
			r.new = s
		} else {
			r.old = append(r.old, s)
		}
	}
	return r
}

func byAge(a, b *appsv1.ReplicaSet) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
}

// all returns every set that exists or is being made.
func (r *rollout) all() []*set {
	if r.new == nil {
		return r.old
	}
	return append(slices.Clone(r.old), r.new)
}

// total is the number of replicas that all sets together ask for.
func (r *rollout) total() int32 {
	var n int32
	for _, s := range r.all() {
		n += s.size()
	}
	return n
}

func (r *rollout) finish() Plan {
	p := Plan{Delete: r.delete, Revision: r.revision, Status: r.status, Events: r.events, After: r.after}
	for _, s := range r.all() {
		switch {
		case s.created:
			p.Create = s.rs
		case s.edited:
			p.Update = append(p.Update, s.rs)
		}
	}
	return p
}

// edit returns the set for changing.
func (s *set) edit() *appsv1.ReplicaSet {
	if !s.edited && !s.created {
		s.rs = s.rs.DeepCopy()
	}
	s.edited = true
	return s.rs
}

// annotate sets an annotation if it differs.
func (s *set) annotate(key, value string) {
	if s.rs.Annotations[key] == value {
		if _, ok := s.rs.Annotations[key]; ok {
			return
		}
	}
	rs := s.edit()
	if rs.Annotations == nil {
		rs.Annotations = map[string]string{}
	}
	rs.Annotations[key] = value
}

// size is the number of replicas that the set asks for.
func (s *set) size() int32 {
	if s.rs.Spec.Replicas == nil {
		return 1
	}
	return *s.rs.Spec.Replicas
}

// available is the number of pods that serve and will stay. A status that is
// behind a scale-down still counts pods that are about to go; they do not help.
func (s *set) available() int32 {
	return min(s.rs.Status.AvailableReplicas, s.size())
}

// want is the number of replicas that the Deployment asks for.
func want(d *appsv1.Deployment) int32 {
	if d.Spec.Replicas == nil {
		return 1
	}
	return *d.Spec.Replicas
}

// bounds returns maxSurge and maxUnavailable in pods. Percentages round the
// surge up and the unavailable down; where both come to 0, one pod may be
// unavailable, or nothing could ever move.
func bounds(d *appsv1.Deployment) (surge, unavailable int32) {
	u := d.Spec.Strategy.RollingUpdate
	if d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		return 0, 0
	}
	quarter := intstr.FromString("25%")
	maxSurge, maxUnavailable := &quarter, &quarter
	if u != nil && u.MaxSurge != nil {
		maxSurge = u.MaxSurge
	}
	if u != nil && u.MaxUnavailable != nil {
		maxUnavailable = u.MaxUnavailable
	}
	// Validation has refused what does not parse; 0 is the careful reading.
	up, _ := intstr.GetScaledValueFromIntOrPercent(maxSurge, int(want(d)), true)
	down, _ := intstr.GetScaledValueFromIntOrPercent(maxUnavailable, int(want(d)), false)
	if up == 0 && down == 0 {
		down = 1
	}
	return int32(up), min(int32(down), want(d))
}
