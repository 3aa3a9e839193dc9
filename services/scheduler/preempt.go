package scheduler

import (
	"math/rand/v2"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	scheduling "k8s.io/component-helpers/scheduling/corev1"

	"howdah.dev/services/scheduler/internal/cluster"
	"howdah.dev/services/scheduler/internal/cycle"
	"howdah.dev/services/scheduler/internal/device"
	"howdah.dev/services/scheduler/internal/plugin"
	"howdah.dev/services/scheduler/internal/preempt"
)

// room is where a pod is to find room, and what has to go for that.
type room struct {
	node      string // kept for the pod; "" keeps none any more
	victims   []*corev1.Pod
	displaced []*corev1.Pod // nominees of lower priority that the node is no longer kept for
}

// verdict is why no room can be made for a pod, and for all that are like it.
type verdict struct {
	why   string // "" where room is made
	room  *room
	again bool // there is room that was not there when the pod was tried
}

// makeRoom looks for pods of lower priority that could make room for those that no node can take. The pods are alike, and wait for the same node if
// for any.
func (s *Server) makeRoom(decisions []decision) {
	var (
		budgets preempt.Budgets
		last    *verdict
	)
	if len(decisions) == 0 {
		return
	}
	profile := s.profiles.of(decisions[0].item.Pod)
	for i := range decisions {
		d := &decisions[i]
		if d.node != "" || d.failure {
			continue
		}
		if profile.FindsDevices() && d.ahead != "" && d.ahead != plugin.Devices {
			d.message += " not found" // what Kubernetes says of the claims of devices that it has not looked at, after which it looks for no room
			continue
		}
		if profile.Preemption == nil {
			if why := s.claimsWhy(profile, d); why != "" {
				d.message += " " + strings.TrimSuffix(why, ", ")
			}
			continue
		}
		if last == nil {
			budgets = preempt.NewBudgets(s.budgets.List(""))
		}
		s.metrics.preemptions.Inc()
		if last == nil || last.why == "" { // nothing has changed since the last one was refused
			began := s.cfg.Clock.Now()
			v := s.roomFor(d.item.Pod, profile, budgets)
			last = &v
			s.lookedForRoom(profile, v, s.cfg.Clock.Since(began))
		}
		if last.why != "" {
			d.message += " " + s.claimsWhy(profile, d) + "preemption: " + last.why
		}
		d.room, d.again = last.room, last.again
		if d.room != nil {
			s.nominate(d.item.Pod, d.room.node)
		}
	}
}

// claimsWhy says what became of the devices of a pod without a node, with the words that Kubernetes puts before those of preemption: also of a pod
// without any.
func (s *Server) claimsWhy(profile *profile, d *decision) string {
	view := s.cache.Devices.View()
	switch {
	case !profile.FindsDevices():
		return ""
	case !view.Uses(d.item.Pod):
		return "no new claims to deallocate, "
	case d.release != nil && device.IsSpecial(d.release):
		return "deletion of ResourceClaim completed, "
	case d.release != nil:
		return "deallocation of ResourceClaim completed, "
	case view.Refusal(d.item.Pod) != "":
		return "no new claims to deallocate, "
	}
	return "still not schedulable, "
}

// roomFor decides for one pod of a profile with preemption.
func (s *Server) roomFor(pod *corev1.Pod, profile *profile, budgets preempt.Budgets) verdict {
	leaving := s.leavingNow() // before the snapshot is taken, which tells of those that are no longer among them
	snapshot := s.cache.Snapshot()
	if len(snapshot.Nodes) == 0 {
		return verdict{}
	}
	trial := profile.Trial(pod, snapshot)
	kept := s.cache.Nomination(pod.UID)
	if why := ineligible(pod, snapshot.Node(kept), trial, leaving); why != "" {
		return verdict{why: why}
	}
	nodes := trial.Asked()
	if slices.ContainsFunc(nodes, trial.Fits) {
		return verdict{again: true}
	}
	best, reasons := preempt.Choose(pod, nodes, budgets, trial, *profile.Preemption, rand.IntN, s.cfg.Clock.Now())
	if best == nil {
		if others := len(snapshot.Nodes) - len(nodes); others > 0 {
			reasons[preempt.NotHelpful] += others
		}
		v := verdict{why: cycle.Unavailable(len(snapshot.Nodes), reasons)}
		if kept != "" || pod.Status.NominatedNodeName != "" {
			v.room = &room{}
		}
		return v
	}
	r := &room{node: best.Node, victims: best.Victims}
	for _, v := range best.Victims {
		if v.DeletionTimestamp == nil {
			s.leaving.Store(v.UID, nil)
		}
	}
	for _, n := range snapshot.Nominees[best.Node] {
		if scheduling.PodPriority(n.Pod) < scheduling.PodPriority(pod) {
			s.nominate(n.Pod, "")
			r.displaced = append(r.displaced, n.Pod)
		}
	}
	s.metrics.victims.Observe(float64(len(best.Victims)))
	return verdict{room: r}
}

// ineligible says why a pod may not have others removed, "" where it may: it does not want to, or those that it had removed from the node that is kept
// for it are still on their way out.
func ineligible(pod *corev1.Pod, kept *cluster.Node, trial preempt.Trial, leaving map[types.UID]bool) string {
	if p := pod.Spec.PreemptionPolicy; p != nil && *p == corev1.PreemptNever {
		return "not eligible due to preemptionPolicy=Never."
	}
	if kept == nil || !trial.Resolvable(kept) {
		return ""
	}
	for _, p := range preempt.Lower(pod, kept) {
		if leaving[p.UID] || p.DeletionTimestamp != nil && preempted(p) {
			return "not eligible due to a terminating pod on the nominated node."
		}
	}
	return ""
}

// leavingNow are the pods that were chosen to go, and of which the cache does not tell that they do.
func (s *Server) leavingNow() map[types.UID]bool {
	now := map[types.UID]bool{}
	s.leaving.Range(func(uid, _ any) bool {
		now[uid.(types.UID)] = true
		return true
	})
	return now
}

// preempted reports whether a pod has to go for the sake of another.
func preempted(pod *corev1.Pod) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.DisruptionTarget {
			return c.Status == corev1.ConditionTrue && c.Reason == corev1.PodReasonPreemptionByScheduler
		}
	}
	return false
}

// takeBack keeps for pods the nodes that their statuses name: a decision could not be written.
func (s *Server) takeBack(d decision) {
	if d.room == nil {
		return
	}
	for _, v := range d.room.victims {
		s.leaving.Delete(v.UID)
	}
	for _, p := range append([]*corev1.Pod{d.item.Pod}, d.room.displaced...) {
		s.nominate(p, p.Status.NominatedNodeName)
	}
}

// nominate keeps a node for a pod that waits, "" none. What the informer has seen go meanwhile keeps nothing; what goes from now on, its handler
// forgets.
func (s *Server) nominate(pod *corev1.Pod, node string) {
	s.cache.Nominate(pod, node)
	if now, ok := s.pods.Get(pod.Namespace, pod.Name); !ok || now.UID != pod.UID || !s.waits(now) {
		s.cache.Nominate(pod, "")
	}
}
