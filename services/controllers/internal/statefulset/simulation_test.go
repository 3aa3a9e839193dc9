package statefulset

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
)

// cluster plays the API, the nodes and the users of a set. What the controller sees of its pods comes late.
type cluster struct {
	t    *testing.T
	rng  *rand.Rand
	set  *appsv1.StatefulSet
	old  Revision
	new  Revision
	now  time.Time
	pods map[string]*corev1.Pod // as they are
	seen map[string]*corev1.Pod // as the controller sees them
	late []change               // what it does not see yet, oldest first
	uids int
	// made and removed are the controller's writes that it has not seen yet: names, and uids.
	made    map[string]bool
	removed map[types.UID]bool
	log     []string
}

// change is a pod as it became; nil is gone.
type change struct {
	name string
	pod  *corev1.Pod
}

func newCluster(t *testing.T, seed uint64) *cluster {
	rng := rand.New(rand.NewPCG(seed, 7))
	c := &cluster{
		t: t, rng: rng, now: now, old: Revision{"r0", template("v0")}, new: Revision{"r0", template("v0")},
		pods: map[string]*corev1.Pod{}, seen: map[string]*corev1.Pod{}, made: map[string]bool{}, removed: map[types.UID]bool{},
	}
	c.set = newSet(int32(rng.IntN(6)), from(int32(rng.IntN(3))), partition(int32(rng.IntN(3))))
	if rng.IntN(2) == 0 {
		parallel(c.set)
	}
	if rng.IntN(3) == 0 {
		atMost(intstr.FromInt32(1 + int32(rng.IntN(3))))(c.set)
	}
	if rng.IntN(3) == 0 {
		c.set.Spec.MinReadySeconds = 3
	}
	return c
}

// write changes a pod, or removes it, and has the controller learn of it later.
func (c *cluster) write(name string, p *corev1.Pod) {
	if p == nil {
		delete(c.pods, name)
	} else {
		c.pods[name] = p
	}
	c.late = append(c.late, change{name, p})
}

func (c *cluster) edit(p *corev1.Pod, f func(*corev1.Pod)) {
	p = p.DeepCopy()
	f(p)
	c.write(p.Name, p)
}

// deliver lets the controller see the oldest change.
func (c *cluster) deliver() {
	if len(c.late) == 0 {
		return
	}
	e := c.late[0]
	c.late = c.late[1:]
	if e.pod == nil {
		if had := c.seen[e.name]; had != nil {
			delete(c.removed, had.UID)
		}
		delete(c.seen, e.name)
		return
	}
	c.seen[e.name] = e.pod
	delete(c.made, e.name)
	if e.pod.DeletionTimestamp != nil {
		delete(c.removed, e.pod.UID)
	}
}

func (c *cluster) observed() Observed {
	o := Observed{Claim: noClaims, Current: c.old, Update: c.new, Settled: len(c.made)+len(c.removed) == 0}
	for _, name := range sorted(c.seen) {
		o.Pods = append(o.Pods, c.seen[name])
	}
	return o
}

// reconcile runs the controller once, checks what it wants to do, and does it.
func (c *cluster) reconcile() {
	o := c.observed()
	plan := Decide(c.set, o, c.now)
	if what := told(plan); what != "" {
		c.log = append(c.log, what)
	}
	c.check(plan)
	for _, p := range plan.Create {
		if c.pods[p.Name] != nil {
			continue // the API refuses a second one
		}
		c.uids++
		p.UID = types.UID(fmt.Sprint(c.uids))
		p.Status.Phase = corev1.PodPending
		c.made[p.Name] = true
		c.write(p.Name, p)
	}
	for _, p := range slices.Concat(plan.End, plan.Delete) {
		if live := c.pods[p.Name]; live != nil && live.UID == p.UID && live.DeletionTimestamp == nil {
			c.removed[p.UID] = true
			c.edit(live, func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: c.now} })
		}
	}
	status, _ := Status(c.set, c.observed(), 0, c.now)
	if status.CurrentRevision == c.new.Name {
		c.old = c.new
	}
}

// check is what must never be, whatever the controller has yet to learn.
func (c *cluster) check(plan Plan) {
	w := newWalk(c.set, c.observed(), c.now)
	for _, p := range plan.Create {
		ordinal := w.ordinal(p)
		if c.seen[p.Name] != nil {
			c.fail("a second %s", p.Name)
		}
		if !wanted(c.set, ordinal) {
			c.fail("%s is not wanted", p.Name)
		}
		if place := ordinal - start(c.set); place < w.partition() && revisionOf(p) != c.old.Name {
			c.fail("%s is below the partition and gets a newer revision", p.Name)
		} else if place >= w.partition() && revisionOf(p) != c.new.Name {
			c.fail("%s is above the partition and gets an older revision", p.Name)
		}
		for lower := start(c.set); w.ordered && lower < ordinal; lower++ {
			if p := c.seen[podName(c.set, lower)]; p == nil || !w.healthy(p) {
				c.fail("%s comes before %d is healthy", podName(c.set, ordinal), lower)
			}
		}
	}
	renewed := c.checkDeleted(w, plan)
	ill := 0
	for _, p := range w.replicas {
		if p == nil || p.DeletionTimestamp != nil || !w.available(p) {
			ill++
		}
	}
	most := 1
	if n := c.set.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable; n != nil {
		most = max(n.IntValue()-ill, 0)
	}
	if renewed > most {
		c.fail("%d pods are renewed at once, %d may be", renewed, most)
	}
	if w.ordered && (len(plan.Create) > 1 || len(plan.End) > 1 || len(plan.Create)+len(plan.End) > 0 && len(plan.Delete) > 0) {
		c.fail("more than a step at a time")
	}
}

