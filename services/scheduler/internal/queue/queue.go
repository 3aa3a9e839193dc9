// Package queue holds the pods that wait for a node: the ones to try now, in
// order of priority, the ones in back-off, and the ones that no node can
// take until something changes.
package queue

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	scheduling "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/utils/clock"

	"howdah.dev/services/scheduler/internal/device"
	"howdah.dev/services/scheduler/internal/storage"
)

// A pod that nothing woke is tried again after idle, as in Kubernetes.
const idle = 5 * time.Minute

// remembered is how many wakes a pod that is being tried may miss before any of them counts as one for it.
const remembered = 64

// Backoffs are how long a pod waits after a failed attempt: First, then twice as long each time, up to Last.
type Backoffs struct{ First, Last time.Duration }

// DefaultBackoffs are Kubernetes'.
var DefaultBackoffs = Backoffs{First: time.Second, Last: 10 * time.Second}

// State says where a pod waits.
type State string

// Where pods wait.
const (
	Active        State = "active"
	Backoff       State = "backoff"
	Unschedulable State = "unschedulable"
	// Gated is for those that are not to be tried yet: only counts tell them from the unschedulable ones.
	Gated State = "gated"
)

// Item is a waiting pod.
type Item struct {
	Pod *corev1.Pod
	// Group is the same for pods that can be placed as one.
	Group uint64
	// Added is when the pod came; Attempts is how often it was tried.
	Added    time.Time
	Attempts int
	// Since is when it could first be tried: what it was held back before is not the scheduler's time.
	Since time.Time
	// Flushed says that nothing woke it for its last attempt.
	Flushed bool

	state  State
	ready  time.Time // end of the back-off, or of the idle wait
	taken  bool      // by Pop, until Fail or Delete
	wakes  int       // the queue's count of wakes when it was taken
	stores int       // and of changes of storage
	moves  int       // and of pods that others look at
	order  int       // among the pods that came at the same moment
	at     int       // in the heap of its group, or of those that wait
	eager  bool      // in back-off because something has changed: tried before its end where nothing else is to be done
	cause  string    // which filters refused it in the last attempt, as Fail was told
	blamed string    // the same for who counts, and which one refused it before any node was asked
	held   bool      // not to be tried before something of its claims changes
	self   *Item     // the queue's own, where this is the copy that Pop handed out
}

func (i *Item) place() *int { return &i.at }

// group is the active items that can be placed as one, the first that came
// on top.
type group struct {
	ordered[*Item]
	at int
}

func (g *group) place() *int { return &g.at }

// Queue is safe for concurrent use. Each operation costs the logarithm of
// how many wait, or one step for each item that it moves.
type Queue struct {
	clock    clock.WithTicker
	backoffs Backoffs
	signal   chan struct{}

	mu            sync.Mutex
	items         map[types.UID]*Item
	groups        map[uint64]*group
	active        ordered[*group] // the group to pop next on top
	waiting       ordered[*Item]  // those in back-off and unschedulable ones, the first that is ready on top
	eager         ordered[*Item]  // those in back-off that something has changed for, likewise
	unschedulable map[*Item]bool
	claiming      map[*Item]bool // the unschedulable ones that use claims, of volumes or of devices
	sociable      map[*Item]bool // and those that go where other pods are, or are not
	also          func(pod *corev1.Pod) bool
	own           func(was, is *corev1.Pod, cause string) bool
	gated         map[types.UID]string // the schedulers of pods with scheduling gates
	moved         map[Move]int
	told          []func(pod *corev1.Pod, cause string) bool // the last wakes, for pods that are being tried meanwhile
	// counters
	wakes, stores, moves, added int
}

// New returns an empty queue.
func New(clock clock.WithTicker, backoffs Backoffs) *Queue {
	return &Queue{
		clock: clock, backoffs: backoffs, signal: make(chan struct{}, 1), items: map[types.UID]*Item{}, groups: map[uint64]*group{},
		active:  ordered[*group]{before: func(a, b *group) bool { return sooner(a.first(), b.first()) }},
		waiting: ordered[*Item]{before: readier}, eager: ordered[*Item]{before: readier},
		unschedulable: map[*Item]bool{}, claiming: map[*Item]bool{}, sociable: map[*Item]bool{},
		gated: map[types.UID]string{}, moved: map[Move]int{},
	}
}

// AlsoSociable has the pods that match count among those that look at others, beside those that say so themselves. It is said before the first pod comes.
func (q *Queue) AlsoSociable(match func(pod *corev1.Pod) bool) { q.also = match }

// HeedOwn has a waiting pod be worth another try after a change of its own only where helps is true of what refused it. It is said before the first pod comes.
func (q *Queue) HeedOwn(helps func(was, is *corev1.Pod, cause string) bool) { q.own = helps }

// sooner says whether a is to be tried before b: by priority, then by age.
func sooner(a, b *Item) bool {
	return cmp.Or(cmp.Compare(scheduling.PodPriority(b.Pod), scheduling.PodPriority(a.Pod)),
		a.Added.Compare(b.Added), cmp.Compare(a.order, b.order)) < 0
}

// readier says whether the wait of a is over before that of b.
func readier(a, b *Item) bool { return a.ready.Before(b.ready) }

// Add adds a pod, or replaces it with its newest version. A change of a
// waiting pod's spec or labels makes it worth another try.
func (q *Queue) Add(pod *corev1.Pod, group uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	item, ok := q.items[pod.UID]
	if !ok {
		q.added++
		item = &Item{Pod: pod, Group: group, Added: q.clock.Now(), order: q.added, at: outside}
		q.items[pod.UID] = item
		q.activate(item, q.arrival(pod))
		return
	}
	changed := item.Group != group
	if changed && item.state == Active && !item.taken {
		q.withdraw(item)
		item.Pod, item.Group = pod, group
		q.activate(item, "")
		return
	}
	was := item.Pod
	item.Pod, item.Group = pod, group
	switch {
	case changed && item.taken:
		item.wakes = -1 // what is being tried is not the pod of now
	case changed && item.state == Unschedulable && (item.cause == "" || q.own == nil || q.own(was, pod, item.cause)):
		q.backOff(item, ChangeOf(was, pod))
	}
}

// Gate counts a pod that is not to be tried before its scheduling gates are gone.
func (q *Queue) Gate(pod *corev1.Pod) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, known := q.gated[pod.UID]; !known {
		q.gated[pod.UID] = pod.Spec.SchedulerName
		q.count(PodAdd, Unschedulable)
	}
}

// arrival is why a pod comes that was not there.
func (q *Queue) arrival(pod *corev1.Pod) Event {
	if _, gated := q.gated[pod.UID]; gated {
		delete(q.gated, pod.UID)
		return podUngated
	}
	return PodAdd
}

// Hold adds a pod that has no chance before something of its claims changes: other changes do not wake it. One that is there already it only
// replaces with its newest version, as Add does.
func (q *Queue) Hold(pod *corev1.Pod, group uint64) {
	q.mu.Lock()
	item, ok := q.items[pod.UID]
	if ok && !item.held {
		q.mu.Unlock()
		q.Add(pod, group)
		return
	}
	defer q.mu.Unlock()
	if ok {
		item.Pod, item.Group = pod, group
		return
	}
	q.added++
	now := q.clock.Now()
	item = &Item{Pod: pod, Group: group, Added: now, order: q.added, at: outside, state: Unschedulable, ready: now.Add(idle), held: true}
	q.items[pod.UID] = item
	q.claiming[item] = true
	q.waiting.add(item)
	q.count(q.arrival(pod), Unschedulable)
	q.poke() // the popper's timer must know
}

// Delete forgets a pod.
func (q *Queue) Delete(uid types.UID) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.gated, uid)
	if item, ok := q.items[uid]; ok {
		delete(q.items, uid)
		q.withdraw(item)
	}
}

// withdraw takes an item out of the heap that it is in.
func (q *Queue) withdraw(item *Item) {
	delete(q.unschedulable, item)
	delete(q.claiming, item)
	delete(q.sociable, item)
	if item.at == outside {
		return
	}
	if item.state != Active {
		q.heap(item).remove(item)
		return
	}
	g := q.groups[item.Group]
	g.remove(item)
	q.settle(item.Group, g)
}

// heap is where an item waits that is not active.
func (q *Queue) heap(item *Item) *ordered[*Item] {
	if item.eager {
		return &q.eager
	}
	return &q.waiting
}

// settle puts a group that has lost items in its place again.
func (q *Queue) settle(key uint64, g *group) {
	if g.empty() {
		q.active.remove(g)
		delete(q.groups, key)
		return
	}
	q.active.fix(g)
}