// checkDeleted returns how many pods are deleted for newer ones.
func (c *cluster) checkDeleted(w *walk, plan Plan) (renewed int) {
	for _, p := range plan.Delete {
		ordinal := w.ordinal(p)
		if !wanted(c.set, ordinal) {
			for _, other := range w.condemned {
				if w.ordered && w.ordinal(other) > ordinal {
					c.fail("%s goes before %s", p.Name, other.Name)
				}
			}
			continue
		}
		renewed++
		if ordinal-start(c.set) < w.partition() {
			c.fail("%s is below the partition and goes", p.Name)
		}
		if revisionOf(p) == c.new.Name {
			c.fail("%s is new and goes", p.Name)
		}
	}
	return renewed
}

func (c *cluster) fail(format string, args ...any) {
	c.t.Helper()
	c.t.Fatalf(format+"\nplans: %v\nseen: %s", append(args, c.log, c.picture(c.seen))...)
}

func (c *cluster) picture(pods map[string]*corev1.Pod) string {
	text := ""
	for _, name := range sorted(pods) {
		p := pods[name]
		text += fmt.Sprintf("%s:%s:%s(ready %s, ending %t) ", name, p.Status.Phase, revisionOf(p), readiness(p), p.DeletionTimestamp != nil)
	}
	return text
}

func readiness(p *corev1.Pod) corev1.ConditionStatus {
	if len(p.Status.Conditions) == 0 {
		return corev1.ConditionFalse
	}
	return p.Status.Conditions[0].Status
}

func (c *cluster) ready(is corev1.ConditionStatus) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: is, LastTransitionTime: metav1.NewTime(c.now)}}
	}
}

// kubelet takes a pod a step further to where it should be.
func (c *cluster) kubelet() {
	name := c.anyPod()
	if name == "" {
		return
	}
	p := c.pods[name]
	switch {
	case p.DeletionTimestamp != nil:
		c.write(name, nil)
	case p.Status.Phase == corev1.PodPending:
		c.edit(p, func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning })
	case p.Status.Phase == corev1.PodRunning && readiness(p) != corev1.ConditionTrue:
		c.edit(p, c.ready(corev1.ConditionTrue))
	}
}

// trouble is what nobody asked for.
func (c *cluster) trouble() {
	name := c.anyPod()
	if name == "" {
		return
	}
	p := c.pods[name]
	switch c.rng.IntN(4) {
	case 0:
		c.edit(p, func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed; c.ready(corev1.ConditionFalse)(p) })
	case 1:
		c.edit(p, c.ready(corev1.ConditionFalse))
	case 2:
		c.write(name, nil)
	case 3:
		c.edit(p, func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: c.now} })
	}
}

// user changes the set.
func (c *cluster) user() {
	c.set = c.set.DeepCopy()
	switch c.rng.IntN(4) {
	case 0:
		c.set.Spec.Replicas = ptr.To(int32(c.rng.IntN(6)))
	case 1:
		c.uids++
		c.new = Revision{fmt.Sprintf("r%d", c.uids), template(fmt.Sprint(c.uids))}
	case 2:
		c.set.Spec.Ordinals.Start = int32(c.rng.IntN(3))
	case 3:
		c.new = c.old // a roll-back
	}
}

func (c *cluster) anyPod() string {
	if len(c.pods) == 0 {
		return ""
	}
	return sorted(c.pods)[c.rng.IntN(len(c.pods))]
}

// done says whether the set is as its user wants it.
func (c *cluster) done() bool {
	if len(c.pods) != replicas(c.set) || len(c.late) > 0 {
		return false
	}
	for place := range replicas(c.set) {
		p := c.pods[podName(c.set, start(c.set)+place)]
		if p == nil || p.DeletionTimestamp != nil || p.Status.Phase != corev1.PodRunning || readiness(p) != corev1.ConditionTrue {
			return false
		}
		if place >= int(*c.set.Spec.UpdateStrategy.RollingUpdate.Partition) && revisionOf(p) != c.new.Name {
			return false
		}
	}
	return true
}

// TestInvariants: whatever happens to pods and sets, and however late the controller learns of it, it keeps to the order and to the
// partition and never makes a pod twice; and when the trouble is over, the set comes to be as it should.
func TestInvariants(t *testing.T) {
	t.Parallel()
	for seed := range uint64(400) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, seed)
			for range 400 {
				c.now = c.now.Add(time.Duration(c.rng.IntN(2)) * time.Second)
				switch n := c.rng.IntN(100); {
				case n < 30:
					c.reconcile()
				case n < 60:
					c.deliver()
				case n < 90:
					c.kubelet()
				case n < 97:
					c.trouble()
				default:
					c.user()
				}
			}
			for range 2000 {
				if c.done() {
					return
				}
				c.now = c.now.Add(time.Second)
				c.deliver()
				c.kubelet()
				c.reconcile()
			}
			c.fail("never done: %d replicas from %d on, pods %s", replicas(c.set), start(c.set), c.picture(c.pods))
		})
	}
}

func sorted[T any](m map[string]T) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