// Wake makes all pods that no node could take worth another try, once their
// back-off is over or nothing else is to be done.
func (q *Queue) Wake(event Event) { q.WakeFor(event, func(*corev1.Pod, string) bool { return true }) }

// WakeFor does the same for those of the pods for which helps is true of what refused them, as Fail was told, or for which that is not known: a node came or
// changed, or a pod left. It asks once for all that can be placed as one and were refused by the same.
func (q *Queue) WakeFor(event Event, helps func(pod *corev1.Pod, cause string) bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.wakes++
	if q.told = append(q.told, helps); len(q.told) > remembered {
		q.told = slices.Delete(q.told, 0, 1)
	}
	type question struct {
		group uint64
		cause string
	}
	verdicts := map[question]bool{}
	for item := range q.unschedulable {
		asked := question{item.Group, item.cause}
		verdict, known := verdicts[asked]
		if !known {
			verdict = item.cause == "" || helps(item.Pod, item.cause)
			verdicts[asked] = verdict
		}
		if verdict {
			q.backOff(item, event)
		}
	}
}

// WakeClaiming does the same for those of the pods that use claims and that match: what they claim has changed.
func (q *Queue) WakeClaiming(event Event, match func(pod *corev1.Pod) bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stores++
	for item := range q.claiming {
		if match(item.Pod) {
			q.backOff(item, event)
		}
	}
}

// WakeSociable does the same for those of the pods that look at others and that match: others have come, or are not as they were. It asks once for
// all that can be placed as one.
func (q *Queue) WakeSociable(event Event, match func(pod *corev1.Pod) bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.moves++
	verdicts := map[uint64]bool{}
	for item := range q.sociable {
		verdict, asked := verdicts[item.Group]
		if !asked {
			verdict = match(item.Pod)
			verdicts[item.Group] = verdict
		}
		if verdict {
			q.backOff(item, event)
		}
	}
}

// sociable reports whether where a pod may go depends on the pods of other nodes.
func sociable(pod *corev1.Pod) bool {
	a := pod.Spec.Affinity
	return a != nil && (a.PodAffinity != nil || a.PodAntiAffinity != nil) || len(pod.Spec.TopologySpreadConstraints) > 0
}

// Fail puts an item that Pop returned back after an attempt that found no
// node. retriable says that the attempt failed for another reason (a write
// that was refused), so that it needs no change to be worth another try.
func (q *Queue) Fail(popped *Item, retriable bool) { q.FailFor(popped, retriable, "", "") }

// FailFor does the same, and says what refused the pod: only what may change that wakes it; "" is not known. Those that are blamed are for who
// counts, and wake nobody.
func (q *Queue) FailFor(popped *Item, retriable bool, cause, blamed string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	item := popped.self
	if q.items[item.Pod.UID] != item {
		return
	}
	item.taken, item.eager, item.Flushed, item.cause, item.blamed = false, false, false, cause, blamed
	item.Attempts++
	item.ready = q.clock.Now().Add(q.backoffs.after(item.Attempts))
	claiming := storage.UsesClaims(item.Pod) || device.MayUse(item.Pod)
	looking := sociable(item.Pod) || q.also != nil && q.also(item.Pod)
	if retriable {
		item.state = Backoff
		q.count(Failed, Backoff)
		q.waiting.add(item)
		q.poke()
		return
	}
	if q.woken(item) || claiming && item.stores != q.stores || looking && item.moves != q.moves { // something changed while it was being tried
		item.state = Backoff
		q.backOff(item, Failed)
		return
	}
	q.count(Failed, Unschedulable)
	item.state, item.ready = Unschedulable, q.clock.Now().Add(idle)
	q.unschedulable[item] = true
	if claiming {
		q.claiming[item] = true
	}
	if looking {
		q.sociable[item] = true
	}
	q.waiting.add(item)
	q.poke() // the popper's timer must know
}

// Woken reports whether anything has woken pods since an item was popped.
func (q *Queue) Woken(popped *Item) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return popped.self.wakes != q.wakes
}

// woken reports whether something has changed for an item while it was being tried.
func (q *Queue) woken(item *Item) bool {
	missed := q.wakes - item.wakes
	if missed > len(q.told) {
		return true
	}
	return slices.ContainsFunc(q.told[len(q.told)-missed:], func(helps func(*corev1.Pod, string) bool) bool {
		return item.cause == "" || helps(item.Pod, item.cause)
	})
}

// backOff moves an item, which something has changed for, to the active ones when its back-off is over, or nothing else is to be done.
func (q *Queue) backOff(item *Item, event Event) {
	until := item.ready
	if item.state == Unschedulable {
		until = item.ready.Add(-idle).Add(q.backoffs.after(item.Attempts))
	}
	if !until.After(q.clock.Now()) {
		q.activate(item, event)
		return
	}
	q.count(event, Backoff)
	q.withdraw(item)
	item.state, item.ready, item.eager = Backoff, until, true
	q.eager.add(item)
	q.poke() // the popper's timer must know
}

// after is the back-off after so many attempts.
func (b Backoffs) after(attempts int) time.Duration {
	if attempts == 0 { // it was held, and never tried
		return 0
	}
	wait := b.First
	for range attempts - 1 {
		if wait >= b.Last/2 {
			return b.Last
		}
		wait *= 2
	}
	return min(wait, b.Last)
}

func (q *Queue) activate(item *Item, event Event) {
	q.withdraw(item)
	q.count(event, Active)
	if item.Since.IsZero() {
		item.Since = q.clock.Now()
	}
	item.state, item.held, item.eager = Active, false, false
	g, ok := q.groups[item.Group]
	if !ok {
		g = &group{ordered[*Item]{before: sooner}, outside}
		q.groups[item.Group] = g
	}
	g.add(item)
	if g.at == outside {
		q.active.add(g)
	} else {
		q.active.fix(g)
	}
	q.poke()
}

func (q *Queue) poke() {
	select {
	case q.signal <- struct{}{}:
	default:
	}
}

// Pop waits for the pod of the highest priority that came first, and returns
// it with all active pods of its group, at most limit. It returns nil when
// ctx ends. The items do not change any more. Each must be given back with
// Fail, or its pod deleted.
func (q *Queue) Pop(ctx context.Context, limit int) []*Item {
	for {
		items, wait := q.take(limit)
		if len(items) > 0 {
			return items
		}
		timer := q.clock.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-q.signal:
		case <-timer.C():
		}
		timer.Stop()
	}
}

// take returns the next group, or how long to wait for the next back-off to end.
func (q *Queue) take(limit int) ([]*Item, time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	wait := q.expire()
	if q.active.empty() {
		if q.eager.empty() {
			return nil, wait
		}
		q.hasten()
	}
	g := q.active.first()
	key := g.first().Group
	var items []*Item
	for len(items) < limit && !g.empty() {
		item := g.first()
		g.remove(item)
		item.taken, item.wakes, item.stores, item.moves = true, q.wakes, q.stores, q.moves
		copied := *item // the queue's own follows the pod while this one is being tried
		copied.self = item
		items = append(items, &copied)
	}
	q.settle(key, g)
	return items, 0
}

// expire activates the items whose wait is over and returns the time to the
// next one.
func (q *Queue) expire() time.Duration {
	now, next := q.clock.Now(), idle
	for _, heap := range []*ordered[*Item]{&q.waiting, &q.eager} {
		for !heap.empty() {
			item := heap.first()
			if left := item.ready.Sub(now); left > 0 {
				next = min(next, left)
				break
			}
			event := BackedOff
			if item.state == Unschedulable {
				event, item.Flushed = TimedOut, true
			}
			q.activate(item, event)
		}
	}
	return next
}

// hasten activates those whose back-off ends in the first second in which any does.
func (q *Queue) hasten() {
	second := q.eager.first().ready.Truncate(time.Second)
	for !q.eager.empty() && q.eager.first().ready.Truncate(time.Second).Equal(second) {
		q.activate(q.eager.first(), Hastened)
	}
}

// Lookup returns where a pod waits and how often it was tried; "" where it
// does not wait.
func (q *Queue) Lookup(uid types.UID) (State, int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	item, ok := q.items[uid]
	if !ok {
		return "", 0
	}
	return item.state, item.Attempts
}

// Counts returns how many pods wait in each state; one that is being tried does not.
func (q *Queue) Counts() map[State]int {
	q.mu.Lock()
	defer q.mu.Unlock()
	counts := map[State]int{Active: 0, Backoff: 0, Unschedulable: 0, Gated: len(q.gated)}
	for _, item := range q.items {
		switch {
		case item.taken:
		case item.held:
			counts[Gated]++
		default:
			counts[item.state]++
		}
	}
	return counts
}
